"""Saved operands: what autograd kept for the backward pass was still the same when it was used."""

from __future__ import annotations

import math

from backproof.verify.equation import NotChecked, Result
from backproof.verify.region import label
from backproof.verify.subject import Subject


def check_saved(subject: Subject) -> None:
    """Every change that was noticed: of what was saved it breaks the step, of anything else it takes the numbers away."""
    makers = subject.makers
    for found in subject.step.altered:
        value, by = int(found["value"]), found["by"]
        made = subject.spoken(value)
        if found["saved"] and by in makers:
            because = f"{made}, was changed after it was saved for the backward pass, and nothing told autograd"
            numbers = ("broken", math.inf, math.inf, 0.0, 0.0, 0.0, 0.0)
            subject.verdict.add(Result("saved operand", label(makers[by]), f"{value}", *numbers, because=because))
        else:
            why = "its numbers were changed by something unseen before they could be written"
            subject.verdict.add(NotChecked(made, why))

"""Adam's step counter is the step's number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.rules.r22_moments import applies
from backproof.rules.rule import Ledger, Mutation, Rule, Violation


def equations(ledger: Ledger) -> Iterator[Violation]:
    """t = step_index + 1, where there is an index."""
    layout = ledger.layout
    t, index = layout.setting("t"), layout.shape.column("step_index")
    if index < 0:
        return
    numbers = ledger.columns.numbers
    for row in np.flatnonzero(numbers[:, t] != numbers[:, index] + 1.0).tolist():
        said, expected = float(numbers[row, t]), float(numbers[row, index]) + 1.0
        yield Violation(row, "optimizer_config.t", "is not step_index + 1", said, expected, column=t)


RULE = Rule(
    23,
    "adam-time",
    "t = step_index + 1",
    "A counter that is off by one changes the bias correction, most of all in the first steps.",
    applies=applies,
    equations=equations,
    mutations=(Mutation("the counter is off by one", "adam-bundle", "1.optimizer_config.t", "set:3"),),
)

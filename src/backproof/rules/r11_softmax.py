"""The outputs of a softmax sum to one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.rules.ball import BALLS, Ball
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """p(last) = 1 − Σ other p."""
    layout = ledger.layout
    out = layout.of_units("out", layout.outputs)
    if out.size < 2:
        return
    others = BALLS.total(ledger.ball(out[:-1]), axis=-1)[:, None]
    one = Ball(np.ones(others.shape), np.zeros(others.shape), ledger.unit)
    name = ("forward[output_units].out (sum)",)
    yield Equation(out[-1:], one - others, "the outputs of a softmax sum to 1", (out,), layout.outputs[-1:], name)


RULE = Rule(
    11,
    "softmax-sum",
    "Σ p(o) = 1",
    "Outputs that were tampered with one at a time no longer sum to one.",
    applies=lambda layout: layout.softmax,
    equations=equations,
    mutations=(Mutation("one probability is nudged", "softmax", "forward.o2.out", "nudge"),),
)

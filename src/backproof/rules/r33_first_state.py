"""Before its first step an optimizer has no memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.rules.r22_moments import applies
from backproof.rules.rule import Ledger, Mutation, Rule, Violation


def equations(ledger: Ledger) -> Iterator[Violation]:
    """At t = 1 both of Adam's moments are exactly 0."""
    layout = ledger.layout
    first = ledger.columns.numbers[:, layout.setting("t")] == 1.0
    for key in ("m", "v"):
        values = ledger.values(layout.updates.column("optimizer", "state_before", key))
        for row, i in zip(*(first[:, None] & (values != 0.0) & ~np.isnan(values)).nonzero(), strict=True):
            place = f"updates[{i}].optimizer.state_before.{key}"
            said = float(values[row, i])
            yield Violation(int(row), place, "t is 1, so nothing came before", said, 0.0, layout.updates.ids[i])


RULE = Rule(
    33,
    "first-state",
    "t = 1 implies m = v = 0 before the step",
    "Moments that were not reset carry one run into another.",
    applies=applies,
    equations=equations,
    mutations=(Mutation("a moment was not reset", "adam", "updates.0.optimizer.state_before.m", "set:0.001"),),
)

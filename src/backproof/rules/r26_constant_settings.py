"""The settings of an optimizer stay the same through a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from backproof.receipt.authoring.checks import SETTINGS
from backproof.rules.across import Pairs, pairs
from backproof.rules.rule import Ledger, Mutation, Rule, Violation


def equations(ledger: Ledger) -> Iterator[Violation]:
    """Name and settings, but for the learning rate and t, are those of the step before."""
    for pair in pairs(ledger):
        now, before = ledger.layout.shape, pair.earlier.layout.shape
        if (now.get("optimizer_config") is None) != (before.get("optimizer_config") is None):
            yield Violation(int(pair.rows[0]), "optimizer_config", "only some records have settings")
            continue
        if now.get("optimizer_config") is None:
            continue
        for key in ("name", "nesterov"):
            said, expected = now.get("optimizer_config", key), before.get("optimizer_config", key)
            if said != expected:
                message = "is not what the step before says"
                yield Violation(int(pair.rows[0]), f"optimizer_config.{key}", message, said, expected)
        yield from _numbers(ledger, pair)


def _numbers(ledger: Ledger, pair: Pairs) -> Iterator[Violation]:
    for key in sorted(set(SETTINGS.get(ledger.layout.optimizer, ())) - {"t", "nesterov"}):
        now, before = ledger.layout.setting(key), pair.earlier.layout.setting(key)
        if now < 0 and before < 0:
            continue
        said = ledger.columns.numbers[pair.rows, now]
        expected = pair.earlier.columns.numbers[pair.earlier_rows, before]
        if key == "dampening" and before < 0:
            expected = np.where(_is_first(pair), said, expected)
        for row in (said != expected).nonzero()[0]:
            message = "is not what the step before says"
            place = f"optimizer_config.{key}"
            yield Violation(int(pair.rows[row]), place, message, float(said[row]), float(expected[row]))


def _is_first(pair: Pairs) -> NDArray[np.bool_]:
    """Whether the earlier records are first steps, whose buffers were still 0.

    PyTorch does not dampen a first step; a receipt of it has no dampening, and the ones after it have.
    """
    buffers = pair.earlier.layout.updates.column("optimizer", "state_before", "buffer")
    return np.all(pair.earlier.values(buffers)[pair.earlier_rows] == 0.0, axis=-1)


RULE = Rule(
    26,
    "constant-settings",
    "all settings but the learning rate and t are the same in every record",
    "Schedules change the rate. A beta that changes in the middle is another run.",
    equations=equations,
    across=True,
    mutations=(Mutation("a beta changes", "adam-bundle", "1.optimizer_config.beta1", "nudge"),),
)

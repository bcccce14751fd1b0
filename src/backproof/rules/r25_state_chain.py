"""An optimizer starts from the state that the step before it left."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from backproof.engine.scalar_domain import Positions
from backproof.rules.across import Pairs, pairs
from backproof.rules.layout import Layout
from backproof.rules.r14_replay import STATE
from backproof.rules.rule import Equation, Ledger, Mutation, Rule, Violation

FAMILY = {"adam": "adam", "adamw": "adam", "sgd_momentum": "momentum"}


def equations(ledger: Ledger) -> Iterator[Equation | Violation]:
    """state_before(i) = state_after(i − 1); t(i) = t(i − 1) + 1."""
    layout, updates = ledger.layout, ledger.layout.updates
    family = FAMILY.get(layout.optimizer)
    for pair in pairs(ledger):
        if family is None or FAMILY.get(pair.earlier.layout.optimizer) != family:
            continue
        for key in STATE[layout.optimizer]:
            source = partial(_state_after, key=key, names=updates.ids)
            said = updates.column("optimizer", "state_before", key)
            yield pair.equation(said, source, "the state that the step before left", updates.ids)
        yield from _missing(pair, updates.ids)
        if family == "adam":
            yield from _time(ledger, pair)


def _state_after(layout: Layout, *, key: str, names: tuple[str, ...]) -> Positions:
    return layout.updates.of_parameters("optimizer", "state_after", key, names=names)


def _missing(pair: Pairs, ids: tuple[str, ...]) -> Iterator[Violation]:
    earlier = set(pair.earlier.layout.updates.ids)
    for i, name in enumerate(ids):
        if name not in earlier:
            message = "the step before left no state of this parameter"
            yield Violation(int(pair.rows[0]), f"updates[{i}].optimizer.state_before", message, id=name)


def _time(ledger: Ledger, pair: Pairs) -> Iterator[Violation]:
    now, before = ledger.layout.setting("t"), pair.earlier.layout.setting("t")
    for row, earlier in zip(pair.rows, pair.earlier_rows, strict=True):
        said = float(ledger.columns.numbers[row, now])
        expected = float(pair.earlier.columns.numbers[earlier, before]) + 1.0
        if said != expected:
            message = "is not one more than the step before"
            yield Violation(int(row), "optimizer_config.t", message, said, expected, column=now)


RULE = Rule(
    25,
    "state-chain",
    "state_before(i) = state_after(i − 1)",
    "A state that is lost on a restart or shared between models trains on, and is wrong.",
    equations=equations,
    across=True,
    mutations=(Mutation("a moment is reset", "adam-bundle", "1.updates.0.optimizer.state_before.m", "zero"),),
)

"""An optimizer's settings are there, within their ranges, and every update carries its state."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.receipt.authoring.checks import RANGES, SETTINGS
from backproof.rules.layout import STATEFUL, Layout, is_number
from backproof.rules.r14_replay import NEEDED, STATE
from backproof.rules.rule import Keys, Label, Ledger, Mutation, Read, Rule, Violation, Wrong


def applies(layout: Layout) -> bool:
    """A receipt with settings, or with an optimizer that needs them."""
    has_settings = layout.shape.get("optimizer_config") is not None
    return has_settings or bool(layout.updates.using(*STATEFUL).size)


def labels(layout: Layout) -> Iterator[Label | Keys | Wrong | Read]:
    """Settings and states are complete, and nothing but theirs."""
    shape = layout.shape
    if shape.get("optimizer_config") is None:
        yield Wrong("optimizer_config", "is missing, but the updates name an optimizer that has settings")
        return
    name = layout.optimizer
    yield Read((("optimizer_config", "name"), ("optimizer_config", "nesterov"), ("optimizer_config", "t")))
    for key in NEEDED.get(name, ()):
        if layout.setting(key) < 0:
            yield Wrong(f"optimizer_config.{key}", f"is missing; {name} needs it")
    for key in shape.mapping("optimizer_config"):
        if key not in {"name", "learning_rate", *SETTINGS.get(name, ())}:
            yield Wrong(f"optimizer_config.{key}", f"is no setting of {name}")
    for i, parameter in enumerate(layout.updates.ids):
        said = layout.updates.names[i]
        yield Label(("updates", i, "optimizer", "name"), said, name, "the optimizer of the settings", parameter)
        yield from _states(layout, i, parameter, STATE.get(said, ()))


def _states(layout: Layout, i: int, parameter: str, keys: tuple[str, ...]) -> Iterator[Keys | Wrong]:
    for state in ("state_before", "state_after"):
        held = layout.shape.mapping("updates", i, "optimizer", state)
        place = f"updates[{i}].optimizer.{state}"
        if not keys and layout.shape.get("updates", i, "optimizer", state) is not None:
            yield Wrong(place, "plain SGD keeps no state", None, None, parameter)
        for key in keys:
            if not is_number(held.get(key)):
                yield Wrong(f"{place}.{key}", "is missing or no number", None, "a number", parameter)
        for key in held:
            if keys and key not in keys:
                yield Wrong(f"{place}.{key}", "is no state of this optimizer", key, None, parameter)


def equations(ledger: Ledger) -> Iterator[Violation]:
    """Settings lie in their ranges; second moments are not negative."""
    layout = ledger.layout
    for key, (says, holds) in RANGES.items():
        column = layout.setting(key)
        for row in range(ledger.columns.size if column >= 0 else 0):
            value = float(ledger.columns.numbers[row, column])
            if not holds(value):
                yield Violation(row, f"optimizer_config.{key}", f"must be {says}", value)
            elif key == "dampening" and value and layout.nesterov:
                yield Violation(row, f"optimizer_config.{key}", "Nesterov momentum has no dampening", value, 0.0)
    for state in ("state_before", "state_after"):
        columns = layout.updates.column("optimizer", state, "v")
        negative = ledger.values(columns) < 0.0
        for row, i in zip(*negative.nonzero(), strict=True):
            place = f"updates[{i}].optimizer.{state}.v"
            yield Violation(int(row), place, "a second moment is not negative", float(ledger.values(columns)[row, i]))


RULE = Rule(
    20,
    "optimizer",
    "settings are complete and in range; every update has its optimizer's state",
    "Settings that do not belong to the optimizer are a sign that another one ran.",
    applies=applies,
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("the settings are gone", "momentum", "optimizer_config", "drop"),
        Mutation("one update names another optimizer", "adam", "updates.0.optimizer.name", 'set:"adamw"'),
        Mutation("a state is gone", "adam", "updates.0.optimizer.state_before.m", "drop"),
    ),
)

"""Settings on which the recorded numbers depend too little for a change to show: they are not checked, and are listed so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from backproof.engine.scalar import apply_optimizer
from backproof.engine.scalar_domain import Positions
from backproof.receipt.authoring.checks import RANGES
from backproof.receipt.columns import Path
from backproof.rules.ball import BALLS, Ball
from backproof.rules.observed import observed_update
from backproof.rules.r14_replay import NEEDED, STATE, optimizer_of
from backproof.rules.rule import Ledger

CHANGE = 0.01  # of a setting; of t, which is whole, 1
SETTINGS = ("learning_rate", *RANGES)
ENOUGH = 16  # records of a block to look at: a setting is checked if any of them shows it


class Weak(NamedTuple):
    """A number on which the others depend too little for a change of it to show."""

    path: Path
    because: str


def weak_settings(ledger: Ledger) -> Iterator[Weak]:
    """The settings that could be others without any update or state leaving its bound."""
    if ledger.columns.size > ENOUGH:
        ledger = Ledger(ledger.columns.only(np.arange(ENOUGH)), ledger.layout)
    layout, updates = ledger.layout, ledger.layout.updates
    keys = STATE.get(layout.optimizer, ())
    columns = [updates.column("gradient"), updates.column("weight_before")]
    columns += [updates.column("optimizer", "state_before", key) for key in keys]
    said = [updates.column("update"), updates.column("weight_after")]
    said += [updates.column("optimizer", "state_after", key) for key in keys]
    needed = ("learning_rate", *NEEDED.get(layout.optimizer, ()))
    places = {key: ("learning_rate",) if key == "learning_rate" else ("optimizer_config", key) for key in SETTINGS}
    numbers = {key: path for key, path in places.items() if layout.shape.column(*path) >= 0}
    if any((each < 0).any() for each in (*columns, *said)) or not numbers.keys() >= set(needed):
        return  # what is missing has its own finding
    gradient, weight, *state = (ledger.ball(each) for each in columns)
    optimizer = optimizer_of(ledger, {"learning_rate": ledger.ball(layout.one("learning_rate"))})
    for key, path in numbers.items():
        other: dict[str, Any] = {key: _changed(key, getattr(optimizer, key))}
        with np.errstate(all="ignore"):
            update, after, states = apply_optimizer(
                BALLS, optimizer._replace(**other), weight, gradient, dict(zip(keys, state, strict=True))
            )
            update = observed_update(ledger, np.arange(len(updates.ids)), update)
            found = (update, after, *states.values())
            shows = any(_shows(ledger, *pair) for pair in zip(said, found, strict=True))
        if not shows:
            how = "another one" if key == "t" else f"a change of {CHANGE:.0%}"
            yield Weak(path, f"no update and no state here would show {how}")


def _changed(key: str, setting: Ball) -> Ball:
    """Another value of a setting."""
    if key == "t":
        return setting + 1.0
    moved = (1.0 - CHANGE) * setting
    return Ball(np.where(moved.mid == 0.0, CHANGE, moved.mid), moved.rad, moved.unit)


def _shows(ledger: Ledger, said: Positions, found: Ball) -> bool:
    """Whether a recorded number would not lie in the ball that is derived for it."""
    return bool((np.abs(ledger.values(said) - found.mid) > found.rad + ledger.radius(said)).any())

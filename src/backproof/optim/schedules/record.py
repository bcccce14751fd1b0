"""What a schedule is: the learning rate after a step of the scheduler, from its recorded configuration and the rate before.

A schedule is a recurrence, because that is how schedulers act when they are chained: each multiplies what it finds. Where there is a
closed form as well, it is what the mathematics says, and what a sequence of schedules restarts a member with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backproof.errors import InputError

Config = Mapping[str, Any]
"""What the scheduler's `state_dict()` says, and what it leaves out: its class under "class" (members have theirs), the functions of a
LambdaLR under "lambdas" (each {"function": its name, and its keywords}), and "own_scale" where a CyclicLR has a function of its own."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a scheduler stands: its step k, one of the optimizer's groups, and the rate that the group has."""

    k: int
    """0 when the scheduler is made, then one more with each of its steps."""
    lr: float
    """The rate before this step."""
    index: int = 0
    """Which group."""
    group: Mapping[str, Any] = field(default_factory=dict)
    """The group's own numbers: max_lr, min_lr, swa_lr, max_momentum, base_momentum."""
    first: bool = False
    """Whether the scheduler is being made, and this is its step 0."""
    metric: float | None = None
    """What it was told, where it is told something."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a group has after the step."""

    lr: float
    momentum: float | None = None
    """Of schedules that move the momentum (or β₁) as well."""


@dataclass(frozen=True)
class Schedule:
    """A schedule: its name, its rule in a line, and the rule."""

    name: str
    says: str
    follow: Callable[[Config, Moment], Rate]
    """The rate after the step, from the rate before it."""
    closed: Callable[[Config, Moment], Rate] | None = None
    """The rate after the step from the first one alone, where there is such a form."""


def of(config: Config, key: str) -> Any:
    """A number of the configuration."""
    if key not in config:
        raise InputError(
            f"schedule {config.get('class', '?')}: its configuration has no {key}; it has {', '.join(config)}"
        )
    return config[key]


def of_group(at: Moment, key: str) -> float:
    """A number of the group."""
    if key not in at.group:
        raise InputError(f"group {at.index} has no {key}; it has {', '.join(at.group)}")
    return float(at.group[key])


def base(config: Config, at: Moment) -> float:
    """The rate that the group had when the scheduler was made."""
    rates = of(config, "base_lrs")
    if at.index >= len(rates):
        raise InputError(
            f"schedule {config.get('class', '?')} has base_lrs for {len(rates)} groups, and this is group {at.index}"
        )
    return float(rates[at.index])

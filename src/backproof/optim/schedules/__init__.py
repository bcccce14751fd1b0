"""The table of schedules: learning rates as recurrences over recorded configurations. What is not in it is refused by name."""

from __future__ import annotations

from backproof.errors import UsageError
from backproof.optim.schedules.compound import compounds
from backproof.optim.schedules.factors import FACTORS, LAMBDA
from backproof.optim.schedules.plateau import PLATEAU, plateau_state
from backproof.optim.schedules.powers import POWERS
from backproof.optim.schedules.record import Config, Moment, Rate, Schedule, of
from backproof.optim.schedules.waves import WAVES

REFUSED: dict[str, str] = {
    "MultiplicativeLR": "its factors are a function that only the program has",
    "GreedyLR": "it has no formula in the table",
}


def schedule_named(name: str) -> Schedule:
    """The schedule of this class, with or without its module."""
    short = name.rpartition(".")[2]
    if short in SCHEDULES:
        return SCHEDULES[short]
    raise UsageError(
        f"schedule {name!r}: {REFUSED.get(short, 'it is not in the table')}; there are {', '.join(SCHEDULES)}"
    )


SCHEDULES: dict[str, Schedule] = {
    schedule.name: schedule for schedule in (*POWERS, *WAVES, LAMBDA, PLATEAU, *compounds(schedule_named))
}


def next_rate(config: Config, at: Moment) -> Rate:
    """What a group has after a step of the scheduler that is recorded so."""
    return schedule_named(of(config, "class")).follow(config, at)


__all__ = [
    "FACTORS",
    "REFUSED",
    "SCHEDULES",
    "Config",
    "Moment",
    "Rate",
    "Schedule",
    "next_rate",
    "plateau_state",
    "schedule_named",
]

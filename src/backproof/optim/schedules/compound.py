"""Schedules made of schedules: one after the other in time, or one on top of the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

from backproof.errors import InputError
from backproof.optim.schedules.record import Config, Moment, Rate, Schedule, base, of

Named = Callable[[str], Schedule]


def member_at(c: Config, k: int) -> tuple[int, int]:
    """Which member of a sequence has step k, and which step of its own that is."""
    milestones = of(c, "_milestones")
    index = bisect_right(milestones, k)
    return index, k - (milestones[index - 1] if index else 0)


def compounds(named: Named) -> tuple[Schedule, ...]:
    """The schedules of schedules, given the table in which their members are looked up."""

    def sequence(c: Config, at: Moment) -> Rate:
        index, k = member_at(c, at.k)
        member = of(c, "_schedulers")[index]
        if "_schedulers" in member:
            raise InputError(
                "SequentialLR: a member that is made of schedules itself has no step of its own to restart at"
            )
        rule = named(of(member, "class"))
        if at.k == 0:  # all members have acted while they were made; then the first rate is put back
            return rule.follow(member, replace(at, k=0, lr=base(member, at), first=True))
        if k == 0:
            return (rule.closed or rule.follow)(member, replace(at, k=0))
        return rule.follow(member, replace(at, k=k))

    def chain(c: Config, at: Moment) -> Rate:
        found = Rate(at.lr)
        for member in of(c, "_schedulers"):
            step = named(of(member, "class")).follow(member, replace(at, lr=found.lr))
            found = Rate(step.lr, found.momentum if step.momentum is None else step.momentum)
        return found

    return (
        Schedule("SequentialLR", "member i from milestone i on, each counting from 0", sequence),
        Schedule("ChainedScheduler", "each member on what the one before it leaves", chain),
    )

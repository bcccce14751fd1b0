"""Learning rates: each step of a scheduler is its schedule's, and each update has the rate that the last one left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.errors import BackproofError
from backproof.numerics import FORMATS, gamma
from backproof.optim.schedules import Moment, Rate, next_rate, schedule_named
from backproof.trace.handling import Scheduled
from backproof.verify.equation import NotChecked, Result, judged
from backproof.verify.subject import Subject
from backproof.verify.update import plain

ROUNDINGS = 64
"""No schedule rounds a rate more often, and none of its terms is larger than the largest rate that it knows."""


def check_schedules(subject: Subject) -> None:
    """Every step of every scheduler since the step before."""
    for event in subject.step.scheduled:
        try:
            for found in _event(event):
                subject.verdict.add(found)
        except BackproofError as reason:
            subject.verdict.add(NotChecked(f"learning rate of {event.config.get('class', '?')}", str(reason)))


def _event(event: Scheduled) -> Iterator[Result | NotChecked]:
    if event.k not in (event.since + 1, 0) and not _goes_anywhere(event):
        why = f"the scheduler went from its step {event.since} to {event.k}"
        yield NotChecked(f"learning rate of {event.config.get('class', '?')}", why)
        return
    for index, (before, after) in enumerate(zip(event.before, event.after, strict=True)):
        config = plain(event.config)
        at = Moment(event.k, before["lr"], index, {**before}, first=event.k == 0, metric=event.metric)
        rate = next_rate(config, at)
        place = f"{config.get('class', '?')} (group {index})"
        room = _room(config, before, after)
        result = _judged(place, "lr", after["lr"], rate.lr, room)
        if result.verdict == "broken":
            result = replace(result, cause=_cause(config, at, after["lr"], room))
        yield result
        momentum = after.get("momentum", after.get("beta1"))
        if rate.momentum is not None and momentum is not None:
            yield _judged(place, "momentum", momentum, rate.momentum, _rounding("float64"))


def _goes_anywhere(event: Scheduled) -> bool:
    """Whether a scheduler was told an epoch, of those that follow from that alone."""
    return event.metric is not None and event.config.get("class") == "CosineAnnealingWarmRestarts"


def _judged(place: str, what: str, claimed: float, derived: float, room: float) -> Result:
    bound = np.asarray(room)
    found = judged(np.asarray(float(claimed)), Bound(np.asarray(float(derived)), bound, bound))
    return Result("schedule", place, what, *found)


def _rounding(name: str) -> float:
    return float(gamma(ROUNDINGS, FORMATS[name].unit))


def _room(config: Mapping[str, Any], *groups: Mapping[str, float]) -> float:
    """How far a rate may be off: a rate that the program keeps as a tensor rounds as that does."""
    kept = str(config.get("lr_format", "float64"))
    return _rounding(kept if kept in FORMATS else "float64") * _largest(config, *groups)


def _largest(config: Mapping[str, Any], *groups: Mapping[str, float]) -> float:
    """The largest rate that a schedule knows."""
    known = [abs(float(x)) for key in ("base_lrs", "max_lrs") for x in config.get(key, ())]
    known += [abs(float(group[key])) for group in groups for key in ("lr", "max_lr", "initial_lr") if key in group]
    return max(known, default=1.0)


def _cause(config: Mapping[str, Any], at: Moment, claimed: float, room: float) -> str:
    """Which other schedule gives the rate that was found."""
    for says, other, moment in _hypotheses(config, at):
        for rate in _rates(other, moment):
            if _judged("", "", claimed, rate.lr, room).verdict != "broken":
                return says
    return "the rate did not change" if claimed == at.lr else ""


def _rates(config: Mapping[str, Any], at: Moment) -> Iterator[Rate]:
    """The rate after a step, from the rate before it and from the first one."""
    try:
        rule = schedule_named(str(config.get("class", "")))
        yield rule.follow(config, at)
        if rule.closed is not None:
            yield rule.closed(config, at)
    except (BackproofError, ArithmeticError, IndexError, KeyError, ValueError):
        return  # a schedule that cannot be so is no hypothesis


def _hypotheses(config: Mapping[str, Any], at: Moment) -> Iterator[tuple[str, Mapping[str, Any], Moment]]:
    yield from _members(config, at)
    for by, says in ((-1, "one step late"), (1, "one step early")):
        yield f"the rate is {says}", config, replace(at, k=at.k + by, first=False)
    for by in (-1, 1):
        if "lambdas" in config:
            moved = [
                {**each, "num_warmup_steps": each["num_warmup_steps"] + by} if each.get("num_warmup_steps") else each
                for each in config["lambdas"]
            ]
            yield f"the warm-up is off by one: {by:+d}", {**config, "lambdas": moved}, at
        if "total_iters" in config:
            yield f"the warm-up is off by one: {by:+d}", {**config, "total_iters": config["total_iters"] + by}, at
    for index in range(len(config.get("base_lrs", ()))):
        if index != at.index:
            yield f"the rate is group {index}'s", config, replace(at, index=index)


def _members(config: Mapping[str, Any], at: Moment) -> Iterator[tuple[str, Mapping[str, Any], Moment]]:
    """Of a sequence: it changes at another step; or another member's rate, at its own step or at that of the sequence."""
    for by in (-1, 1):
        if "_milestones" in config:
            moved = [milestone + by for milestone in config["_milestones"]]
            yield "the wrong member of the sequence: it changes one step off", {**config, "_milestones": moved}, at
    for number, member in enumerate(config.get("_schedulers", ())):
        for k in {at.k, *(at.k - milestone for milestone in config.get("_milestones", ()))}:
            if k >= 0:
                says = f"the wrong member of the sequence: member {number}, {member.get('class')}"
                yield says, member, replace(at, k=k)

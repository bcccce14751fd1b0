"""Which known mistake explains an update that does not hold: each hypothesis is derived like the rule itself, and must hold in its place.

A hypothesis that holds in every element is the name of the mistake. Where none does, the one that the residual leans on is named, if it
takes nearly all of it away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from backproof.errors import BackproofError
from backproof.optim.derive import UPDATE, derive, value_of_step
from backproof.optim.mistakes import Given, hypotheses, matched
from backproof.trace.step import Step, Update
from backproof.verify.update import Subject, judged_as

NEARLY_ALL = 1e-2
"""What a hypothesis that does not hold everywhere may leave of the residual, to be named."""
MOST_OTHERS = 12
"""Other parameters of the same shape that are tried."""


class Updating(Protocol):
    """What of an update is needed here."""

    step: Step
    update: Update
    tensors: Any

    def subject(self, group: Mapping[str, Any], name: str) -> Subject:
        """Another parameter of the update."""

    def gradient(self, name: str) -> Any:
        """Its gradient."""


def cause_of(subject: Subject, update: Updating, group: Mapping[str, Any]) -> str:
    """A sentence; empty where no known mistake explains it."""
    shared = _shared(subject, update)
    if shared:
        return f"state is shared with {shared}"
    right = value(subject)
    near: list[tuple[float, str]] = []
    for says, changed in _all(subject, update, group):
        try:
            found = derive(
                changed.optimizer,
                changed.gradient,
                changed.parameter,
                changed.state,
                changed.hyper,
                changed.count,
                changed.formats,
            )
        except BackproofError:
            continue
        if all(
            judged_as(subject.claimed[what], each).verdict != "broken"
            for what, each in found.items()
            if what in subject.claimed
        ):
            return says
        near.append((_left(subject, right, found[UPDATE].value), says))
    near.extend((_left(subject, right, wrong), says) for says, wrong in _simulated(subject))
    least, says = min(near, default=(1.0, ""))
    return says if least <= NEARLY_ALL else _scaled(subject, right)


def value(subject: Subject) -> Any:
    """The update as the rule has it."""
    found = value_of_step(
        subject.optimizer, subject.gradient, subject.parameter, subject.state, subject.hyper, subject.count
    )
    return found[UPDATE]


def _left(subject: Subject, right: Any, wrong: Any) -> float:
    """How much of the residual is left when a hypothesis is taken away, if the residual leans on it as a whole."""
    residual = subject.claimed[UPDATE] - right
    lean = matched(subject.claimed[UPDATE], right, wrong)
    size = float(np.sum(residual**2))
    if not size or not 0.99 < lean < 1.01:
        return 1.0
    return float(np.sum((residual - (wrong - right)) ** 2)) / size


def _all(subject: Subject, update: Updating, group: Mapping[str, Any]) -> Iterator[tuple[str, Subject]]:
    yield from _rules(subject)
    yield from _earlier(subject, update)
    yield from _others(subject, update, group)


def _rules(subject: Subject) -> Iterator[tuple[str, Subject]]:
    """The rule with another setting."""
    given = Given(
        subject.optimizer, subject.hyper, subject.count, subject.gradient, subject.state, subject.formats.computing
    )
    for mistake, changed in hypotheses(given):
        says = f"{mistake.name.replace('_', ' ')}: {mistake.says}"
        yield (
            says,
            subject.having(hyper=changed.hyper, count=changed.t, gradient=changed.gradient, state=changed.state),
        )


def _earlier(subject: Subject, update: Updating) -> Iterator[tuple[str, Subject]]:
    """The gradient as it was at an earlier moment of the step."""
    last = update.update.grads[subject.name]
    for moment in update.step.moments:
        number = moment.grads.get(subject.name)
        if number is not None and number != last:
            gradient = update.tensors[f"v{number}"].astype(np.float64)
            yield f"stale gradient: the one after {moment.kind} was applied", subject.having(gradient=gradient)


def _others(subject: Subject, update: Updating, group: Mapping[str, Any]) -> Iterator[tuple[str, Subject]]:
    """What belongs to another parameter or group."""
    tried = 0
    for other_group in update.update.groups:
        if other_group["lr"] != group["lr"]:
            yield (
                f"another group's learning rate, {other_group['lr']}, was applied",
                subject.having(hyper={**subject.hyper, "lr": other_group["lr"]}),
            )
        for name in other_group["params"]:
            if name == subject.name or update.update.grads.get(name) is None or tried >= MOST_OTHERS:
                continue
            try:
                other = update.subject(other_group, name)
            except BackproofError:
                continue
            if other.parameter.shape != subject.parameter.shape:
                continue
            tried += 1
            yield f"another parameter's gradient, that of {name}, was applied", subject.having(gradient=other.gradient)
            yield f"another parameter's state, that of {name}, was used", subject.having(state=other.state)


def _shared(subject: Subject, update: Updating) -> str:
    """Another parameter that was left with the very same state."""
    own = {key: x for key, x in subject.claimed.items() if key in subject.state and np.size(x) > 1}
    if not any(np.any(x) for x in own.values()):
        return ""
    for group in update.update.groups:
        for name in group["params"]:
            if name == subject.name or update.update.grads.get(name) is None:
                continue
            try:
                claimed = update.subject(group, name).claimed
            except BackproofError:
                continue
            if all(key in claimed and np.array_equal(x, claimed[key]) for key, x in own.items()):
                return str(name)
    return ""


def _simulated(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Updates that no single step of the rule makes."""
    first = value_of_step(
        subject.optimizer, subject.gradient, subject.parameter, subject.state, subject.hyper, subject.count
    )
    once = first.pop(UPDATE)
    after, state = first.pop("parameter"), {key: first[key] for key in subject.state if key in first}
    for later in (subject.count, subject.count + 1):
        try:
            second = value_of_step(
                subject.optimizer, subject.gradient, after, state or subject.state, subject.hyper, later
            )
        except BackproofError:
            continue
        yield "updated twice: the parameter took the step two times", once + second[UPDATE]
    decay = subject.hyper.get("weight_decay")
    if decay:
        part = -subject.hyper["lr"] * decay * subject.parameter
        residual = subject.claimed[UPDATE] - once
        size = float(np.sum(part * part))
        times = round(float(np.sum(residual * part)) / size) if size else 0
        if times:
            yield (
                f"decay repeated: it was applied {abs(times)} more times" if times > 0 else "decay was taken off again",
                once + times * part,
            )


def _scaled(subject: Subject, right: Any) -> str:
    """A factor, where that explains nearly all."""
    claimed = subject.claimed[UPDATE]
    norm = float(np.sum(right * right))
    factor = float(np.sum(claimed * right)) / norm if norm else 0.0
    residual, left = float(np.sum((claimed - right) ** 2)), float(np.sum((claimed - factor * right) ** 2))
    if residual and left <= NEARLY_ALL * residual:
        return f"the update is {factor:.6g} times what it should be"
    return ""

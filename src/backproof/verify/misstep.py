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
            after = {key: np.asarray(x, dtype=np.float64) for key, x in other.claimed.items() if key in subject.state}
            if after.keys() == subject.state.keys() and after:
                yield f"state is shared with {name}", subject.having(state=after)
                between = _between(subject, other)
                if between is not None:
                    yield f"state is shared with {name}", between


def _between(subject: Subject, other: Subject) -> Subject | None:
    """Two parameters with one state: what it was after the other's step and before this one's; and the count with it."""
    if any(not np.array_equal(subject.claimed[key], other.claimed[key]) for key in subject.state):
        return None
    found = value_of_step(other.optimizer, other.gradient, other.parameter, subject.state, other.hyper, subject.count)
    state = {
        key: np.asarray(found[key], dtype=subject.storage if subject.storage != "bfloat16" else "float64")
        for key in subject.state
    }
    return subject.having(state={key: x.astype(np.float64) for key, x in state.items()}, count=subject.count + 1)


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

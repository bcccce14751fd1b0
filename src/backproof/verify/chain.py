"""From one step to the next: parameters and optimizer state are what the step before left, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from backproof.trace.folder import StepTensors
from backproof.trace.step import Step, Update
from backproof.verify.equation import Judgement, NotChecked, Result
from backproof.verify.remarks import Suspect

Tensors = Mapping[str, Any]
Linked = Iterator[Result | NotChecked | Suspect]


def check_chain(before: Step, left: Tensors, after: Step, found: Tensors) -> Linked:
    """Two steps, one after the other. Where a run was resumed, what is another is a practice: a program may begin elsewhere."""
    resumed = bool(after.facts.get("resumed"))
    if after.index != before.index + 1:
        why = f"the steps from {before.index + 1} to {after.index - 1} were not recorded"
        yield NotChecked(f"chain from step {before.index}", why)
        return
    parameters = list(_parameters(before, left, after, found))
    state = list(_state(before, left, after, found))
    if not resumed:
        yield from parameters
        yield from state
        return
    yield from (link for link in (*parameters, *state) if link.verdict == "holds")
    moved = [link.place for link in parameters if link.verdict != "holds"]
    lost = [link for link in state if link.verdict != "holds"]
    if moved:
        yield _suspect("resumed-elsewhere", moved, "not what the last recorded step left", after)
    if lost:
        said = "not what the last recorded step left" if lost[0].because != GONE else "gone"
        yield _suspect("optimizer-state-lost", [f"{link.probe} of {link.place}" for link in lost], said, after)


GONE = "the step before left it, and it is not there any more"
CHANGED = "it is not what the step before left"


def _suspect(practice: str, names: list[str], said: str, step: Step) -> Suspect:
    from backproof.verify.practices import practice_named

    row = practice_named(practice)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Suspect(row.name, f"{shown}: {said}", row.advice, row.name in step.facts.get("intended", ()))


def _parameters(before: Step, left: Tensors, after: Step, found: Tensors) -> Iterator[Result]:
    last = last_parameters(before, left)
    for name, key in first_parameters(after, found).items():
        if name in last:
            yield _link(name, "parameter", left[last[name]], found[key], same=_is_one(left, last[name], found, key))


def last_parameters(step: Step, tensors: Tensors) -> dict[str, str]:
    """parameter → the key of what it was at the end of a step: what an update left, or what the program made of it since."""
    came = {
        int(moment.given["update"]): moment.given.get("values") for moment in step.moments if moment.kind == "update"
    }
    names = {value.name for number, value in step.values.items() if _is_parameter(step, number)}
    last = {value.name: (number, f"v{number}") for number, value in step.values.items() if value.name in names}
    for number, update in enumerate(step.updates):
        found = came.get(number)
        at = len(step.values) if found is None else int(found)
        for name in (name for group in update.groups for name in group["params"]):
            if name not in last or last[name][0] < at:
                last[name] = at, f"u{number}:after:parameter:{name}"
    return {name: key for name, (_, key) in last.items() if key in tensors}


def first_parameters(step: Step, tensors: Tensors) -> dict[str, str]:
    """parameter → the key of what it was at the beginning of a step."""
    first: dict[str, str] = {}
    for number, value in step.values.items():
        if _is_parameter(step, number):
            first.setdefault(value.name, f"v{number}")
    for number, update in enumerate(step.updates):
        for group in update.groups:
            for name in group["params"]:
                first.setdefault(name, f"u{number}:before:parameter:{name}")
    return {name: key for name, key in first.items() if key in tensors}


def _is_parameter(step: Step, number: int) -> bool:
    value = step.values[number]
    return bool(value.name) and value.origin == "parameter"


def _state(before: Step, left: Tensors, after: Step, found: Tensors) -> Iterator[Result]:
    for which in dict.fromkeys(update.which for update in after.updates):
        last, first = _numbered(before, which, -1), _numbered(after, which, 0)
        if last is None or first is None:
            continue
        for name, keys in last[1].state.items():
            if name not in first[1].grads:
                continue
            for what in keys:
                old, new = f"u{last[0]}:after:{what}:{name}", f"u{first[0]}:before:{what}:{name}"
                if old in left:
                    now = found[new] if new in found else None  # noqa: SIM401 # a file of tensors refuses what it does not have
                    yield _link(name, what, left[old], now, same=_is_one(left, old, found, new))


def _numbered(step: Step, which: int, place: int) -> tuple[int, Update] | None:
    """The first or last update of an optimizer."""
    own = [(number, update) for number, update in enumerate(step.updates) if update.which == which]
    return own[place] if own else None


def _is_one(left: Tensors, old: str, found: Tensors, new: str) -> bool:
    """Whether the later step has no numbers of its own there, and refers to what the earlier one has."""
    if not isinstance(left, StepTensors) or not isinstance(found, StepTensors):
        return False
    return new in found and left.home(old) == found.home(new)


def _link(name: str, what: str, old: Any, new: Any, *, same: bool) -> Result:
    same = same or (
        new is not None and old.shape == new.shape and np.array_equal(old, new, equal_nan=old.dtype.kind == "f")
    )
    because = "" if same else GONE if new is None else CHANGED
    ratio = 0.0 if same else np.inf
    numbers = (0.0, 0.0)
    if not same and new is not None and old.shape == new.shape:
        at = np.unravel_index(int(np.argmax(old != new)), old.shape)
        numbers = (float(new[at]), float(old[at]))
    found = Judgement("holds" if same else "broken", ratio, ratio, 0.0, *numbers, 0.0, ())
    return Result("chain", name, what, *found, because=because, parameter=name)

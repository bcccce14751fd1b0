"""What becomes of a parameter's gradient: its scaling, the optimizer's step, and the link to the step before. One side by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.errors import BackproofError
from backproof.numerics import FORMATS
from backproof.optim import OPTIMIZERS
from backproof.optim.derive import UPDATE, Formats, derive, first_state
from backproof.optim.record import Optimizer
from backproof.optim.torch_names import hyper_of, record_of, state_of, torch_optimizer
from backproof.trace.event import Place
from backproof.verify.equation import judged
from backproof.verify.kernels import HALVES
from backproof.verify.traces.hints import hints_of
from backproof.verify.traces.local import OF_ANOTHER_SHAPE, Local, Locals, Rule, domain, local_of
from backproof.verify.traces.side import Side

OPTIMIZER, SCALING, CHAIN = "the optimizer", "the scaling", "the step before"
GROUPS, COUNT = "groups", "step"


def updater(place: Place) -> str:
    """What makes a parameter's update and its state, by name."""
    return f"the update of {place.probe}.{place.parameter if place.phase == 'w_after' else place.parameter.rpartition('.')[0]}"


def check_scaling(locals_: Locals) -> None:
    """grad_scaled = grad_raw / batch."""
    side = locals_.side
    for place in _of(side, "grad_scaled"):
        raw = Place(place.probe, "grad_raw", place.parameter)
        if not side.has(raw):
            locals_.unchecked[place] = f"not recorded: {raw}"
        elif side.told.batch is None:
            locals_.unchecked[place] = "the batch is not told"
        elif side.told.handled:
            locals_.unchecked[place] = (
                "gradients were changed between the backward pass and the optimizer, or their scale is not known"
            )
        else:
            value = side.tensor(raw) / side.told.batch
            storage = side.format(place) or FORMATS["float64"]
            # By 1/B as a number of the format, or by B: three roundings at most.
            room = 3 * (storage.unit + FORMATS["float64"].unit) * np.abs(value) + storage.underflow
            locals_.judge(place, Bound(value, room, room), SCALING)


def check_chain(locals_: Locals, earlier: Side | None) -> None:
    """What a step begins with is what the one before ended with, to the last bit."""
    if earlier is None:
        return
    for phase, ended in (("w_before", "w_after"), ("opt_before", "opt_after")):
        for place in _of(locals_.side, phase):
            before = Place(place.probe, ended, place.parameter)
            if earlier.has(before):
                locals_.judge(place, Bound(earlier.tensor(before).astype(np.float64)), CHAIN)


def check_updates(locals_: Locals, first: bool) -> None:
    """Each parameter's update and new state, from the old ones, the gradient and the settings that are told."""
    side = locals_.side
    for place in _of(side, "w_after"):
        try:
            _update(locals_, place, first)
        except BackproofError as reason:
            locals_.unchecked[place] = str(reason)


def _of(side: Side, phase: str) -> list[Place]:
    return sorted(place for place in side.places if place.phase == phase)


def _update(locals_: Locals, place: Place, first: bool) -> None:
    side = locals_.side
    told = _settings(side.told.optimizer, f"{place.probe}.{place.parameter}")
    if not told:
        locals_.unchecked[place] = "the optimizer is not told"
        return
    old, gradient = (Place(place.probe, phase, place.parameter) for phase in ("w_before", "grad_scaled"))
    for needed in (old, gradient):
        if not side.has(needed):
            locals_.unchecked[place] = f"not recorded: {needed}"
            return
    storage = side.format(place) or FORMATS["float64"]
    optimizer, hyper, rename = _rule(told, storage.name)
    settings = optimizer.settings(hyper)
    said = ", ".join(f"{key} {value}" for key, value in settings.items())
    locals_.rules[updater(place)] = Rule((optimizer.name, settings), f"{optimizer.name} ({said})")
    held = _state(side, place, "opt_before")
    count = int(held.pop(COUNT, np.zeros(()))) + 1 if COUNT in held else int(told.get(COUNT, side.step.index + 1))
    parameter = side.stored(old).astype(np.float64)
    for other in (gradient, place):
        if _lengths(side.stored(other)) != _lengths(parameter):
            shapes = f"{list(side.stored(other).shape)}, and {old} {list(parameter.shape)}"
            locals_.unchecked[place] = f"{other} has the shape {shapes}"
            return
    fresh = not held and bool(optimizer.state_fields(settings, parameter.shape))
    if fresh and not first:
        locals_.unchecked[place] = "the optimizer's state before this step was not recorded"
        return
    state = {**first_state(optimizer, parameter.shape, hyper, storage.name), **rename(held)}
    computing = side.computing(place)
    claims = _claims(side, place, parameter, rename)
    tries = []
    for numbers, remark in _ways(settings, computing):
        found = derive(
            optimizer,
            side.stored(gradient)
            .astype(np.float64)
            .reshape(parameter.shape),  # as the program had it: its scale is a convention of traces
            parameter,
            {key: np.asarray(value, dtype=np.float64).reshape(np.shape(value)) for key, value in state.items()},
            numbers,
            count if held or first else 2,
            Formats(
                computing,
                "float32" if computing in HALVES else None,
                storage.name if storage.name != computing else None,
            ),
        )
        tries.append(
            {at: _judged(side, at, claim, found[key], remark) for key, (at, claim) in claims.items() if key in found}
        )
        if not _broken(tries[-1]):
            break
    best = min(tries, key=_broken)  # of several that explain as much, the plainest
    locals_.found.update(best)
    note = "no optimizer state was recorded before the first step; it is taken to be fresh"
    if fresh and note not in locals_.assumed:
        locals_.assumed.append(note)


def _broken(found: Mapping[Place, Local]) -> int:
    """How much a way of keeping numbers leaves unexplained."""
    return sum(one.verdict == "broken" for one in found.values())


def _ways(settings: Mapping[str, Any], computing: str) -> Iterator[tuple[dict[str, Any], str]]:
    """How a program may keep the numbers that it was told: exactly, or in the format that it computes in, where 1 − β is another number."""
    yield dict(settings), ""
    if computing == "float64":
        return
    tensors = {"tensors": True} if "tensors" in settings else {}
    if tensors:
        yield {**settings, **tensors}, f"with its bias corrections computed in {computing}"
    rounded = {
        key: float(FORMATS[computing].round(value)) if isinstance(value, float) else value
        for key, value in settings.items()
    }
    yield {**rounded, **tensors}, f"with its settings kept in {computing}"


def _claims(side: Side, place: Place, parameter: Any, rename: Any) -> dict[str, tuple[Place, Any]]:
    """What is claimed of an update, by the name of what is derived: how far the parameter moved, and the new state."""
    found = {UPDATE: (place, side.stored(place).astype(np.float64).reshape(parameter.shape) - parameter)}
    after = rename({key: value for key, value in _state(side, place, "opt_after").items() if key != COUNT})
    for key, value in after.items():
        there = Place(place.probe, "opt_after", f"{place.parameter}.{_original(side, place, key, rename)}")
        found[key] = there, np.asarray(value, dtype=np.float64)
    return found


def _lengths(x: Any) -> tuple[int, ...]:
    """A shape but for its axes of size 1."""
    return tuple(n for n in np.shape(x) if n != 1)


def _judged(side: Side, place: Place, claimed: Any, derived: Any, remark: str) -> Local:
    if _lengths(claimed) != _lengths(derived.value):
        because = f"the rule gives the shape {list(derived.value.shape)}, and recorded is {list(claimed.shape)}"
        return local_of(side, place, OF_ANOTHER_SHAPE, OPTIMIZER, because)
    claimed = claimed.reshape(derived.value.shape)
    bound, storage = Bound(derived.value, derived.certain, derived.likely), side.format(place)
    if storage is not None and storage.precision < FORMATS[side.computing(place)].precision:
        bound = domain(side.computing(place)).cast(bound, to=storage.name)
    numbers = judged(claimed, bound)
    broken = numbers.verdict == "broken"
    hints = tuple(hints_of(claimed, derived.value, side.told.batch)) if broken else ()
    return local_of(side, place, numbers, OPTIMIZER, remark, hints)


def _settings(told: Mapping[str, Any], parameter: str) -> dict[str, Any]:
    """The settings of one parameter: those of its group, and for the rest those of all."""
    found = {key: value for key, value in told.items() if key != GROUPS}
    for group in told.get(GROUPS, ()):
        if isinstance(group, dict) and parameter in group.get("parameters", ()):
            found.update({key: value for key, value in group.items() if key != "parameters"})
    return found


def _rule(told: Mapping[str, Any], parameter: str) -> tuple[Optimizer, dict[str, Any], Any]:
    """The optimizer's record, its settings, and how its state is named."""
    name = str(told.get("name", ""))
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in told.items()}
    given = {key: value for key, value in given.items() if key not in ("name", COUNT)}
    if name in OPTIMIZERS:
        record = OPTIMIZERS[name]
        return record, record.settings(given), dict
    named = torch_optimizer(name)
    return record_of(named), hyper_of(named, given, parameter), lambda state: state_of(named, state)


def _state(side: Side, place: Place, phase: str) -> dict[str, Any]:
    start = f"{place.parameter}."
    return {
        one.parameter.removeprefix(start): side.stored(one)
        for one in side.places
        if one.probe == place.probe and one.phase == phase and one.parameter.startswith(start)
    }


def _original(side: Side, place: Place, key: str, rename: Any) -> str:
    """The name under which a state was recorded."""
    for name in _state(side, place, "opt_after"):
        if name != COUNT and key in rename({name: np.zeros(())}):
            return name
    return key

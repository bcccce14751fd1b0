"""Pairing: which tensors of two sides belong together, and what has no counterpart, another shape, or cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from backproof.errors import InputError
from backproof.trace.event import Place, parse
from backproof.trace.manifest import Manifest
from backproof.verify.traces.gap import Gap, gap
from backproof.verify.traces.hints import layout_hint
from backproof.verify.traces.outcome import Finding
from backproof.verify.traces.side import Side

Array = np.ndarray[Any, Any]


@dataclass
class Paired:
    """What can be compared, in no order yet, and what was found on the way."""

    gaps: dict[Place, Gap] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def allowed_by(patterns: Sequence[str], place: Place) -> bool:
    """Whether a place is one of those that are known to be absent."""
    names = (str(place), place.column, place.key)
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def pair(a: Side, b: Side, allow: Sequence[str], tick: Callable[[], None], *, first: bool = False) -> Paired:
    """Every pair of tensors of a step, and their gaps. Before the first step an optimizer may have no state yet, or one of zeros."""
    found, step = Paired(), a.step.index
    for side, other in ((a, b), (b, a)):
        found.findings.extend(_listed(side, other, allow))
    for place in sorted(a.places | b.places, key=lambda one: (one.column, one.sample is not None, one.sample or 0)):
        tick()
        lacking = [side for side in (a, b) if not side.has(place)]
        if lacking:
            if first and _is_fresh(place, a if lacking[0] is b else b):
                says = f"{place} is zero before the first step, and {lacking[0].name} has none yet"
                found.findings.append(Finding("fresh", step, place, lacking[0].name, says))
            elif not _in_parts(lacking[0], place) and not _part_of_a_number(lacking[0], place):
                known = allowed_by(allow, place)
                listed = lacking[0].step.stored.keys() - lacking[0].step.keys.keys()
                says = f"{place} was not recorded by {lacking[0].name}"
                says += ", though its manifest lists it" if place.key in listed else ""
                found.findings.append(Finding("missing", step, place, lacking[0].name, says, allowed=known))
            continue
        if _whole_is_in_parts(a, b, place):
            continue
        tensors = _read(place, a, b, found)
        if tensors is not None:
            _compare(place, tensors, a, b, found)
    return found


def _is_fresh(place: Place, side: Side) -> bool:
    """Whether a state of an optimizer is what it begins with."""
    try:
        return place.phase == "opt_before" and not np.any(side.stored(place))
    except InputError:
        return False


def _in_parts(side: Side, place: Place) -> bool:
    """Whether a tensor of the whole batch was recorded sample by sample."""
    return place.sample is None and place.column in side.sampled


def _part_of_a_number(side: Side, place: Place) -> bool:
    """Whether the whole batch has one number for what the other side has for each sample, as a mean loss."""
    whole = Place(place.probe, place.phase, place.parameter)
    return place.sample is not None and whole in side.places and not side.step.raw(whole).shape


def _whole_is_in_parts(a: Side, b: Side, place: Place) -> bool:
    """Whether one side has single samples too, which are compared instead."""
    return (
        place.sample is None
        and place in a.places
        and place in b.places
        and (_in_parts(a, place) or _in_parts(b, place))
    )


def _listed(side: Side, other: Side, allow: Sequence[str]) -> Iterator[Finding]:
    """What the manifest lists and is not there, and what is there and not listed."""
    step, listed = side.step, side.step.stored
    for name in step.unnamed:
        says = f"{side.name}: {name} is not named like a tensor, and was not read"
        yield Finding("stale", step.index, None, side.name, says)
    if not listed:
        return
    for key in listed:
        if key not in step.keys and key not in other.step.keys:
            place = parse(key)
            says = f"{side.name}: {key} is listed in the manifest, and not there"
            yield Finding("unlisted", step.index, place, side.name, says, allowed=allowed_by(allow, place))
    for key, place in step.keys.items():
        if key not in listed:
            says = f"{side.name}: {key} is there, and the manifest does not list it: another run may have left it"
            yield Finding("stale", step.index, place, side.name, says)


def _read(place: Place, a: Side, b: Side, found: Paired) -> tuple[Array, Array] | None:
    tensors = []
    for side in (a, b):
        try:
            tensors.append(side.stored(place))
            misfit = side.step.misfit(place) if place in side.places else ""
            if misfit:
                says = f"{side.name}: {place}: {misfit}: another run may have left it"
                found.findings.append(Finding("stale", a.step.index, place, side.name, says))
        except InputError as error:
            found.findings.append(Finding("unreadable", a.step.index, place, side.name, str(error)))
            side.hide(place)
    return (tensors[0], tensors[1]) if len(tensors) == 2 else None


def _compare(place: Place, tensors: tuple[Array, Array], a: Side, b: Side, found: Paired) -> None:
    x, y = tensors
    step = a.step.index
    if x.shape != y.shape:
        hint = layout_hint(x, y)
        says = f"{place}: {a.name} has the shape {list(x.shape)}, {b.name} {list(y.shape)}" + (
            f": {hint}" if hint else ""
        )
        found.findings.append(
            Finding("layout" if hint else "shape", step, place, "", says, hints=(hint,) if hint else ())
        )
        return
    if (x.dtype.kind == "f") != (y.dtype.kind == "f") and not _whole_numbers(x, y):
        says = f"{place}: {a.name} holds {x.dtype}, {b.name} {y.dtype}"
        found.findings.append(Finding("dtype", step, place, "", says))
        return
    left, right = (_in_convention(side, place, tensor) for side, tensor in ((a, x), (b, y)))
    measured = gap(left, right)
    if measured.unlike:
        side = a if measured.nonfinite[0] > measured.nonfinite[1] else b if measured.nonfinite[1] else a
        at = np.unravel_index(measured.at, x.shape) if x.shape else ()
        says = (
            f"{place}: {measured.unlike} elements are not finite on one side only, the first at {[int(i) for i in at]}"
        )
        found.findings.append(Finding("nonfinite", step, place, side.name, says, gap=measured))
    elif measured.nonfinite[0]:
        says = f"{place}: {measured.nonfinite[0]} elements are not finite, on both sides alike"
        found.findings.append(Finding("both-nonfinite", step, place, "both", says, gap=measured))
    found.gaps[place] = measured


def _in_convention(side: Side, place: Place, tensor: Array) -> Array:
    factor = side.factor(place.phase)
    return tensor if factor == 1.0 or tensor.dtype.kind != "f" else tensor.astype(np.float64) * factor


def _whole_numbers(x: Array, y: Array) -> bool:
    """Whether the one that is of floats holds whole numbers alone, as labels are sometimes kept."""
    floats = x if x.dtype.kind == "f" else y
    return bool(np.isfinite(floats).all() and np.all(floats == np.rint(floats)))


def grouped(findings: Sequence[Finding]) -> list[Finding]:
    """What was found alike in several samples as one, at the first of them, with the numbers of the worst."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        column = finding.place.column if finding.place else finding.says
        groups.setdefault((finding.kind, finding.step, column, finding.side, finding.allowed), []).append(finding)
    found = []
    for members in groups.values():
        samples = tuple(sorted(one.place.sample for one in members if one.place and one.place.sample is not None))
        found.append(replace(members[0], samples=samples))
    return found


def told_differently(a: Manifest, b: Manifest, names: tuple[str, str]) -> Iterator[Finding]:
    """Where both sides tell their mathematics, and not the same."""
    theirs = b.by_name
    for probe in a.probes:
        other = theirs.get(probe.name)
        if other is None or not probe.kind or not other.kind:
            continue
        place = Place(probe.name, "fwd")
        if probe.kind != other.kind:
            says = f"{probe.name}: {names[0]} tells {probe.kind}, {names[1]} {other.kind}"
            yield Finding("told", 0, place, "", says, by=probe.name)
        for key in sorted({*probe.hyper} & {*other.hyper}):
            if _plain(probe.hyper[key]) != _plain(other.hyper[key]):
                says = f"{probe.name}: {key} is {probe.hyper[key]!r} in {names[0]}, {other.hyper[key]!r} in {names[1]}"
                yield Finding("told", 0, place, "", says, by=probe.name)
    for key in sorted({*a.optimizer} & {*b.optimizer} - {"name"}):
        if _plain(a.optimizer[key]) != _plain(b.optimizer[key]):
            says = f"the optimizer's {key} is {a.optimizer[key]!r} in {names[0]}, {b.optimizer[key]!r} in {names[1]}"
            yield Finding("told", 0, None, "", says, by="the optimizer")
    if a.batch is not None and b.batch is not None and a.batch != b.batch:
        yield Finding("told", 0, None, "", f"the batch is {a.batch} in {names[0]}, {b.batch} in {names[1]}")


def _plain(value: object) -> object:
    """A hyper-parameter whichever way it is written: one number for every axis is that number; some keep numbers in float32."""
    if isinstance(value, (list, tuple)):
        parts = [_plain(one) for one in value]
        return parts[0] if parts and all(one == parts[0] for one in parts) else parts
    return float(np.float32(value)) if isinstance(value, (int, float)) and not isinstance(value, bool) else value

"""Random masks, recovered: what a dropout dropped is read from what went in and what came out, and then must be what it dropped backward.

An element that was zero says nothing forward: kept and dropped are the same number. What came back to it decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.lowering import canonical
from backproof.lowering.masks import DROPOUTS, Dropout
from backproof.lowering.memory import positions_of
from backproof.trace.step import Call, gradient_key
from backproof.verify.equation import Result
from backproof.verify.region import Unlowered, label, values_in
from backproof.verify.subject import Subject

RARE = 1e-12
"""The probability with which the share of an honest mask may be called broken (Hoeffding's inequality)."""
NAMES = ("input", "p", "training", "inplace")


@dataclass(frozen=True)
class Recovered:
    """A mask, and where it is not known from what came out."""

    call: Call
    mask: int
    unsure: Any


def drops(call: Call) -> bool:
    """Whether a call drops numbers at random."""
    name = canonical(call.op).removesuffix("_")
    if name not in DROPOUTS:
        return False
    given = _given(call)
    return bool(given.get("training", True)) and float(given.get("p", 0.5)) > 0


def with_mask(subject: Subject, call: Call) -> Recovered:
    """The call with its mask as one more thing that it reads."""
    kind, given = DROPOUTS[canonical(call.op).removesuffix("_")], _given(call)
    if not (isinstance(given["input"], dict) and subject.stored(call.outputs[0])):
        raise Unlowered("its mask cannot be recovered: what came out was not recorded")
    x, y, p = given["input"]["value"], call.outputs[0], float(given.get("p", 0.5))
    mask, unsure = _read(kind, _exactly(subject, x), subject.array(f"v{y}").astype(np.float64), p)
    _check_share(subject, call, mask, unsure, p)
    number = subject.add(Bound(mask), "bool")
    args: list[Any] = [{"value": x}, {"value": number}, kind.name, p]
    return Recovered(replace(call, op="masked_dropout", args=args, kwargs={}), number, unsure)


def _exactly(subject: Subject, value: int) -> Any:
    """A value as it was recorded, or as it was only moved from what was."""
    if subject.stored(value):
        return subject.array(f"v{value}").astype(np.float64)
    found = subject.derived.get(value)
    if found is None or (found.certain is not None and np.any(found.certain)):
        raise Unlowered("its mask cannot be recovered: what went in was not recorded")
    return np.asarray(found.value)


def undecided(subject: Subject, found: Recovered | None) -> bool:
    """Whether the mask waits for what comes back."""
    if found is None or not found.unsure.any():
        return False
    subject.undecided[subject.bearer(found.call.args[0]["value"])] += 1
    return True


def decide(subject: Subject, found: Recovered, passing: int) -> bool:
    """Where what came out does not tell, what came back does, once all else that came back is known. False if it cannot."""
    x, y = found.call.args[0]["value"], found.call.outputs[0]
    bearer, arrived = subject.bearer(x), subject.gradient(y, passing)
    if arrived is None or not found.unsure.any() or not subject.wants(x, passing):
        return True
    came = _came_back(subject, x, bearer, passing)
    if came is None or subject.undecided[bearer] > 1:
        return False
    kind, p = DROPOUTS[found.call.args[2]], found.call.args[3]
    total = subject.totals.get((bearer, passing))
    others = 0.0 if total is None else sum(part.value for part in total.derived())
    given = arrived.value if isinstance(arrived, Bound) else arrived.astype(np.float64)
    over, under = kind.scale(p)
    with np.errstate(all="ignore"):
        through = given * (over / under) if under else given * 0.0
        left = came.astype(np.float64) - others
        axes = _axes(found.unsure.shape, given.shape)
        nearer = np.sum((left - through) ** 2, axis=axes, keepdims=True) < np.sum(left**2, axis=axes, keepdims=True)
    known = subject.derived[found.mask].value
    subject.derived[found.mask] = Bound(np.where(found.unsure, nearer.reshape(known.shape), known))
    return True


def _came_back(subject: Subject, x: int, bearer: int, passing: int) -> Any:
    """What came back to a value; to a view that was read only to be written, what came back to its base."""
    key, maker = gradient_key(bearer, passing), subject.makers.get(x)
    if key in subject.tensors or maker is None or maker.op != "seen_through":
        return subject.array(key) if key in subject.tensors else None
    base, lies = maker.args[0]["value"], [maker.args[i]["lies"] for i in (1, 2)]
    readers = [
        call.op
        for call in subject.step.calls
        if base in values_in(call.given)
        and any(subject.reached(y, passing) or subject.value(y).inner for y in call.outputs)
    ]
    key = gradient_key(subject.bearer(base), passing)
    if (
        key not in subject.tensors
        or not {*readers} <= {"seen_through", "written_through"}
        or readers.count("seen_through") > 1
    ):
        return None
    found = subject.array(key)
    return (
        found.reshape(-1)[positions_of(lies[1], lies[0])] if found.size == math.prod(subject.value(x).shape) else None
    )


def _given(call: Call) -> dict[str, Any]:
    return {**dict(zip(NAMES, call.args, strict=False)), **call.kwargs}


def _read(kind: Dropout, x: Any, y: Any, p: float) -> tuple[Any, Any]:
    """The mask that is nearest to what came out; and where both are as near."""
    over, under = kind.scale(p)
    whole = kind.whole(x.shape)
    axes = _axes(whole, x.shape)
    with np.errstate(all="ignore"):
        kept = x * (over / under) + kind.shift(p) if under else np.full(x.shape, np.nan)
        dropped = sum(kind.dropped(p))
        near, far = np.abs(y - kept), np.abs(y - dropped)
        near, far = (np.sum(np.where(np.isnan(e), np.inf, e), axis=axes, keepdims=True) for e in (near, far))
        unsure = np.all(kept == dropped, axis=axes, keepdims=True)
    return (near < far).reshape(whole), unsure.reshape(whole)


def _axes(whole: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, (a, b) in enumerate(zip(whole, shape, strict=True)) if a != b)


def _check_share(subject: Subject, call: Call, mask: Any, unsure: Any, p: float) -> None:
    """As many are dropped as p says, up to what chance does but once in 1/RARE."""
    n = int(np.count_nonzero(~unsure))
    if n == 0:
        return
    dropped = int(np.count_nonzero(~mask & ~unsure))
    allowed = math.sqrt(n * math.log(2 / RARE) / 2)
    gap = abs(dropped - n * p)
    verdict = "broken" if gap > allowed else "holds"
    because = f"{dropped} of {n} were dropped, where p is {p}" if gap > allowed else ""
    place = f"{call.outputs[0]}"
    slope = dropped / (n * p) - 1
    ratio = gap / allowed if p < 1 else 0.0 if gap == 0 else math.inf
    verdict = "broken" if ratio > 1 else verdict
    subject.verdict.add(
        Result("mask", label(call), place, verdict, ratio, ratio, slope, dropped, n * p, allowed, because=because)
    )

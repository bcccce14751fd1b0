"""Mistakes that the numbers show by themselves: a factor, a sign, a transpose, a part that is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.numerics import FORMATS
from backproof.verify.equation import Evidence, judged
from backproof.verify.origin import Origin
from backproof.verify.region import label


@dataclass(frozen=True, slots=True)
class Pattern:
    """A mistake, and what tells it."""

    name: str
    find: Callable[[Evidence], str]
    """The cause in a few words, or nothing."""


def holds(claimed: Any, derived: Bound) -> bool:
    """Whether a claim is within the certain bound."""
    return judged(claimed, derived).verdict in ("holds", "noise")


def changed(derived: Bound, move: Callable[[Any], Any]) -> Bound:
    """A derived value and its bounds, moved about."""
    value, certain, likely = (None if a is None else move(a) for a in (derived.value, derived.certain, derived.likely))
    return Bound(value, certain, likely)


def _zero(evidence: Evidence) -> str:
    return "" if np.any(evidence.claimed) else "it is zero everywhere"


def _factor(evidence: Evidence) -> str:
    """claimed = k·derived, for a k that is no rounding."""
    y, c = evidence.derived.value, np.asarray(evidence.claimed, dtype=np.float64)
    with np.errstate(all="ignore"):
        size = float(np.vdot(y, y))
        k = float(np.vdot(c, y)) / size if size > 0 else np.nan
    if not np.isfinite(k) or k == 0:
        return ""
    known = _known_factor(k, evidence)
    if known is None and y.size < FEWEST:
        return ""  # a factor explains any one number
    factor = k if known is None else float(known)
    unit = FORMATS[evidence.format].unit
    room = abs(factor) * (0.0 if evidence.derived.certain is None else evidence.derived.certain)
    if not holds(c, Bound(factor * y, *2 * (room + 8 * unit * abs(factor * y),))):
        return ""
    return f"it is {_spoken(known, k)} what was derived"


FEWEST = 8  # numbers that must agree on a factor that has no name


def _known_factor(k: float, evidence: Evidence) -> Fraction | None:
    """The factor as −1, 2 or 1/2, or as n, 1/n, n/(n − 1) or (n − 1)/n of a size that occurs."""
    sizes = {size for size in _sizes(evidence) if size > 1}
    known = [Fraction(-1), Fraction(2), Fraction(1, 2)]
    known += [Fraction(sign * n) ** power for n in sizes for power in (1, -1) for sign in (1, -1)]
    known += [Fraction(n, n - 1) ** power for n in sizes for power in (1, -1)]
    return next((found for found in known if abs(float(found) - k) <= CLOSE * abs(k)), None)


CLOSE = 1e-5


def _sizes(evidence: Evidence) -> set[int]:
    """The numbers of things that a mean may have been over."""
    shapes = [np.shape(evidence.claimed)]
    shapes += [leaf.type.shape for origin in evidence.origins for leaf in origin.graph.leaves]
    singles = {size for shape in shapes for size in shape}
    return singles | {int(np.prod(shape)) for shape in shapes} | {a * b for a in singles for b in singles}


def _spoken(known: Fraction | None, k: float) -> str:
    if known == -1:
        return "−1 times"
    return f"{known} times" if known is not None else f"{k:.6g} times"


def _transposed(evidence: Evidence) -> str:
    shape = np.shape(evidence.claimed)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        return ""
    turned = changed(evidence.derived, lambda a: np.swapaxes(np.broadcast_to(a, shape), -1, -2))
    return "it is transposed" if holds(evidence.claimed, turned) else ""


def _moved(evidence: Evidence) -> str:
    """Rolled by one along an axis, or reversed."""
    shape = np.shape(evidence.claimed)
    for axis in range(len(shape)):
        for by, how in ((1, "shifted by one"), (-1, "shifted by one")):
            if shape[axis] > 1 and holds(evidence.claimed, changed(evidence.derived, _roll(shape, by, axis))):
                return f"it is {how} along axis {axis}"
        if shape[axis] > 1 and holds(evidence.claimed, changed(evidence.derived, _reverse(shape, axis))):
            return f"it is reversed along axis {axis}"
    return ""


def _roll(shape: tuple[int, ...], by: int, axis: int) -> Callable[[Any], Any]:
    return lambda a: np.roll(np.broadcast_to(a, shape), by, axis)


def _reverse(shape: tuple[int, ...], axis: int) -> Callable[[Any], Any]:
    return lambda a: np.flip(np.broadcast_to(a, shape), axis)


def _coarser(evidence: Evidence) -> str:
    """What the same computation gives in a format with fewer bits."""
    for name in ("bfloat16", "float16"):
        if FORMATS[name].precision >= FORMATS[evidence.format].precision:
            continue
        if len(evidence.origins) != 1 or not _is_of(evidence.claimed, name):
            continue
        D = Bounded(name, "float32")
        graph, leaves, output = evidence.origins[0].derivation()
        part = evaluate(graph, D, [FORMATS[name].round(x) if x.dtype.kind == "f" else x for x in leaves])[output]
        if holds(evidence.claimed, D.cast(part, to=name)):
            return f"it is what {name} gives"
    return ""


def _is_of(claimed: Any, name: str) -> bool:
    """Whether these numbers have no more bits than the format."""
    given = np.asarray(claimed, dtype=np.float64)
    return bool(np.array_equal(FORMATS[name].round(given), given, equal_nan=True))


def _derivations(evidence: Evidence) -> Iterator[tuple[Any, list[Any], int]]:
    for origin in evidence.origins:
        yield origin.derivation()


def _part_missing(evidence: Evidence) -> str:
    """A gradient without the contribution of one reader, or with it twice."""
    if len(evidence.origins) < 2:
        return ""
    D = Bounded(evidence.format if evidence.format in ("float64", "float32") else "float32")
    for origin, (graph, leaves, output) in zip(evidence.origins, _derivations(evidence), strict=True):
        part = evaluate(graph, D, leaves)[output].value
        room = evidence.derived.certain
        for sign, said in ((-1, "is missing"), (1, "is in it twice")):
            if holds(evidence.claimed, Bound(evidence.derived.value + sign * part, room, room)):
                return f"the contribution of {_of(origin)} {said}"
    return ""


def _passed_on(evidence: Evidence) -> str:
    """The gradient that came in, as it was."""
    if len(evidence.origins) != 1 or evidence.origins[0].leaf is None:
        return ""
    (origin,) = evidence.origins
    for seed in origin.seeds.values():
        given = np.asarray(seed(), dtype=np.float64)
        if given.shape == np.shape(evidence.claimed) and holds(evidence.claimed, Bound(given)):
            return f"the gradient goes through {_of(origin)} as it came: no derivative, no mask"
    return ""


def _rows_missing(evidence: Evidence) -> str:
    """Zero where it should not be, and right everywhere else."""
    y, c = evidence.derived.value, np.asarray(evidence.claimed)
    lost = (c == 0) & (y != 0)
    if not lost.any() or not holds(np.where(lost, y, c), evidence.derived):
        return ""
    return f"{int(np.count_nonzero(lost))} of {c.size} elements are zero, and the others are right"


def _some_right(evidence: Evidence) -> str:
    """Right in some rows of the first axis, wrong in others."""
    y, c = evidence.derived.value, np.asarray(evidence.claimed, dtype=np.float64)
    if y.ndim < 2 or y.shape[0] < 3:  # of two rows, one says nothing
        return ""
    certain = (
        np.zeros(y.shape) if evidence.derived.certain is None else np.broadcast_to(evidence.derived.certain, y.shape)
    )
    with np.errstate(all="ignore"):
        wrong = np.any(abs(c - y) > certain, axis=tuple(range(1, y.ndim)))
    count = int(np.count_nonzero(wrong))
    shown = ", ".join(map(str, np.flatnonzero(wrong)[:4])) + (", …" if count > 4 else "")  # a few
    return f"only {count} of {len(y)} rows are wrong: {shown}" if 0 < count <= len(y) // 2 else ""


def _constant_off(evidence: Evidence) -> str:
    """Off by one and the same number everywhere."""
    y, c = evidence.derived.value, np.asarray(evidence.claimed, dtype=np.float64)
    if y.size < FEWEST:
        return ""
    with np.errstate(all="ignore"):
        off = float(np.mean(c - y))
    room = 0.0 if evidence.derived.certain is None else evidence.derived.certain
    near = Bound(y + off, *2 * (2 * room + 4 * FORMATS[evidence.format].unit * (abs(y) + abs(off)),))
    return f"it is off by {off:.6g} everywhere" if np.isfinite(off) and off and holds(c, near) else ""


def _of(origin: Origin) -> str:
    return label(origin.call) if origin.call is not None else "a call"


PATTERNS = (
    Pattern("zero", _zero),
    Pattern("passed on", _passed_on),
    Pattern("factor", _factor),
    Pattern("transposed", _transposed),
    Pattern("part", _part_missing),
    Pattern("moved", _moved),
    Pattern("coarser", _coarser),
    Pattern("zeros", _rows_missing),
    Pattern("constant", _constant_off),
    Pattern("rows", _some_right),
)

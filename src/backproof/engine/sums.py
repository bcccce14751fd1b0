"""How far a sum, a product or a choice may be off: what each analysis of the bounded domain is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.engine.bound import Error
from backproof.engine.native.fused import floored
from backproof.numerics import FORMATS, Format, gamma

# Bounds are themselves computed in float64, and compared with a value computed in float64.
_OWN = FORMATS["float64"].unit
SLACK = 1 + 2.0**-20
SINGLE = FORMATS["float32"]


def own(fmt: Format) -> float:
    """A format's unit roundoff, with room for the rounding of the float64 that the bound is compared in."""
    return (fmt.unit + _OWN) * SLACK


def never_nan(error: Any) -> Any:
    """0·∞ in a bound says: nothing is known."""
    return np.where(np.isnan(error), math.inf, error)


def magnitude_of(run: Any, values: Sequence[Any], n: int, accumulation: Format, *, single: bool = True) -> Any:
    """A sum of sizes, or of their products: from above, in float32 where that is exact enough and (`single`) takes less time.

    Each of the n + 1 terms of a sum of what is not negative meets at most n + 2 roundings; what underflows is added back.
    """
    sizes, lost = _singly(values, n, accumulation) if single else (None, 0.0)
    if sizes is None:
        return run(*map(abs, values))
    found = run(*sizes).astype(np.float64)
    found *= 1 + _growth(n)
    found += lost
    return found


def floor_of(run: Any, few: Sequence[Any], y: Any, n: int, accumulation: Format, factor: float) -> Any:
    """A bound from below of sums y of n + 1 terms, some of which are products of `few`: no sum is larger than its terms' sizes."""
    under, (sizes, lost) = n * accumulation.underflow, _singly(few, n, accumulation)
    if sizes is None:
        return np.maximum(run(*map(abs, few)), abs(y)) * factor + under
    return floored(y, run(*sizes), 1 - _growth(n), lost, factor, under)


def _growth(n: int) -> float:
    return 2 * (n + 4) * SINGLE.unit


def _singly(values: Sequence[Any], n: int, accumulation: Format) -> tuple[list[Any] | None, float]:
    """Sizes in float32, and what may underflow in a sum of their products; None where float32 is too coarse or too narrow."""
    if accumulation.precision > SINGLE.precision:
        return None, 0.0
    sizes = [value.astype(np.float32) for value in values]
    for size in sizes:
        np.abs(size, out=size)
    largest = [float(np.max(size, initial=0.0)) for size in sizes]
    if not (n + 2) * math.prod(max(top, 1.0) for top in largest) <= SINGLE.largest / 4:
        return None, 0.0
    return sizes, (n + 1) * SINGLE.underflow * (1 + sum(largest))


def weighted_growth(z: Any, weight: Any, ulps: float) -> Any:
    """weight·((eᶻ − 1)·(1 + ulps) + ulps) from above, for z ≥ 0 and weights that may be 0; z is used up."""
    if not float(np.max(z, initial=0.0)) <= 1:
        return np.where(weight > 0, weight * (np.expm1(z) * (1 + ulps) + ulps), 0.0)
    z = np.asarray(z)
    z += z * z  # eᶻ − 1 ≤ z + z² there
    z *= 1 + ulps
    z += ulps
    return np.multiply(z, weight, out=z)


def of_total(run: Any, sizes: list[Any], errors: list[Error], factor: float) -> Any:
    """Error of a sum: that of its terms, and its own roundings."""
    error = errors[0]
    return run(factor * sizes[0] if error is None else error + factor * (sizes[0] + error))


def of_factors(x: Any, error: Error, y: Any, axes: tuple[int, ...], fmt: Format) -> Any:
    """Error of a product of factors: theirs, and the roundings in between."""
    size, n = abs(x), max(math.prod(x.shape[axis] for axis in axes) - 1, 0)
    factor, e = float(gamma(n, own(fmt))), np.zeros_like(size) if error is None else error
    grown = np.prod(size + e, axis=axes)
    relative = np.sum(np.log1p(np.where(size > 0, e / np.where(size > 0, size, 1), 0.0)), axis=axes)
    off = np.where(np.all(size > 0, axis=axes), abs(y) * np.expm1(relative), grown)
    # The largest that a partial product may be, and what may multiply an underflow.
    peak = np.prod(np.maximum(size + e, 1.0), axis=axes)
    found = off * SLACK + factor * grown + n * fmt.underflow * peak
    return np.where(peak * (1 + factor) <= fmt.largest, found, math.inf)


def of_choice(condition: Any, a: Any, b: Any, errors: Sequence[Error]) -> Error:
    """Error of what is chosen: where the condition is in doubt, it may be the other."""
    doubt, ea, eb = errors
    if doubt is None and ea is None and eb is None:
        return None
    ea, eb = 0.0 if ea is None else ea, 0.0 if eb is None else eb
    chosen = np.where(condition, ea, eb)
    if doubt is None:
        return chosen
    other = np.where(a == b, 0.0, abs(a - b)) + np.maximum(ea, eb)
    return np.where(doubt, other * SLACK, chosen)


def of_product(run: Any, sizes: list[Any], errors: list[Error], factor: float) -> Any:
    """Error of a sum of products: |a|·eb + ea·(|b| + eb) and the roundings, in as few products as can be."""
    (a, b), (ea, eb) = sizes, errors
    if ea is None and eb is None:
        return factor * run(a, b)
    if ea is None:
        return run(a, eb + factor * (b + eb))
    if eb is None:
        return run(ea + factor * (a + ea), b)
    return run(a, eb + factor * (b + eb)) + run(ea, (1 + factor) * (b + eb))


def are_whole(x: Any) -> bool:
    """Whether these are whole numbers; a look at the first tells most that are not."""
    first = x[(slice(0, 1),) * x.ndim]
    return bool(np.all(first == np.rint(first)) and np.all(x == np.rint(x)))


def is_one_whole(x: Any) -> bool:
    """Whether this is one whole number, everywhere: that can be seen from where it lies."""
    return not any(x.strides) and are_whole(x.reshape(-1)[:1])


def representable(y: Any, fmt: Format) -> bool:
    """Whether a format has every one of these numbers."""
    everywhere = y.size and not any(y.strides) and y.ndim  # one number everywhere: look at it once
    seen = y.reshape(-1)[:1] if everywhere else y
    return bool(np.array_equal(fmt.round(seen), seen, equal_nan=True))


def most_hits(index: Any) -> int:
    """How often the index is there that is there most often."""
    return int(np.max(np.unique(index, return_counts=True)[1], initial=0))


def nothing(value: Any) -> Any:
    """The error of what is exact, in the shape of its value: 0, or no doubt."""
    return np.zeros(value.shape, dtype=np.float64 if value.dtype.kind == "f" else np.bool_)


def reach(run: Any, x: Any, error: Any, y: Any, axes: Any) -> Any:
    """How far a result that grows with each operand may be off: as far as both ends of all of them reach.

    Both are taken from y on, where they are not lost in its roundoff.
    """
    middle = np.where(np.isfinite(y), y, 0.0)
    rest, around = y - middle, x - np.expand_dims(middle, axes)
    ends = [run(end) for end in (around + error, around - error)]
    off = [np.where(end == rest, 0.0, abs(end - rest)) for end in ends]
    return never_nan(np.maximum(*off) * SLACK)

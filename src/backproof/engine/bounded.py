"""The `bounded` domain: a float64 value, and how far the same computation in another format may be from it.

Two bounds are kept. The *certain* one holds for every honest execution: any order of summation, fused or not (Higham, "Accuracy
and Stability of Numerical Algorithms", chapter 3). The *likely* one replaces γₙ by λ·√n·u, which rounding stays under in practice
(see `numerics.LIKELY_LAMBDA`). A bound of None says: exact.

Truth values and indices carry *doubt* instead: where an honest execution may have decided otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from backproof.engine.arrays import NumPyKernels
from backproof.engine.domain import Domain
from backproof.errors import DomainError
from backproof.ir.primitive import Primitive
from backproof.ir.primitives.window import windows
from backproof.ir.rounding import Decides, Moves, Rounds, Special, Sums
from backproof.ir.types import Shape, Type
from backproof.numerics import FORMATS, Format, format_named, gamma, likely

Reals = NDArray[np.float64]
Error = Any  # an array of bounds (or of doubts, for what is not real), or None for exact

_KERNELS = NumPyKernels("float64")
# Bounds are themselves computed in float64, and compared with a value computed in float64.
_OWN = FORMATS["float64"].unit
_SLACK = 1 + 2.0**-20


@dataclass(frozen=True, slots=True)
class Bound:
    """A value with its two bounds."""

    value: Any
    certain: Error = None
    likely: Error = None

    @property
    def shape(self) -> Shape:
        """The value's shape."""
        return tuple(self.value.shape)


@final
class Bounded(Domain):
    """float64 values with bounds for a computing format and a format in which sums are accumulated."""

    def __init__(self, computing: str = "float32", accumulation: str | None = None) -> None:
        self.computing = format_named(computing)
        self.accumulation = format_named(accumulation or ("float32" if computing == "tf32" else computing))
        # tf32 is a format of operands alone: what a product gives is stored in float32.
        self.storage = FORMATS["float32"] if computing == "tf32" else self.computing
        self.name = f"bounded in {computing}, sums in {self.accumulation.name}"
        super().__init__()

    def value(self, given: Any, kind: Type) -> Bound:
        found = given if isinstance(given, Bound) else Bound(_KERNELS.leaf(given, kind.kind))
        if found.shape != kind.shape:
            raise DomainError(f"expected {kind}, got an array of shape {list(found.shape)}")
        return found

    def array(self, value: Bound) -> Any:
        return value.value

    def apply(self, primitive: Primitive, *x: Bound, **params: Any) -> Bound:
        with np.errstate(all="ignore"):
            values = tuple(given.value for given in x)
            if isinstance(primitive.rounding, Special):
                return getattr(self, f"_{primitive.name}")(primitive, x, values, **params)
            y = primitive.forward(_KERNELS, *values, **params)
            match primitive.rounding:
                case Moves():
                    return self._moved(primitive, x, values, y, params)
                case Rounds():
                    return self._elementwise(primitive.rounding, x, values, y)
                case Sums():
                    return self._summed(primitive, primitive.rounding, x, values, y, params)
                case Decides():
                    return _decided(primitive, x, values, y, params)

    # ── the four analyses ───────────────────────────────────────────────────────────────────────────────────────────

    def _both(self, x: tuple[Bound, ...], bound_of: Any) -> tuple[Error, Error]:
        """Both bounds of a result, each from the operands' own; computed once where they are one."""
        certain = bound_of([given.certain for given in x])
        if all(given.certain is given.likely for given in x):
            return certain, certain
        return certain, bound_of([given.likely for given in x])

    def _rounded(self, y: Any, error: Error, ulps: float, fmt: Format | None = None) -> Error:
        """A bound once the result is rounded; infinite where it may overflow, and 0 at ±∞, which is exact."""
        fmt = fmt or self.storage
        size = abs(y) if error is None else abs(y) + error
        unit = (fmt.unit + _OWN) * _SLACK
        fresh = (ulps * unit) * size + ulps * fmt.underflow
        total = fresh if error is None else fresh + error
        return np.where(size <= fmt.largest, total, np.where(np.isinf(y), 0.0, math.inf))

    def _elementwise(self, rounding: Rounds, x: tuple[Bound, ...], values: tuple[Any, ...], y: Any) -> Bound:
        def bound_of(errors: list[Error]) -> Error:
            spread = None
            if any(error is not None for error in errors):
                known = tuple(0.0 if error is None else error for error in errors)
                spread = np.where(np.isinf(y), 0.0, rounding.spread(np, values, known, y))
            return self._rounded(y, spread, rounding.ulps) if rounding.ulps else spread

        return Bound(y, *self._both(x, bound_of))

    def _moved(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], y: Any, params: Any) -> Bound:
        indices = [given for given in x if given.value.dtype.kind == "i"]
        if primitive.name.startswith("gather") and any(given.certain is not None for given in indices[-1:]):
            return _lost(y)  # which element was read is in doubt

        def bound_of(errors: list[Error]) -> Error:
            if all(error is None for error in errors):
                return None
            carried = [
                (v if (primitive.name.startswith("gather") and i == 1) else _nothing(v)) if e is None else e
                for i, (e, v) in enumerate(zip(errors, values, strict=True))
            ]
            return primitive.forward(_KERNELS, *carried, **params)

        return Bound(y, *self._both(x, bound_of))

    def _summed(
        self, primitive: Primitive, sums: Sums, x: tuple[Bound, ...], values: tuple[Any, ...], y: Any, params: Any
    ) -> Bound:
        n = sums.roundings(*values, **params)
        unit = (self.accumulation.unit + _OWN) * _SLACK
        operands = 2 * (self.computing.unit * (1 + self.computing.unit)) if self.computing.name == "tf32" else 0.0
        form = _product if len(x) == 2 else _total
        sizes = [abs(value) for value in values]

        def run(*parts: Any) -> Any:
            return primitive.forward(_KERNELS, *parts, **params)

        def bound_of(errors: list[Error], factor: float) -> Error:
            error = form(run, sizes, errors, factor + (operands if len(x) == 2 else 0.0))
            error = error + n * self.accumulation.underflow
            if self.accumulation is not self.storage:
                return self._rounded(y, error, 1.0)
            return np.where(abs(y) + error <= self.storage.largest, error, math.inf)

        factors = float(gamma(n, unit)), float(likely(n, unit))
        exact = all(given.certain is None for given in x)
        if exact and n == 0 and not operands and self.accumulation is self.storage:
            return Bound(y)
        if exact and self.accumulation is self.storage:
            magnitude = run(*sizes)
            return Bound(y, *(self._within(y, (f + operands) * magnitude + n * self.accumulation.underflow) for f in factors))
        return Bound(
            y,
            bound_of([given.certain for given in x], factors[0]),
            bound_of([given.likely for given in x], factors[1]),
        )

    def _within(self, y: Any, error: Error) -> Error:
        return np.where(abs(y) + error <= self.storage.largest, error, math.inf)

    # ── primitives with an analysis of their own ────────────────────────────────────────────────────────────────────

    def _where(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...]) -> Bound:
        condition, a, b = values
        y = primitive.forward(_KERNELS, *values)
        if y.dtype.kind != "f":
            return Bound(y, *self._both(x, lambda errors: _any_doubt(errors, y.shape)))

        def bound_of(errors: list[Error]) -> Error:
            doubt, ea, eb = errors
            if doubt is None and ea is None and eb is None:
                return None
            ea, eb = 0.0 if ea is None else ea, 0.0 if eb is None else eb
            chosen = np.where(condition, ea, eb)
            if doubt is None:
                return chosen
            return np.where(doubt, np.where(a == b, 0.0, abs(a - b)) + np.maximum(ea, eb), chosen)

        return Bound(y, *self._both(x, bound_of))

    def _extreme(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], axes: Any) -> Bound:
        y = primitive.forward(_KERNELS, *values, axes=axes)
        return Bound(y, *self._both(x, lambda e: None if e[0] is None else np.max(e[0], axis=axes)))

    _max = _extreme
    _min = _extreme

    def _max_pool(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], **params: Any) -> Bound:
        y = primitive.forward(_KERNELS, *values, **params)
        return Bound(
            y, *self._both(x, lambda e: None if e[0] is None else primitive.forward(_KERNELS, e[0], **params))
        )

    def _prod(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], axes: Any) -> Bound:
        y = primitive.forward(_KERNELS, *values, axes=axes)
        n = max(math.prod(values[0].shape[axis] for axis in axes) - 1, 0)
        factor = float(gamma(n, (self.storage.unit + _OWN) * _SLACK))
        size = abs(values[0])

        def bound_of(errors: list[Error]) -> Error:
            e = np.zeros_like(size) if errors[0] is None else errors[0]
            grown = np.prod(size + e, axis=axes)
            relative = np.sum(np.log1p(np.where(size > 0, e / np.where(size > 0, size, 1), 0.0)), axis=axes)
            off = np.where(np.all(size > 0, axis=axes), abs(y) * np.expm1(relative), grown)
            return self._within(y, off + factor * grown + n * self.storage.underflow)

        return Bound(y, *self._both(x, bound_of))

    def _logsumexp(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], axes: Any) -> Bound:
        (given,) = values
        y = primitive.forward(_KERNELS, given, axes=axes)
        top = np.max(given, axis=axes, keepdims=True)
        shifted = given - np.where(np.isfinite(top), top, 0.0)
        weight = np.exp(shifted)
        total = np.sum(weight, axis=axes)
        unit = (self.storage.unit + _OWN) * _SLACK
        n = max(math.prod(given.shape[axis] for axis in axes) - 1, 0)
        summing = (self.accumulation.unit + _OWN) * _SLACK
        distance = np.sum(np.where(weight > 0, weight * abs(shifted), 0.0), axis=axes) / total

        def fresh(factor: float) -> Any:
            # each term: its shift rounded, its exponential within 4 units; then the sum, its logarithm, and the shift back
            return unit * distance + 4 * unit + factor + 4 * unit * abs(np.log(total)) + unit * abs(y) + self.storage.underflow

        def bound(error: Error, factor: float) -> Error:
            off = 0.0 if error is None else np.max(error, axis=axes)
            return np.where(np.isinf(y), 0.0, off + fresh(factor) * np.exp(2 * off))

        (only,) = x
        return Bound(y, bound(only.certain, float(gamma(n, summing))), bound(only.likely, float(likely(n, summing))))

    def _scatter(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], **params: Any) -> Bound:
        index, updates = values
        y = primitive.forward(_KERNELS, index, updates, **params)
        if x[0].certain is not None:
            return _lost(y)
        hits = primitive.forward(_KERNELS, index, np.ones_like(updates), **params)
        n = max(int(hits.max(initial=0.0)) - 1, 0)
        if n == 0 and x[1].certain is None:
            return Bound(y)
        unit = (self.accumulation.unit + _OWN) * _SLACK

        def bound(error: Error, factor: float) -> Error:
            e = np.zeros_like(updates) if error is None else error
            grown = e + factor * (abs(updates) + e)
            found = primitive.forward(_KERNELS, index, grown, **params) + n * self.accumulation.underflow
            return found if self.accumulation is self.storage else self._rounded(y, found, 1.0)

        return Bound(y, bound(x[1].certain, float(gamma(n, unit))), bound(x[1].likely, float(likely(n, unit))))

    _scatter_add = _scatter
    _scatter_along = _scatter

    def _constant(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], **params: Any) -> Bound:
        y = primitive.forward(_KERNELS, **params)
        if y.dtype.kind != "f" or _representable(y, self.storage):
            return Bound(y)
        error = self._rounded(y, None, 1.0)
        return Bound(y, error, error)

    def _cast(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], to: str) -> Bound:
        (given,) = x
        y = primitive.forward(_KERNELS, given.value, to=to)
        if to in FORMATS:
            return Bound(y, *self._both(x, lambda e: self._rounded(y, e[0], 1.0, FORMATS[to])))
        if given.certain is None:
            return Bound(y) if to != "real" or _representable(y, self.storage) else Bound(y, *(self._rounded(y, None, 1.0),) * 2)
        if to == "real":  # a truth value in doubt is 0 or 1, an index in doubt may be anything
            worst = 1.0 if given.value.dtype.kind == "b" else math.inf
            return Bound(y, *self._both(x, lambda e: np.where(e[0], worst, 0.0)))
        return Bound(y, *self._both(x, lambda e: e[0] > 0))


def _representable(y: Any, fmt: Format) -> bool:
    first = y.reshape(-1)[:1] if y.size and 0 in y.strides else y  # one number everywhere: look at it once
    return bool(np.array_equal(fmt.round(first), first, equal_nan=True))


def _nothing(value: Any) -> Any:
    """The error of what is exact, in the shape of its value: 0, or no doubt."""
    return np.zeros(value.shape, dtype=np.float64 if value.dtype.kind == "f" else np.bool_)


def _lost(y: Any) -> Bound:
    """A value of which nothing can be said."""
    error = np.full(y.shape, math.inf) if y.dtype.kind == "f" else np.ones(y.shape, dtype=np.bool_)
    return Bound(y, error, error)


def _total(run: Any, sizes: list[Any], errors: list[Error], factor: float) -> Any:
    """Error of a sum: that of its terms, and its own roundings."""
    error = errors[0]
    return run(factor * sizes[0] if error is None else error + factor * (sizes[0] + error))


def _product(run: Any, sizes: list[Any], errors: list[Error], factor: float) -> Any:
    """Error of a sum of products: |a|·eb + ea·(|b| + eb) and the roundings, in as few products as can be."""
    (a, b), (ea, eb) = sizes, errors
    if ea is None and eb is None:
        return factor * run(a, b)
    if ea is None:
        return run(a, eb + factor * (b + eb))
    if eb is None:
        return run(ea + factor * (a + ea), b)
    return run(a, eb + factor * (b + eb)) + run(ea, (1 + factor) * (b + eb))


# ── decisions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _any_doubt(errors: list[Error], shape: Shape) -> Error:
    doubts = [error for error in errors if error is not None]
    return reduce(np.logical_or, doubts, np.zeros(shape, dtype=np.bool_)) if doubts else None


def _decided(primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], y: Any, params: Any) -> Bound:
    if all(given.certain is None for given in x):
        return Bound(y)
    decide = _DOUBTS.get(primitive.name, _comparison_doubt)

    def doubt(errors: list[Error]) -> Any:
        return decide(values, errors, y, params)

    return Bound(y, doubt([given.certain for given in x]), doubt([given.likely for given in x]))


def _comparison_doubt(values: tuple[Any, ...], errors: list[Error], y: Any, params: Any) -> Any:
    """A comparison is in doubt where the margin is no more than the two errors together."""
    if values[0].dtype.kind != "f":
        return _any_doubt(errors, y.shape)
    a, b = values
    room = sum(0.0 if error is None else error for error in errors)
    return (room > 0) & ~(abs(a - b) > room)


def _argmax_doubt(values: tuple[Any, ...], errors: list[Error], y: Any, params: Any) -> Any:
    (v,), (e,), axis = values, errors, params["axis"]
    least = np.take_along_axis(v - e, np.expand_dims(y, axis), axis=axis)
    return np.sum(v + e >= least, axis=axis) > 1


def _pool_doubt(values: tuple[Any, ...], errors: list[Error], y: Any, params: Any) -> Any:
    (v,), (e,) = values, errors
    n, c = v.shape[:2]
    low = np.take_along_axis((v - e).reshape(n * c, -1), y.reshape(n * c, -1), axis=1)
    high, _, inside = windows(_KERNELS, v + e, **params)
    return (np.sum(inside & (high >= low[:, None, :]), axis=1) > 1).reshape(y.shape)


def _order_doubt(values: tuple[Any, ...], errors: list[Error], y: Any, params: Any) -> Any:
    """A place in an order is in doubt where a neighbour is nearer than twice the largest error along the axis."""
    (v,), (e,), axis = values, errors, params["axis"]
    descending = params.get("descending", True)
    order = _KERNELS.argsort(v, axis=axis, descending=descending, stable=True)
    ranked = np.take_along_axis(v, order, axis=axis)
    near = abs(np.diff(ranked, axis=axis)) <= 2 * np.max(e, axis=axis, keepdims=True)
    edge = np.zeros_like(np.take(ranked, [0], axis=axis), dtype=np.bool_)
    doubt = np.concatenate([near, edge], axis=axis) | np.concatenate([edge, near], axis=axis)
    return doubt[(slice(None),) * axis + (slice(0, y.shape[axis]),)]


_DOUBTS = {
    "argmax": _argmax_doubt,
    "pool_argmax": _pool_doubt,
    "argsort": _order_doubt,
    "topk": _order_doubt,
}

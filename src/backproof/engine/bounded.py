"""The `bounded` domain: a float64 value, and how far the same computation in another format may be from it.

Two bounds are kept. The *certain* one holds for every honest execution: any order of summation, fused or not (Higham, "Accuracy
and Stability of Numerical Algorithms", chapter 3). The *likely* one replaces γₙ by λ·√n·u, which rounding stays under in practice
(see `numerics.LIKELY_LAMBDA`). A bound of None says: exact.

Truth values and indices carry *doubt* instead: where an honest execution may have decided otherwise.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, final

import numpy as np

from backproof.engine import native
from backproof.engine.arrays import NumPyKernels
from backproof.engine.bound import Bound, Error
from backproof.engine.domain import Domain
from backproof.engine.doubt import any_doubt, astray, doubt_of, if_any, unsure_whole
from backproof.engine.sums import (
    SLACK,
    are_whole,
    floor_of,
    is_one_whole,
    magnitude_of,
    most_hits,
    never_nan,
    nothing,
    of_choice,
    of_factors,
    of_product,
    of_total,
    own,
    reach,
    representable,
    weighted_growth,
)
from backproof.errors import DomainError
from backproof.ir.primitive import Primitive
from backproof.ir.primitives.elementwise import EXP_ULPS, LOG_ULPS
from backproof.ir.rounding import Decides, Moves, Rounds, Special, Sums
from backproof.ir.types import Type
from backproof.numerics import FORMATS, Format, format_named, gamma, likely

__all__ = ["Bound", "Bounded"]

_KERNELS = NumPyKernels("float64")
FEW = 8
"""A brief bound of a sum of products has one of so many of them: the honest are far inside even of that."""


@final
class Bounded(Domain):
    """float64 values with bounds for a computing format and a format in which sums are accumulated."""

    def __init__(
        self, computing: str = "float32", accumulation: str | None = None, *, doubting: bool = True, brief: bool = False
    ) -> None:
        """Without doubting, decisions are taken to have been made as they are here.

        Briefly, both bounds are one that is never more than the likely one: what is within it holds, and of anything else nothing is said.
        """
        self.brief = brief
        self.doubting, self.doubts, self.margin = doubting, 0, 0.0
        self.computing = format_named(computing)
        self.accumulation = format_named(accumulation or ("float32" if computing == "tf32" else computing))
        # tf32 is a format of operands alone: what a product gives is stored in float32.
        self.storage = FORMATS["float32"] if computing == "tf32" else self.computing
        self.name = f"bounded in {computing}, sums in {self.accumulation.name}"

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
            if primitive.name == "exp":
                x = (x[0].as_exponent(),)
            match primitive.rounding:
                case Moves():
                    return self._moved(primitive, x, values, y, params)
                case Rounds():
                    return self._elementwise(primitive.rounding, x, values, y)
                case Sums():
                    return self._summed(primitive, primitive.rounding, x, values, y, params)
                case Decides():
                    return self._decided(primitive, x, values, y, params)

    # ── the four analyses ───────────────────────────────────────────────────────────────────────────────────────────

    def _both(self, x: tuple[Bound, ...], bound_of: Any) -> tuple[Error, Error]:
        """Both bounds of a result, each from the operands' own; computed once where they are one."""
        certain = bound_of([given.certain for given in x])
        if all(given.certain is given.likely for given in x):
            return certain, certain
        return certain, bound_of([given.likely for given in x])

    def _rounded(
        self, y: Any, error: Error, ulps: float, fmt: Format | None = None, finite: list[Error] | None = None
    ) -> Error:
        """A bound once the result is rounded; infinite where it may overflow, and 0 at a certain ±∞, which is exact.

        What bounds a result that does not overflow is added to `finite`.
        """
        fmt = fmt or self.storage
        size = abs(y) if error is None else abs(y) + error
        total = size * (ulps * own(fmt))
        total += ulps * fmt.underflow
        if error is not None:
            total += error
        elif ulps <= 2 and float(np.min(size, initial=1.0)) == 0.0:
            total *= size != 0  # of sums, products, quotients and roots what is 0 is rounded to 0
        if float(np.max(size, initial=0.0)) <= fmt.largest:  # not so if any is not a number
            return total
        if finite is not None:
            finite.append(total)
        sure = np.isinf(y) if error is None else np.isinf(y) & np.isfinite(error)
        return np.where(size <= fmt.largest, total, np.where(sure, 0.0, math.inf))

    def _elementwise(self, rounding: Rounds, x: tuple[Bound, ...], values: tuple[Any, ...], y: Any) -> Bound:
        whole = rounding.ulps == 1 and all(given.certain is None and is_one_whole(given.value) for given in x)
        if whole and np.max(abs(y), initial=0.0) <= 2.0**self.storage.precision:
            return Bound(y)
        finite: list[Error] = []

        def bound_of(errors: list[Error]) -> Error:
            spread = None
            if any(error is not None for error in errors):
                known = tuple(0.0 if error is None else error for error in errors)
                spread = np.broadcast_to(rounding.spread(np, values, known, y), y.shape)
                if not (math.isfinite(float(np.sum(spread))) and math.isfinite(float(np.sum(y)))):
                    spread = never_nan(spread)
                    spread = np.where(sum(known) == 0, 0.0, np.where(np.isinf(y) & np.isfinite(spread), 0.0, spread))
            if rounding.absolute and self.storage.precision < FORMATS["float64"].precision:
                spread = (0.0 if spread is None else spread) + np.full(y.shape, rounding.absolute * self.storage.unit)
            return self._rounded(y, spread, rounding.ulps, finite=finite) if rounding.ulps else spread

        return Bound(y, *self._both(x, bound_of), (finite[0], finite[-1]) if finite else None)

    def _moved(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], y: Any, params: Any) -> Bound:
        read = primitive.name.startswith("gather")

        def bound_of(errors: list[Error]) -> Error:
            if all(error is None for error in errors):
                return None
            if read:
                return self._read(primitive, values, errors, y, **params)
            carried = [nothing(v) if e is None else e for e, v in zip(errors, values, strict=True)]
            return primitive.forward(_KERNELS, *carried, **params)

        return Bound(y, *self._both(x, bound_of))

    def _read(self, primitive: Primitive, values: tuple[Any, ...], errors: list[Error], y: Any, axis: int) -> Error:
        """What is read by index; where the index is in doubt, it may be any element along the axis, or nothing."""
        (source, index), (error, doubt) = values, errors
        error = nothing(source) if error is None else error
        carried = primitive.forward(_KERNELS, error, index, axis=axis)
        if doubt is None:
            return carried
        spread = 1 if primitive.name == "gather_along" else index.ndim
        shape = (1,) * axis + index.shape + (1,) * (source.ndim - axis - 1)
        unsure = doubt if primitive.name == "gather_along" else doubt.reshape(shape)
        if y.dtype.kind != "f":
            return carried | unsure
        largest = np.max(abs(source) + error, axis=axis, initial=0.0)
        worst = np.expand_dims(largest, tuple(range(axis, axis + spread)))
        return np.where(unsure, (worst + abs(y)) * SLACK, carried)

    def _summed(
        self, primitive: Primitive, sums: Sums, x: tuple[Bound, ...], values: tuple[Any, ...], y: Any, params: Any
    ) -> Bound:
        n = sums.roundings(*values, **params)
        unit = own(self.accumulation)
        tf32 = len(x) == 2 and self.computing.name == "tf32"
        operands = 2 * self.computing.unit * (1 + self.computing.unit) if tf32 else 0.0
        form = of_product if len(x) == 2 else of_total
        if all(given.certain is None for given in x) and n == 0 and not tf32 and self.accumulation is self.storage:
            return Bound(y)

        def run(*parts: Any) -> Any:
            return primitive.forward(_KERNELS, *parts, **params)

        def bound_of(errors: list[Error], factor: float) -> Error:
            sizes = [abs(value) for value in values]
            error = never_nan(form(run, sizes, errors, factor + operands)) + n * self.accumulation.underflow
            grown = [size if e is None else size + e for size, e in zip(sizes, errors, strict=True)]
            error = self._unless_overflow(error, run, grown, n + 1, 1 + factor + operands)
            return error if self.accumulation is self.storage else self._rounded(y, error, 1.0)

        exact = all(given.certain is None for given in x)
        whole = exact and not tf32 and all(map(are_whole, values))
        if whole:
            magnitude = run(*map(abs, values))
            if np.max(magnitude, initial=0.0) <= 2.0**self.storage.precision:
                return Bound(y)  # whole numbers that stay small are added without rounding, in any order
        if exact and self.accumulation is self.storage:
            if self.brief and not whole and sums.some is not None:
                few = [value[some] for value, some in zip(values, sums.some(FEW, *values, **params), strict=True)]
                least = floor_of(run, few, y, n, self.accumulation, float(likely(n, unit)) + operands)
                return Bound(y, least, least)
            single = not _is_native(primitive, params)
            magnitude = magnitude if whole else magnitude_of(run, values, n, self.accumulation, single=single)
            under, top = n * self.accumulation.underflow, float(np.max(magnitude, initial=0.0))

            def of(_: list[Error], factor: float) -> Error:
                error = (factor + operands) * magnitude
                error += under
                if top * (1 + factor) <= self.storage.largest:  # not so if any is not a number
                    return error
                return np.where(magnitude * (1 + factor) <= self.storage.largest, error, math.inf)

            return self._pair(y, of, n, unit, x)
        return self._pair(y, bound_of, n, unit, x)

    def _pair(self, y: Any, bound_of: Any, n: int, unit: float, x: tuple[Bound, ...]) -> Bound:
        """A result of sums with both bounds, each from the operands' own and a factor for n roundings."""
        nearer = bound_of([given.likely for given in x], float(likely(n, unit)))
        if self.brief:
            return Bound(y, nearer, nearer)
        return Bound(y, bound_of([given.certain for given in x], float(gamma(n, unit))), nearer)

    def _unless_overflow(self, error: Any, run: Any, sizes: list[Any], terms: int, growth: float) -> Any:
        """The error, but infinite where a partial sum may overflow in some order."""
        limit = self.accumulation.largest / growth
        if terms * math.prod(float(np.max(size, initial=0.0)) for size in sizes) <= limit:
            return error
        return np.where(run(*sizes) <= limit, error, math.inf)

    def _decided(
        self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], y: Any, params: Any
    ) -> Bound:
        if all(given.certain is None for given in x):
            return Bound(y)
        certain = doubt_of(primitive.name, values, [given.certain for given in x], y, params)
        if certain is None or not certain.any() or not self.doubting:
            return Bound(y)  # what is decided the same everywhere is as exact as what was given
        self.doubts += int(np.count_nonzero(certain))
        if len(values) == 2 and values[0].dtype.kind == "f":
            self.margin = max(self.margin, float(np.max(abs(values[0] - values[1])[certain])))
        if all(given.likely is given.certain for given in x):
            return Bound(y, certain, certain)
        return Bound(y, certain, doubt_of(primitive.name, values, [given.likely for given in x], y, params))

    # ── primitives with an analysis of their own ────────────────────────────────────────────────────────────────────

    def _where(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...]) -> Bound:
        condition, a, b = values
        y = primitive.forward(_KERNELS, *values)
        if y.dtype.kind != "f":
            return Bound(y, *self._both(x, lambda errors: any_doubt(errors, y.shape)))
        return Bound(y, *self._both(x, lambda errors: of_choice(condition, a, b, errors)))

    def _extreme(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], axes: Any) -> Bound:
        run = partial(primitive.forward, _KERNELS, axes=axes)
        y = run(*values)
        return Bound(y, *self._both(x, lambda e: None if e[0] is None else reach(run, values[0], e[0], y, axes)))

    _max = _extreme
    _min = _extreme

    def _max_pool(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], **params: Any) -> Bound:
        y = primitive.forward(_KERNELS, *values, **params)
        return Bound(y, *self._both(x, lambda e: None if e[0] is None else primitive.forward(_KERNELS, e[0], **params)))

    def _prod(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], axes: Any) -> Bound:
        y = primitive.forward(_KERNELS, *values, axes=axes)
        return Bound(y, *self._both(x, lambda e: of_factors(values[0], e[0], y, axes, self.storage)))

    def _logsumexp(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], axes: Any) -> Bound:
        """max + ln Σ exp(x − max), step by step: each shift is rounded, its exponential and the logarithm are within their ulps."""
        (given,), run = values, partial(primitive.forward, _KERNELS, axes=axes)
        y = run(given)
        top = np.max(given, axis=axes, keepdims=True)
        shift = abs(given - np.where(np.isfinite(top), top, 0.0))
        weight = np.exp(-shift)
        total = np.sum(weight, axis=axes)
        unit, n = own(self.storage), max(math.prod(given.shape[axis] for axis in axes) - 1, 0)
        exp, log = EXP_ULPS * unit, LOG_ULPS * unit

        def terms_of(error: Error) -> tuple[Any, Any]:
            # The operands' errors move the result by no more than the largest; the rest is what is rounded on the way.
            wide = np.zeros_like(top) if error is None else np.max(error, axis=axes, keepdims=True)
            off = wide.reshape(y.shape)
            if not float(np.max(off, initial=0.0)) <= 1:  # those of what is masked are large, and move nothing
                wide = np.max(np.where(weight > 0, error, 0.0), axis=axes, keepdims=True)
                off = reach(run, given, error, y, axes)
            each = weighted_growth(unit * (shift + 2 * wide), weight, exp)
            return off, np.exp(2 * off) * np.sum(each, axis=axes) / total

        def bound(off: Any, terms: Any, factor: float) -> Error:
            relative = (1 + terms) * (1 + factor) * (1 + unit) - 1 + (n + 1) * self.storage.underflow
            known = relative < 1
            inside = np.where(known, -np.log1p(-np.where(known, relative, 0.0)), math.inf)
            logarithm = inside + log * (np.log(total) + 2 * off + inside)
            fresh = logarithm + unit * (abs(y) + off + logarithm) + 2 * self.storage.underflow
            return np.where(np.isinf(y) & (off == 0), 0.0, never_nan(off + fresh))

        (only,), summing = x, own(self.accumulation)
        nearer = terms_of(only.likely)
        least = bound(*nearer, float(likely(n, summing)))
        if self.brief:
            return Bound(y, least, least)
        certain = nearer if only.likely is only.certain else terms_of(only.certain)
        return Bound(y, bound(*certain, float(gamma(n, summing))), least)

    def _scatter(self, primitive: Primitive, x: tuple[Bound, ...], values: tuple[Any, ...], **params: Any) -> Bound:
        index, updates = values
        y = primitive.forward(_KERNELS, index, updates, **params)
        unit = own(self.accumulation)

        def run(size: Any) -> Any:
            return primitive.forward(_KERNELS, index, size, **params)

        counted = primitive.name == "scatter_add"  # there an index stands for a whole slice
        hits = most_hits(index) if counted else int(run(np.ones_like(updates)).max(initial=0.0))
        n = max(hits - 1, 0)
        exact = all(given.certain is None for given in x) and are_whole(updates)
        if exact and np.max(run(abs(updates)), initial=0.0) <= 2.0**self.storage.precision:
            return Bound(y)  # whole numbers that stay small are added without rounding, in any order

        def bound(errors: list[Error], rule: Any) -> Error:
            doubt, e = errors
            if doubt is None and e is None and n == 0:
                return None
            moved = 0 if doubt is None else int(np.count_nonzero(doubt))
            factor, grown = float(rule(n + moved, unit)), abs(updates) + (0.0 if e is None else e)
            terms = factor * grown if e is None else e + factor * grown
            # Where nothing comes, nothing is rounded, and memory stays untouched.
            found = run(never_nan(terms) + self.accumulation.underflow)
            if doubt is not None:
                # What is in doubt may be missing from where it is, and turn up anywhere along the axis.
                found = (
                    found
                    + moved * self.accumulation.underflow
                    + (1 + factor) * astray(primitive.name, index, doubt, grown, params["axis"])
                )
            found = self._unless_overflow(
                found if doubt is None else never_nan(found), run, [grown], n + moved + 1, 1 + factor
            )
            return found if self.accumulation is self.storage else self._rounded(y, found, 1.0)

        least = bound([given.likely for given in x], likely)
        return Bound(y, least if self.brief else bound([given.certain for given in x], gamma), least)

    _scatter_add = _scatter
    _scatter_along = _scatter

    def _constant(self, primitive: Primitive, *_: Any, **params: Any) -> Bound:
        y = primitive.forward(_KERNELS, **params)
        if y.dtype.kind != "f" or representable(y, self.storage):
            return Bound(y)
        error = self._rounded(y, None, 1.0)
        return Bound(y, error, error)

    def _cast(self, primitive: Primitive, x: tuple[Bound, ...], *_: Any, to: str) -> Bound:
        (given,) = x
        y = primitive.forward(_KERNELS, given.value, to=to)
        kind = given.value.dtype.kind
        if to in FORMATS:
            if given.certain is None and representable(y, FORMATS[to]):
                return given
            if given.certain is None:  # an exact number beyond the format is an infinity for sure
                y = np.where(np.abs(y) > FORMATS[to].largest, FORMATS[to].round(y), y)
            return Bound(y, *self._both(x, lambda e: self._rounded(y, e[0], 1.0, FORMATS[to])))
        if to == "real" and kind == "f":
            return given
        if to == "int" and kind == "f":  # truncation never turns an order around: both ends decide
            return Bound(y, *self._both(x, lambda e: if_any(unsure_whole(given.value, e[0]))))
        if to != "real":
            return Bound(y, *self._both(x, lambda e: None if e[0] is None else if_any(e[0] > 0)))
        # A truth value in doubt is 0 or 1; an index in doubt may be anything.
        worst, exact = 1.0 if kind == "b" else math.inf, representable(y, self.storage)

        def bound_of(errors: list[Error]) -> Error:
            spread = None if errors[0] is None else np.where(errors[0], worst, 0.0)
            return spread if exact else self._rounded(y, spread, 1.0)

        return Bound(y, *self._both(x, bound_of))


def _is_native(primitive: Primitive, params: dict[str, Any]) -> bool:
    """Whether it is a convolution that takes no longer in float64 than another in float32."""
    return primitive.name == "conv" and params["groups"] == 1 and native.width() > 0

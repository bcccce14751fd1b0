"""Reductions, running sums, orders and what is chosen by them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import axes_of, axis_of, count, kept, spread
from backproof.ir.compose.reduce import mean, norm, std, total, var
from backproof.lowering.arithmetic import as_real, as_truth
from backproof.lowering.lowering import Lowering, moved

_choose = COMPOSITIONS["where"].function


def _dims(dim: Any, x: Ref | None = None) -> Any:
    """All axes by None, by an empty list of them, and of a single number by any."""
    return None if (isinstance(dim, (list, tuple)) and not dim) or (x is not None and not x.shape) else dim


def _sum(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return total(as_real(x, x), _dims(dim, x), keepdim=keepdim)


def _mean(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return mean(as_real(x, x), _dims(dim, x), keepdim=keepdim)


def _known(x: Ref) -> Ref:
    """What is a number, 1, and what is not, 0."""
    return x.builder.cast(x.builder.eq(x, x), to="real")


def _present(x: Ref) -> Ref:
    return _choose(x.builder.eq(x, x), x, 0.0)


def _nansum(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return total(_present(x), _dims(dim, x), keepdim=keepdim)


def _nanmean(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return _nansum(x, dim, keepdim) / total(_known(x), _dims(dim, x), keepdim=keepdim)


def _spread_of(function: Callable[..., Ref]) -> Callable[..., Ref]:
    """`var` and `std`: (x, unbiased), (x, dim, unbiased, keepdim) or (x, dim, correction=, keepdim=)."""

    def lower(
        x: Ref,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Ref:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1.0 if unbiased is None else float(unbiased)
        return function(x, _dims(dim, x), correction=correction, keepdim=keepdim)

    return lower


def _with_mean(function: Callable[..., Ref]) -> Callable[..., list[Ref]]:
    def lower(
        x: Ref, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> list[Ref]:
        axes = None if isinstance(dim, bool) else _dims(dim, x)
        found = _spread_of(function)(x, dim, unbiased, keepdim, correction=correction)
        return [found, mean(x, axes, keepdim=keepdim)]

    return lower


def _prod(x: Ref, dim: int | None = None, keepdim: bool = False, **_: Any) -> Ref:
    x = as_real(x, x)
    axes = axes_of(_dims(dim, x), len(x.shape))
    return kept(x.builder.prod(x, axes=axes), x, axes, keepdim=keepdim)


def _logsumexp(x: Ref, dim: Any, keepdim: bool = False) -> Ref:
    x = as_real(x, x)
    axes = axes_of(_dims(dim, x), len(x.shape))
    return kept(x.builder.logsumexp(x, axes=axes), x, axes, keepdim=keepdim)


def vector_norm(x: Ref, ord: float = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:  # noqa: A002
    x, p = as_real(x, x), float(ord)
    if p == 0:
        axes = axes_of(_dims(dim, x), len(x.shape))
        hits = x.builder.cast(x.builder.ne(x, x.constant(0.0)), to="real")
        return kept(x.builder.sum(hits, axes=axes), x, axes, keepdim=keepdim)
    if p == -math.inf:
        axes = axes_of(_dims(dim, x), len(x.shape))
        return kept(x.builder.min(x.builder.abs(x), axes=axes), x, axes, keepdim=keepdim)
    return norm(x, p, _dims(dim, x), keepdim=keepdim)


def _norm(x: Ref, p: Any = "fro", dim: Any = None, keepdim: bool = False, **given: Any) -> Ref:
    if p == "nuc":
        raise GraphError("the nuclear norm is not lowered")
    return vector_norm(x, 2.0 if p in ("fro", None) else p, dim, keepdim, **given)


def _linalg_norm(x: Ref, ord: Any = None, dim: Any = None, keepdim: bool = False, **given: Any) -> Ref:  # noqa: A002
    pair = (dim is None and len(x.shape) == 2) or (isinstance(dim, (list, tuple)) and len(dim) == 2)
    if ord is not None and pair:
        return _matrix_norm(x, ord, dim or (-2, -1), keepdim)
    return vector_norm(x, 2.0 if ord is None else ord, dim, keepdim, **given)


def _matrix_norm(x: Ref, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, **_: Any) -> Ref:  # noqa: A002
    """Frobenius, and the largest (smallest) sum of a column (1) or row (∞)."""
    row, column = (axis_of(d, len(x.shape)) for d in dim)
    if ord == "fro":
        return norm(x, 2.0, (row, column), keepdim=keepdim)
    if not isinstance(ord, (int, float)) or abs(ord) not in (1, math.inf):
        raise GraphError(f"the matrix norm {ord!r} takes singular values, and is not lowered")
    inner, outer = (row, column) if abs(ord) == 1 else (column, row)
    sums = total(x.builder.abs(x), inner, keepdim=True)
    found = sums.builder.apply("max" if ord > 0 else "min", sums, axes=(outer,))
    gone = tuple(n for axis, n in enumerate(x.shape) if axis not in (inner, outer))
    flat = x.builder.reshape(found, shape=gone)
    return kept(flat, x, (inner, outer), keepdim=keepdim)


def _dist(a: Ref, b: Ref, p: float = 2) -> Ref:
    return vector_norm(a - b, p)


# ── extremes and orders ─────────────────────────────────────────────────────────────────────────────────────────────


def _line(x: Ref, dim: int) -> tuple[Ref, int]:
    """With an axis to look along: a number is a line of one."""
    return (x, axis_of(dim, len(x.shape))) if x.shape else (x.builder.reshape(x, shape=(1,)), 0)


def _at(x: Ref, index: Ref, axis: int) -> Ref:
    """x where the index, which has the axis with size 1, says."""
    return x.builder.gather_along(x, index, axis=axis)


def _winner(op: str, x: Ref, axis: int) -> Ref:
    """Where x is largest or smallest, and, before all, where it is no number: as an index that keeps the axis."""
    signed = as_real(x, x) if op == "max" else -as_real(x, x)
    place = x.builder.argmax(signed, axis=axis)
    return kept(place, signed, (axis,), keepdim=True)


def _chosen(op: str, x: Ref, dim: int, keepdim: bool) -> list[Ref]:
    line, axis = _line(x, dim)
    place = _winner(op, line, axis)
    found = [_at(line, place, axis), place]
    if keepdim and x.shape:
        return found
    shape = tuple(n for a, n in enumerate(line.shape) if a != axis)
    return [y.builder.reshape(y, shape=shape) for y in found]


def _whole(op: str) -> Callable[..., Any]:
    """The extreme of all, of two values element by element, or along an axis, with where it is."""

    def lower(x: Ref, other: Any = None, keepdim: bool = False, *, dim: int | None = None) -> Any:
        if isinstance(other, Ref):
            from backproof.lowering.arithmetic import ARITHMETIC

            return next(one for one in ARITHMETIC if one.name == f"{op}imum").function(x, other)
        along = other if dim is None else dim
        if along is not None:
            return _chosen(op, x, along, keepdim)
        return x.builder.apply(op, as_real(x, x), axes=tuple(range(len(x.shape))))

    return lower


def _along(op: str) -> Callable[..., Ref]:
    def lower(x: Ref, dim: Any = (), keepdim: bool = False) -> Ref:
        x = as_real(x, x)
        axes = axes_of(_dims(dim, x), len(x.shape))
        return kept(x.builder.apply(op, x, axes=axes), x, axes, keepdim=keepdim)

    return lower


def _aminmax(x: Ref, *, dim: int | None = None, keepdim: bool = False) -> list[Ref]:
    return [_along(op)(x, dim if dim is not None else (), keepdim) for op in ("min", "max")]


def _place_of(op: str) -> Callable[..., Ref]:
    def lower(x: Ref, dim: int | None = None, keepdim: bool = False) -> Ref:
        if dim is None:
            flat = x.builder.reshape(x, shape=(x.type.size,))
            return x.builder.reshape(_winner(op, flat, 0), shape=(1,) * len(x.shape) if keepdim else ())
        return _chosen(op, x, dim, keepdim)[1]

    return lower


def _order(x: Ref, axis: int, *, descending: bool) -> Ref:
    return x.builder.argsort(as_real(x, x), axis=axis, descending=descending)


def _settled(line: Ref, axis: int, order: Ref, seen: Ref | None) -> Ref:
    """An order in which equals stand as they were seen to: only where the elements are the same, and each is there once."""
    if seen is None or not line.type.size:
        return order
    D = line.builder
    taken = D.reshape(seen, shape=order.shape)
    counts = D.scatter_along(taken, D.cast(taken.constant(1), to="real"), axis=axis, size=line.shape[axis])
    once = kept(D.max(counts, axes=(axis,)), counts, (axis,)) <= 1.0
    same = D.eq(*(as_real(_at(line, places, axis), line) for places in (taken, order)))
    return D.where(D.logical_and(once.broadcast_to(order.shape), same), taken, order)


def _sort(
    x: Ref, dim: Any = -1, descending: bool = False, stable: bool = False, seen: list[Ref] | None = None
) -> list[Ref]:
    del stable  # it only says more about equals than is asked
    line, axis = _line(x, dim)
    order = _settled(line, axis, _order(line, axis, descending=descending), seen[-1] if seen else None)
    return [y.builder.reshape(y, shape=x.shape) for y in (_at(line, order, axis), order)]


def _argsort(
    x: Ref, dim: int = -1, descending: bool = False, stable: bool = False, seen: list[Ref] | None = None
) -> Ref:
    return _sort(x, dim, descending, stable, seen)[1]


def _topk(
    x: Ref,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002 # the framework's names
    seen: list[Ref] | None = None,
) -> list[Ref]:
    del sorted  # they are sorted whenever it is asked, and in practice always
    line, axis = _line(x, dim)
    real = as_real(line, line)
    order = x.builder.topk(real if largest else -real, k=k, axis=axis)
    order = _settled(line, axis, order, seen[1] if seen else None)
    found = [_at(line, order, axis), order]
    return found if x.shape else [y.builder.reshape(y, shape=()) for y in found]


def _ranked(x: Ref, rank: int, dim: int, keepdim: bool, seen: list[Ref] | None) -> list[Ref]:
    """The element of this rank from the smallest, along an axis, and where it is."""
    line, axis = _line(x, dim)
    order = _order(line, axis, descending=False)
    place = order[(slice(None),) * axis + (slice(rank, rank + 1),)]
    place = _settled(line, axis, place, seen[1] if seen else None)
    found = [_at(line, place, axis), place]
    if keepdim and x.shape:
        return found
    return [y.builder.reshape(y, shape=tuple(n for a, n in enumerate(line.shape) if a != axis)) for y in found]


def _kthvalue(x: Ref, k: int, dim: int = -1, keepdim: bool = False, seen: list[Ref] | None = None) -> list[Ref]:
    return _ranked(x, k - 1, dim, keepdim, seen)


def _median(x: Ref, dim: int | None = None, keepdim: bool = False, seen: list[Ref] | None = None) -> Any:
    """The lower of the two in the middle."""
    if dim is None:
        flat = x.builder.reshape(x, shape=(x.type.size,))
        return _ranked(flat, (x.type.size - 1) // 2, 0, False, None)[0]
    line, axis = _line(x, dim)
    return _ranked(x, (line.shape[axis] - 1) // 2, dim, keepdim, seen)


# ── along an axis, one after another ────────────────────────────────────────────────────────────────────────────────


def _cumsum(x: Ref, dim: int, **_: Any) -> Ref:
    line, axis = _line(as_real(x, x), dim)
    return x.builder.reshape(x.builder.cumsum(line, axis=axis, reverse=False), shape=x.shape)


def _beginnings(x: Ref, axis: int, fill: float, reduced: Callable[[Ref, int], Ref]) -> Ref:
    """A reduction of each beginning of x along an axis: for each place, of what comes up to it, and the fill after it."""
    n, rank = x.shape[axis], len(x.shape)
    place = x.builder.iota(size=n)
    shape = (*x.shape[: axis + 1], n, *x.shape[axis + 1 :])
    each = x.builder.broadcast(x, shape=shape, axes=tuple(a for a in range(rank + 1) if a != axis))
    row, column = (x.builder.broadcast(place, shape=shape, axes=(a,)) for a in (axis, axis + 1))
    return reduced(_choose(column <= row, each, fill), axis + 1)


def _cumprod(x: Ref, dim: int, **_: Any) -> Ref:
    line, axis = _line(as_real(x, x), dim)
    found = _beginnings(line, axis, 1.0, lambda y, a: y.builder.prod(y, axes=(a,)))
    return x.builder.reshape(found, shape=x.shape)


def _running(op: str) -> Callable[..., list[Ref]]:
    """The extreme so far and where it is: the last of equals."""

    def lower(x: Ref, dim: int) -> list[Ref]:
        line, axis = _line(as_real(x, x), dim)
        if not line.type.size:
            return [moved(x), x.builder.cast(line, to="int")]
        signed = line if op == "max" else -line
        end = line.shape[axis] - 0.5  # a whole number and a half: no rounding makes it another

        def last(y: Ref, a: int) -> Ref:
            turned = y.builder.argmax(y.builder.flip(y, axes=(a,)), axis=a)
            return y.builder.cast(end - y.builder.cast(turned, to="real"), to="int")

        place = _beginnings(signed, axis, -math.inf, last)
        return [x.builder.reshape(y, shape=x.shape) for y in (_at(line, place, axis), place)]

    return lower


def _diff(x: Ref, n: int = 1, dim: int = -1, prepend: Ref | None = None, append: Ref | None = None) -> Ref:
    axis = axis_of(dim, len(x.shape))
    parts = [part for part in (prepend, x, append) if part is not None]
    y = x.builder.concat(*parts, axis=axis) if len(parts) > 1 else x
    lead = (slice(None),) * axis
    for _ in range(min(n, y.shape[axis])):
        y = y[(*lead, slice(1, None))] - y[(*lead, slice(0, max(y.shape[axis] - 1, 0)))]
    return moved(y)


def _trapezoid(y: Ref, x: Ref | None = None, *, dx: float = 1.0, dim: int = -1) -> Ref:
    axis = axis_of(dim, len(y.shape))
    lead = (slice(None),) * axis
    ends = y[(*lead, slice(1, None))] + y[(*lead, slice(0, max(y.shape[axis] - 1, 0)))]
    if x is None:
        return 0.5 * float(dx) * total(ends, axis)
    if len(x.shape) == 1:
        x = x.builder.broadcast(x, shape=y.shape, axes=(axis,))
    return 0.5 * total(ends * _diff(x.broadcast_to(y.shape), 1, axis), axis)


def _truth_of(op: str) -> Callable[..., Ref]:
    """Whether all, or any, are true."""

    def lower(x: Ref, dim: Any = None, keepdim: bool = False) -> Ref:
        axes = axes_of(_dims(dim, x), len(x.shape))
        counted = x.builder.cast(as_truth(x), to="real")
        hits = kept(x.builder.sum(counted, axes=axes), x, axes, keepdim=keepdim)
        return hits > 0.0 if op == "any" else hits >= float(count(x, axes))

    return lower


def _count_nonzero(x: Ref, dim: Any = None) -> Ref:
    return total(x.builder.cast(as_truth(x), to="real"), _dims(dim, x))


def _cov(x: Ref, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Ref:
    if fweights is not None or aweights is not None:
        raise GraphError("cov with weights is not lowered")
    rows = x.builder.reshape(x, shape=(1, x.type.size)) if len(x.shape) < 2 else x
    off = rows - spread(mean(rows, (1,)), rows, (1,))
    found = (off @ x.builder.transpose(off, axes=(1, 0))) / float(max(rows.shape[1] - correction, 0))
    return x.builder.reshape(found, shape=()) if found.type.size == 1 else found


REDUCTIONS = (
    Lowering("sum", _sum),
    Lowering("mean", _mean),
    Lowering("nansum", _nansum),
    Lowering("nanmean", _nanmean),
    Lowering("var", _spread_of(var)),
    Lowering("std", _spread_of(std)),
    Lowering("var_mean", _with_mean(var)),
    Lowering("std_mean", _with_mean(std)),
    Lowering("prod", _prod),
    Lowering("logsumexp", _logsumexp),
    Lowering("vector_norm", vector_norm),
    Lowering("norm", _norm),
    Lowering("linalg_norm", _linalg_norm),
    Lowering("matrix_norm", _matrix_norm),
    Lowering("dist", _dist),
    Lowering("max", _whole("max")),
    Lowering("min", _whole("min")),
    Lowering("amax", _along("max")),
    Lowering("amin", _along("min")),
    Lowering("aminmax", _aminmax),
    Lowering("argmax", _place_of("max")),
    Lowering("argmin", _place_of("min")),
    Lowering("sort", _sort, witnessed=True),
    Lowering("msort", lambda x: _sort(x, 0)[0]),
    Lowering("argsort", _argsort, witnessed=True),
    Lowering("topk", _topk, witnessed=True),
    Lowering("kthvalue", _kthvalue, witnessed=True),
    Lowering("median", _median, witnessed=True),
    Lowering("cumsum", _cumsum),
    Lowering("cumprod", _cumprod),
    Lowering("cummax", _running("max")),
    Lowering("cummin", _running("min")),
    Lowering("diff", _diff),
    Lowering("trapezoid", _trapezoid),
    Lowering("all", _truth_of("all")),
    Lowering("any", _truth_of("any")),
    Lowering("count_nonzero", _count_nonzero),
    Lowering("cov", _cov),
)

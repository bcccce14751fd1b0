"""Extremes and orders: what is chosen by comparing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import axes_of, axis_of, kept
from backproof.lowering.arithmetic import as_real
from backproof.lowering.lowering import Lowering
from backproof.lowering.reductions import dims

_choose = COMPOSITIONS["where"].function


def line_along(x: Ref, dim: int) -> tuple[Ref, int]:
    """With an axis to look along: a number is a line of one."""
    return (x, axis_of(dim, len(x.shape))) if x.shape else (x.builder.reshape(x, shape=(1,)), 0)


def at(x: Ref, index: Ref, axis: int) -> Ref:
    """x where the index, which has the axis with size 1, says."""
    return x.builder.gather_along(x, index, axis=axis)


def _winner(op: str, x: Ref, axis: int) -> Ref:
    """Where x is largest or smallest, and, before all, where it is no number: as an index that keeps the axis."""
    signed = as_real(x, x) if op == "max" else -as_real(x, x)
    place = x.builder.argmax(signed, axis=axis)
    return kept(place, signed, (axis,), keepdim=True)


def _chosen(op: str, x: Ref, dim: int, keepdim: bool) -> list[Ref]:
    line, axis = line_along(x, dim)
    place = _winner(op, line, axis)
    found = [at(line, place, axis), place]
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
        axes = axes_of(dims(dim, x), len(x.shape))
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
    same = D.eq(*(as_real(at(line, places, axis), line) for places in (taken, order)))
    return D.where(D.logical_and(once.broadcast_to(order.shape), same), taken, order)


def _sort(
    x: Ref, dim: Any = -1, descending: bool = False, stable: bool = False, seen: list[Ref] | None = None
) -> list[Ref]:
    del stable  # it only says more about equals than is asked
    line, axis = line_along(x, dim)
    order = _settled(line, axis, _order(line, axis, descending=descending), seen[-1] if seen else None)
    return [y.builder.reshape(y, shape=x.shape) for y in (at(line, order, axis), order)]


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
    line, axis = line_along(x, dim)
    real = as_real(line, line)
    order = x.builder.topk(real if largest else -real, k=k, axis=axis)
    order = _settled(line, axis, order, seen[1] if seen else None)
    found = [at(line, order, axis), order]
    return found if x.shape else [y.builder.reshape(y, shape=()) for y in found]


def _ranked(x: Ref, rank: int, dim: int, keepdim: bool, seen: list[Ref] | None) -> list[Ref]:
    """The element of this rank from the smallest, along an axis, and where it is."""
    line, axis = line_along(x, dim)
    order = _order(line, axis, descending=False)
    place = order[(slice(None),) * axis + (slice(rank, rank + 1),)]
    place = _settled(line, axis, place, seen[1] if seen else None)
    found = [at(line, place, axis), place]
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
    line, axis = line_along(x, dim)
    return _ranked(x, (line.shape[axis] - 1) // 2, dim, keepdim, seen)


def _quantile(x: Ref, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Ref:
    """Of n in order the one at q·(n − 1), and between two their mix: each has the weight 1 less its distance, or none."""
    if interpolation != "linear":
        raise GraphError(f"quantile with interpolation {interpolation!r} is not lowered: its rank may round to another")
    line, axis = (x.builder.reshape(x, shape=(x.type.size,)), 0) if dim is None else line_along(x, dim)
    D, n, last = x.builder, line.shape[axis], len(line.shape) - 1
    order = D.transpose(
        at(line, _order(line, axis, descending=False), axis), axes=(*(a for a in range(last + 1) if a != axis), axis)
    )
    ranks = (q if isinstance(q, Ref) else x.constant(float(q), ())) * float(n - 1)
    shape = (*ranks.shape, n)
    off = D.broadcast(ranks, shape=shape, axes=tuple(range(len(ranks.shape)))) - D.broadcast(
        ranks.constant(np.arange(n, dtype=np.float64)), shape=shape, axes=(len(ranks.shape),)
    )
    weights = D.relu(1.0 - D.abs(off))
    found = D.dot_general(weights, order, contract=((len(ranks.shape),), (last,)), batch=((), ()))
    if keepdim:
        kept_shape = (1,) * len(x.shape) if dim is None else tuple(1 if a == axis else m for a, m in enumerate(x.shape))
        return D.reshape(found, shape=(*ranks.shape, *kept_shape))
    return found


ORDERS = (
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
    Lowering("quantile", _quantile),
)

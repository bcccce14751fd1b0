"""Reading and writing along one axis: the gather, scatter and index families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import axis_of, places_beside
from backproof.ir.types import Type
from backproof.lowering.arithmetic import as_real
from backproof.lowering.indexing import like, number, put
from backproof.lowering.keys import from_front
from backproof.lowering.lowering import Lowering

_choose = COMPOSITIONS["where"].function


def as_line(x: Ref) -> Ref:
    return x if x.shape else x.builder.reshape(x, shape=(1,))


def _within(x: Ref, sizes: Sequence[int], axis: int) -> Ref:
    """The beginning of x that an index reaches along the other axes."""
    cut = tuple(slice(None) if a == axis else slice(0, n) for a, n in enumerate(sizes))
    return x if all(a == axis or n == m for a, (n, m) in enumerate(zip(sizes, x.shape, strict=True))) else x[cut]


def _gather(x: Ref, dim: int, index: Ref, **_: Any) -> Ref:
    line, places = as_line(x), as_line(index)
    axis = axis_of(dim, len(line.shape))
    found = x.builder.gather_along(_within(line, places.shape, axis), places, axis=axis)
    return x.builder.reshape(found, shape=index.shape)


def _take_along(x: Ref, indices: Ref, dim: int | None = None) -> Ref:
    if dim is None:
        return _gather(
            x.builder.reshape(x, shape=(x.type.size,)), 0, indices.builder.reshape(indices, shape=(indices.type.size,))
        )
    axis = axis_of(dim, len(x.shape))
    shape = broadcast_shapes(*((*y.shape[:axis], 1, *y.shape[axis + 1 :]) for y in (x, indices)))
    x, indices = (y.broadcast_to((*shape[:axis], y.shape[axis], *shape[axis + 1 :])) for y in (x, indices))
    return x.builder.gather_along(x, from_front(indices, x.shape[axis]), axis=axis)


def _take(x: Ref, index: Ref) -> Ref:
    flat = x.builder.reshape(x, shape=(x.type.size,))
    return x.builder.gather(flat, from_front(index, x.type.size), axis=0)


def _scattered(x: Ref, axis: int, places: Ref, updates: Ref) -> Ref:
    """Updates along an axis, from zeros, in the shape of x."""
    D = x.builder
    found = D.scatter_along(places, _within_all(updates, places.shape), axis=axis, size=x.shape[axis])
    high = tuple(n - m for n, m in zip(x.shape, found.shape, strict=True))
    none = (0,) * len(high)
    return D.pad(found, low=none, high=high, interior=none) if any(high) else found


def _within_all(x: Ref, sizes: Sequence[int]) -> Ref:
    return x if x.shape == tuple(sizes) else x[tuple(slice(0, n) for n in sizes)]


def _scatter(x: Ref, dim: int, index: Ref, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Ref:
    given = value if src is None else src
    if reduce is not None:
        if reduce != "add":
            raise GraphError(f"scatter that reduces by {reduce!r} is not lowered")
        return _scatter_add(
            x, dim, index, given if isinstance(given, Ref) else as_real(index, x).constant(given, index.shape)
        )
    if x.type.kind != "real":
        real = given if not isinstance(given, Ref) else as_real(given, given)
        return like(_scatter(as_real(x, x), dim, index, real), x, kind=x.type.kind)
    line, places = as_line(x), as_line(index)
    axis = axis_of(dim, len(line.shape))
    ones = as_real(places, places).constant(1.0)
    counts = _scattered(line, axis, places, ones)
    if not isinstance(given, Ref):
        return x.builder.reshape(_choose(counts > 0.0, float(given), line), shape=x.shape)
    sums = _scattered(line, axis, places, as_line(given))
    written = _choose(counts > 1.0, sums / _choose(counts > 1.0, counts, 1.0), sums)
    return x.builder.reshape(_choose(counts > 0.0, written, line), shape=x.shape)


def _scatter_add(x: Ref, dim: int, index: Ref, src: Ref) -> Ref:
    if x.type.kind != "real":
        return like(_scatter_add(as_real(x, x), dim, index, as_real(src, src)), x, kind=x.type.kind)
    line, places = as_line(x), as_line(index)
    axis = axis_of(dim, len(line.shape))
    return x.builder.reshape(line + _scattered(line, axis, places, as_line(src)), shape=x.shape)


def _scatter_reduce(x: Ref, dim: int, index: Ref, src: Ref, reduce: str, *, include_self: bool = True) -> Ref:
    if reduce not in ("sum", "mean"):
        raise GraphError(f"scatter_reduce by {reduce!r} is not lowered")
    line, places = as_line(x), as_line(index)
    axis = axis_of(dim, len(line.shape))
    sums = _scattered(line, axis, places, as_line(src))
    counts = _scattered(line, axis, places, as_real(places, places).constant(1.0))
    start = line if include_self else _choose(counts > 0.0, 0.0, line)
    found = start + sums
    if reduce == "mean":
        terms = counts + 1.0 if include_self else counts
        found = found / _choose(counts > 0.0, terms, 1.0)
    return x.builder.reshape(found, shape=x.shape)


def _rows_added(x: Ref, axis: int, index: Ref, source: Ref) -> Ref:
    places = index.builder.reshape(index, shape=(index.type.size,))
    return x.builder.scatter_add(places, source, axis=axis, size=x.shape[axis])


def _index_add(x: Ref, dim: int, index: Ref, source: Ref, *, alpha: float = 1) -> Ref:
    if x.type.kind != "real":
        return like(_index_add(as_real(x, x), dim, index, as_real(source, source), alpha=alpha), x, kind=x.type.kind)
    line, rows = as_line(x), as_line(source)
    added = _rows_added(line, axis_of(dim, len(line.shape)), index, rows if alpha == 1 else rows * float(alpha))
    return x.builder.reshape(line + added, shape=x.shape)


def _index_copy(x: Ref, dim: int, index: Ref, source: Ref) -> Ref:
    line = as_line(x)
    axis = axis_of(dim, len(line.shape))
    order = x.builder.reshape(x.builder.iota(size=line.type.size), shape=line.shape)
    places = index.builder.reshape(index, shape=(index.type.size,))
    return x.builder.reshape(put(line, x.builder.gather(order, places, axis=axis), as_line(source)), shape=x.shape)


def _index_fill(x: Ref, dim: int, index: Ref, value: Any) -> Ref:
    line = as_line(x)
    axis = axis_of(dim, len(line.shape))
    places = index.builder.reshape(index, shape=(index.type.size,))
    counts = x.builder.scatter_add(places, x.builder.cast(places.constant(1), to="real"), axis=0, size=line.shape[axis])
    hit = x.builder.broadcast(counts > 0.0, shape=line.shape, axes=(axis,))
    filled = value.broadcast_to(line.shape) if isinstance(value, Ref) else number(value, x)
    return x.builder.reshape(_choose(hit, filled, line), shape=x.shape)


def _index_select(x: Ref, dim: int, index: Ref) -> Ref:
    line = as_line(x)
    places = index.builder.reshape(index, shape=(index.type.size,))
    found = x.builder.gather(line, places, axis=axis_of(dim, len(line.shape)))
    return found if x.shape else x.builder.reshape(found, shape=())


def _repeat_interleave(
    x: Ref, repeats: Any, dim: int | None = None, *, output_size: int | None = None, results: tuple[Type, ...]
) -> Ref:
    del output_size
    if dim is None:
        x, dim = x.builder.reshape(x, shape=(x.type.size,)), 0
    axis, D = axis_of(dim, len(x.shape)), x.builder
    n, m = x.shape[axis], results[0].shape[axis]
    if not isinstance(repeats, Ref):
        return D.gather(x, places_beside(x, np.repeat(np.arange(n), repeats)), axis=axis)
    ends = D.cumsum(as_real(repeats, repeats).broadcast_to((n,)), axis=0, reverse=False)
    place = D.cast(D.iota(size=m), to="real")
    row, column = D.broadcast(ends, shape=(m, n), axes=(1,)), D.broadcast(place, shape=(m, n), axes=(0,))
    return D.gather(x, D.cast(D.sum(D.cast(row <= column, to="real"), axes=(1,)), to="int"), axis=axis)


ALONG = (
    Lowering("gather", _gather),
    Lowering("take_along_dim", _take_along),
    Lowering("take", _take),
    Lowering("scatter", _scatter),
    Lowering("scatter_add", _scatter_add),
    Lowering("scatter_reduce", _scatter_reduce),
    Lowering("index_add", _index_add),
    Lowering("index_copy", _index_copy),
    Lowering("index_fill", _index_fill),
    Lowering("index_select", _index_select),
    Lowering("repeat_interleave", _repeat_interleave, sized=True),
)

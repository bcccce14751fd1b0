"""Reading and writing by index: every form of `x[...]`, the gather and scatter families, masks and diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes, index
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import axis_of, places_beside
from backproof.ir.types import Type
from backproof.lowering.arithmetic import as_real
from backproof.lowering.lowering import Lowering, moved

_choose = COMPOSITIONS["where"].function
Key = list[Any]

# ── a key, taken apart ──────────────────────────────────────────────────────────────────────────────────────────────


def _spelled_out(x: Ref, key: Any) -> Key:
    """One entry for each axis of x, and None for each new one; lists are values, `...` is written out."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [_listed(item, x) if isinstance(item, list) else item for item in keys]
    used = sum(_axes_used(item) for item in keys)
    dots = next((i for i, item in enumerate(keys) if item is Ellipsis), None)
    rest = [slice(None)] * (len(x.shape) - used)
    return [*keys, *rest] if dots is None else [*keys[:dots], *rest, *keys[dots + 1 :]]


def _listed(item: list[Any], x: Ref) -> Ref:
    return (
        places_beside(x, item)
        if not item or not isinstance(item[0], bool)
        else x.constant(np.array(item, dtype=np.bool_))
    )


def _axes_used(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return len(item.shape) if isinstance(item, Ref) and item.type.kind == "bool" else 1


def _read(x: Ref, key: Any, count: int | None) -> Ref:
    """x[key]; `count` is how many elements a mask lets through."""
    y, chosen = _sliced(x, _spelled_out(x, key))
    if not chosen:
        return moved(y)
    y, places, front = _flattened(y, chosen, count)
    return _back(y.builder.gather(y, places, axis=0), places, front)


def _sliced(x: Ref, keys: Key) -> tuple[Ref, list[tuple[int, Ref]]]:
    """What whole numbers, slices and new axes make of x, and the index values that remain, by the axis of that."""
    plain = [slice(None) if isinstance(item, Ref) else item for item in _by_axis(keys)]
    y = index(x, tuple(plain)) if any(item != slice(None) for item in plain) else x
    chosen: list[tuple[int, Ref]] = []
    shape: list[int] = []
    sizes = iter(y.shape)
    for item in keys:
        if isinstance(item, Ref):
            chosen.append((len(shape), item))
            shape += [next(sizes) for _ in range(_axes_used(item))]
        elif isinstance(item, bool):
            raise GraphError("an index that is True or False is not lowered")
        elif item is None:
            shape.append(1)
        elif isinstance(item, slice):
            shape.append(next(sizes))
    y = y if tuple(shape) == y.shape else y.builder.reshape(y, shape=tuple(shape))
    return _selected(y, chosen)


def _by_axis(keys: Key) -> Key:
    return [part for item in keys if item is not None for part in [item] * max(_axes_used(item), 1)]


def _selected(y: Ref, chosen: list[tuple[int, Ref]]) -> tuple[Ref, list[tuple[int, Ref]]]:
    """A single whole number that is a value takes its axis away, as one that is written does."""
    kept, gone = [], 0
    for axis, item in chosen:
        if item.shape == () and item.type.kind == "int":
            y = y.builder.gather(y, _from_front(item, y.shape[axis - gone]), axis=axis - gone)
            gone += 1
        else:
            kept.append((axis - gone, item))
    return y, kept


def _flattened(y: Ref, chosen: list[tuple[int, Ref]], count: int | None) -> tuple[Ref, Ref, int]:
    """y with all indexed axes as one, the first; the places along it; and how many axes stand before them in the result."""
    axes = [axis + i for axis, item in chosen for i in range(_axes_used(item))]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    others = [axis for axis in range(len(y.shape)) if axis not in axes]
    places = _places([y.shape[axis] for axis in axes], [item for _, item in chosen], count)
    turned = y.builder.transpose(y, axes=(*axes, *others)) if axes != list(range(len(axes))) else y
    rest = tuple(y.shape[axis] for axis in others)
    flat = y.builder.reshape(turned, shape=(math.prod(y.shape[axis] for axis in axes), *rest))
    return flat, places, axes[0] if adjacent else 0


def _places(sizes: Sequence[int], items: Sequence[Ref], count: int | None) -> Ref:
    """Where several indices point, in the axis that theirs make together."""
    if len(items) == 1 and items[0].type.kind == "bool":
        return where_true(items[0], count)
    if len(items) == 1:
        return _from_front(items[0], sizes[0])
    found: list[Ref] = []
    for item in items:
        found += _coordinates(item, count) if item.type.kind == "bool" else [item]
    shape: tuple[int, ...] = ()
    for item in found:
        shape = broadcast_shapes(shape, item.shape)
    return joined_places(sizes, [item.broadcast_to(shape) for item in found])


def joined_places(sizes: Sequence[int], items: Sequence[Ref]) -> Ref:
    """Row-major places of coordinates, counted from either end."""
    total: Ref | None = None
    for size, item in zip(sizes, items, strict=True):
        part = as_real(_from_front(item, size), item)
        total = part if total is None else total * float(size) + part
    assert total is not None
    return total.builder.cast(total + 0.5, to="int")  # a whole number and a half: no rounding makes it another


def _from_front(item: Ref, size: int) -> Ref:
    if item.type.kind != "int":
        raise GraphError(f"an index is a whole number or a truth value, not {item.type}")
    real = as_real(item, item)
    turned = item.builder.cast(real + (size + 0.5), to="int")
    return item.builder.where(item < 0, turned, item)


def _coordinates(mask: Ref, count: int | None) -> list[Ref]:
    flat = where_true(mask, count)
    grids = np.indices(mask.shape).reshape(len(mask.shape), -1)
    return [flat.builder.gather(places_beside(flat, grid), flat, axis=0) for grid in grids]


def where_true(mask: Ref, count: int | None) -> Ref:
    """The places of what is true, in order. How many there are was recorded: if there are others, they point nowhere."""
    if count is None:
        raise GraphError("a mask lets through what its numbers say, and how many that are is not known here")
    D, size = mask.builder, mask.type.size
    flat = D.cast(D.reshape(mask, shape=(size,)), to="real")
    order = D.argsort(flat, axis=0, descending=True)[:count]
    right = D.eq(D.sum(flat, axes=(0,)), flat.constant(float(count), ()))
    return D.where(right.broadcast_to((count,)), order, order.constant(-1))


def _back(found: Ref, places: Ref, front: int) -> Ref:
    """The axes of the places, from the front to where the indexed ones were."""
    n = len(places.shape)
    order = (*range(n, n + front), *range(n), *range(n + front, len(found.shape)))
    return found.builder.transpose(found, axes=order) if front else found


def _count_of(x: Ref, key: Any, results: tuple[Type, ...]) -> int | None:
    """How many elements the mask in a key lets through, from the shape of the result."""
    keys = _spelled_out(x, key)
    masks = [item for item in keys if isinstance(item, Ref) and item.type.kind == "bool"]
    if not masks:
        return None
    ints = [item for item in keys if isinstance(item, Ref) and item.type.kind == "int" and item.shape]
    if ints and all(math.prod(item.shape) == 1 for item in ints) is False:
        return max(item.type.size for item in ints)
    fixed = _read_shape(x, keys)
    return next(n for n, m in zip(results[0].shape, fixed, strict=True) if m is None)


def _read_shape(x: Ref, keys: Key) -> list[int | None]:
    """The result's shape with None for what a mask decides."""
    y, chosen = _sliced(x, keys)
    axes = [axis + i for axis, item in chosen for i in range(_axes_used(item))]
    front = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    rest: list[int | None] = [n for axis, n in enumerate(y.shape) if axis not in axes]
    return [*rest[:front], None, *rest[front:]]


def _getitem(x: Ref, key: Any, *, results: tuple[Type, ...]) -> Ref:
    return _read(x, key, _count_of(x, key, results))


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _setitem(x: Ref, key: Any, value: Any) -> Ref:
    keys = _spelled_out(x, key)
    if (
        len(keys) >= 1
        and isinstance(keys[0], Ref)
        and keys[0].type.kind == "bool"
        and all(k == slice(None) for k in keys[1:])
    ):
        return _set_where(x, keys[0], value)
    if any(isinstance(item, Ref) and item.type.kind == "bool" for item in keys):
        raise GraphError("writing through a mask beside other indices is not lowered")
    place = x.builder.reshape(x.builder.iota(size=x.type.size), shape=x.shape)
    where = _read(place, key, None)
    return _put(x, where, value)


def _put(x: Ref, where: Ref, value: Any) -> Ref:
    """x with the value at these places of its row-major order."""
    size, n = x.type.size, where.type.size
    if not isinstance(value, Ref):
        hit = _hits(x, where)
        return _choose(hit, _number(value, x), x)
    value = _like(value, x)
    if value.shape != where.shape:  # leading axes of size 1 say nothing
        value = value.builder.reshape(
            value, shape=value.shape[max(len(value.shape) - len(where.shape), 0) :]
        ).broadcast_to(where.shape)
    if x.type.kind != "real":
        return _like(_put(as_real(x, x), where, as_real(value, value)), x, kind=x.type.kind)
    flat, updates = (y.builder.reshape(y, shape=(n,)) for y in (where, value))
    D = x.builder
    sums = D.scatter_add(flat, updates, axis=0, size=size)
    counts = D.scatter_add(flat, updates.constant(1.0), axis=0, size=size)
    # What is written twice with one value has that value; which of several values stays, PyTorch leaves open.
    written = _choose(counts > 1.0, sums / _choose(counts > 1.0, counts, 1.0), sums)
    return D.reshape(_choose(counts > 0.0, written, D.reshape(x, shape=(size,))), shape=x.shape)


def _hits(x: Ref, where: Ref) -> Ref:
    D = x.builder
    flat = D.reshape(where, shape=(where.type.size,))
    counts = D.scatter_add(flat, flat.builder.cast(flat.constant(1), to="real"), axis=0, size=x.type.size)
    return D.reshape(counts > 0.0, shape=x.shape)


def _number(value: Any, x: Ref) -> Any:
    return {"real": float, "int": int, "bool": bool}[x.type.kind](value)


def _like(value: Ref, x: Ref, kind: str | None = None) -> Ref:
    wanted = kind or x.type.kind
    return value if value.type.kind == wanted else value.builder.cast(value, to=wanted)


def _set_where(x: Ref, mask: Ref, value: Any) -> Ref:
    """Rows through a mask over the first axes: one value for all, or the next of several for each."""
    rest = len(x.shape) - len(mask.shape)
    wide = mask.builder.broadcast(mask, shape=x.shape, axes=tuple(range(len(mask.shape))))
    if not isinstance(value, Ref):
        return _choose(wide, _number(value, x), x)
    value = _like(value, x)
    if len(value.shape) <= rest or value.shape[0] == 1:
        row = value if len(value.shape) <= rest else value.builder.reshape(value, shape=value.shape[1:])
        return _choose(wide, row.broadcast_to(x.shape), x)
    return _choose(wide, _next_of(value, mask, x), x)


def _next_of(value: Ref, mask: Ref, x: Ref) -> Ref:
    D = x.builder
    turns = D.cumsum(D.cast(D.reshape(mask, shape=(mask.type.size,)), to="real"), axis=0, reverse=False)
    turn = D.reshape(D.cast(turns - 0.5, to="int"), shape=mask.shape)
    return D.gather(value, turn, axis=0)


def _masked_select(x: Ref, mask: Ref, *, results: tuple[Type, ...]) -> Ref:
    shape = broadcast_shapes(x.shape, mask.shape)
    return (
        _read(x.broadcast_to(shape), mask.broadcast_to(shape), results[0].shape[0])
        if shape
        else x.builder.reshape(x, shape=(1,))
    )


def _masked_scatter(x: Ref, mask: Ref, source: Ref) -> Ref:
    shape = broadcast_shapes(x.shape, mask.shape)
    x, mask = x.broadcast_to(shape), mask.broadcast_to(shape)
    flat = source.builder.reshape(_like(source, x), shape=(source.type.size,))
    return _choose(mask, _next_of(flat, mask, x), x)


def _nonzero(x: Ref, *, as_tuple: bool = False, results: tuple[Type, ...]) -> Any:
    mask = x if x.type.kind == "bool" else x.builder.ne(x, x.constant(0))
    rows = _coordinates(mask, results[0].shape[0])
    if as_tuple:
        return rows
    if not rows:
        raise GraphError("the places of a single number are not lowered")
    return rows[0].builder.concat(*(row.builder.reshape(row, shape=(*row.shape, 1)) for row in rows), axis=1)


# ── families along an axis ──────────────────────────────────────────────────────────────────────────────────────────


def _line(x: Ref) -> Ref:
    return x if x.shape else x.builder.reshape(x, shape=(1,))


def _within(x: Ref, sizes: Sequence[int], axis: int) -> Ref:
    """The beginning of x that an index reaches along the other axes."""
    cut = tuple(slice(None) if a == axis else slice(0, n) for a, n in enumerate(sizes))
    return x if all(a == axis or n == m for a, (n, m) in enumerate(zip(sizes, x.shape, strict=True))) else x[cut]


def _gather(x: Ref, dim: int, index: Ref, **_: Any) -> Ref:
    line, places = _line(x), _line(index)
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
    return x.builder.gather_along(x, _from_front(indices, x.shape[axis]), axis=axis)


def _take(x: Ref, index: Ref) -> Ref:
    flat = x.builder.reshape(x, shape=(x.type.size,))
    return x.builder.gather(flat, _from_front(index, x.type.size), axis=0)


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
        return _like(_scatter(as_real(x, x), dim, index, real), x, kind=x.type.kind)
    line, places = _line(x), _line(index)
    axis = axis_of(dim, len(line.shape))
    ones = as_real(places, places).constant(1.0)
    counts = _scattered(line, axis, places, ones)
    if not isinstance(given, Ref):
        return x.builder.reshape(_choose(counts > 0.0, float(given), line), shape=x.shape)
    sums = _scattered(line, axis, places, _line(given))
    written = _choose(counts > 1.0, sums / _choose(counts > 1.0, counts, 1.0), sums)
    return x.builder.reshape(_choose(counts > 0.0, written, line), shape=x.shape)


def _scatter_add(x: Ref, dim: int, index: Ref, src: Ref) -> Ref:
    if x.type.kind != "real":
        return _like(_scatter_add(as_real(x, x), dim, index, as_real(src, src)), x, kind=x.type.kind)
    line, places = _line(x), _line(index)
    axis = axis_of(dim, len(line.shape))
    return x.builder.reshape(line + _scattered(line, axis, places, _line(src)), shape=x.shape)


def _scatter_reduce(x: Ref, dim: int, index: Ref, src: Ref, reduce: str, *, include_self: bool = True) -> Ref:
    if reduce not in ("sum", "mean"):
        raise GraphError(f"scatter_reduce by {reduce!r} is not lowered")
    line, places = _line(x), _line(index)
    axis = axis_of(dim, len(line.shape))
    sums = _scattered(line, axis, places, _line(src))
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
        return _like(_index_add(as_real(x, x), dim, index, as_real(source, source), alpha=alpha), x, kind=x.type.kind)
    line, rows = _line(x), _line(source)
    added = _rows_added(line, axis_of(dim, len(line.shape)), index, rows if alpha == 1 else rows * float(alpha))
    return x.builder.reshape(line + added, shape=x.shape)


def _index_copy(x: Ref, dim: int, index: Ref, source: Ref) -> Ref:
    line = _line(x)
    axis = axis_of(dim, len(line.shape))
    order = x.builder.reshape(x.builder.iota(size=line.type.size), shape=line.shape)
    places = index.builder.reshape(index, shape=(index.type.size,))
    return x.builder.reshape(_put(line, x.builder.gather(order, places, axis=axis), _line(source)), shape=x.shape)


def _index_fill(x: Ref, dim: int, index: Ref, value: Any) -> Ref:
    line = _line(x)
    axis = axis_of(dim, len(line.shape))
    places = index.builder.reshape(index, shape=(index.type.size,))
    counts = x.builder.scatter_add(places, x.builder.cast(places.constant(1), to="real"), axis=0, size=line.shape[axis])
    hit = x.builder.broadcast(counts > 0.0, shape=line.shape, axes=(axis,))
    filled = value.broadcast_to(line.shape) if isinstance(value, Ref) else _number(value, x)
    return x.builder.reshape(_choose(hit, filled, line), shape=x.shape)


def _index_select(x: Ref, dim: int, index: Ref) -> Ref:
    line = _line(x)
    places = index.builder.reshape(index, shape=(index.type.size,))
    found = x.builder.gather(line, places, axis=axis_of(dim, len(line.shape)))
    return found if x.shape else x.builder.reshape(found, shape=())


def _index_put(x: Ref, indices: Any, values: Ref, accumulate: bool = False) -> Ref:
    key = tuple(slice(None) if item is None else item for item in indices)
    if not accumulate:
        return _setitem(x, key, values)
    order = x.builder.reshape(x.builder.iota(size=x.type.size), shape=x.shape)
    where = _read(order, key, None)
    flat = where.builder.reshape(where, shape=(where.type.size,))
    updates = x.builder.reshape(values.broadcast_to(where.shape), shape=flat.shape)
    added = x.builder.scatter_add(flat, updates, axis=0, size=x.type.size)
    return x + x.builder.reshape(added, shape=x.shape)


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


# ── diagonals and triangles ─────────────────────────────────────────────────────────────────────────────────────────


def _triangle(x: Ref, inside: Any) -> Ref:
    rows, columns = x.shape[-2:]
    mask = x.constant(np.asarray(inside(np.arange(rows)[:, None], np.arange(columns)[None, :])))
    wide = x.builder.broadcast(mask, shape=x.shape, axes=(len(x.shape) - 2, len(x.shape) - 1))
    return _choose(wide, x, _number(0, x))


def _diagonal(x: Ref, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Ref:
    a, b = axis_of(dim1, len(x.shape)), axis_of(dim2, len(x.shape))
    rows, columns = x.shape[a], x.shape[b]
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    rest = [axis for axis in range(len(x.shape)) if axis not in (a, b)]
    turned = x.builder.transpose(x, axes=(*rest, a, b))
    flat = x.builder.reshape(turned, shape=(*turned.shape[:-2], rows * columns))
    places = [(i - min(offset, 0)) * columns + i + max(offset, 0) for i in range(length)]
    return x.builder.gather(flat, places_beside(x, np.array(places, dtype=np.int64)), axis=len(rest))


def _diag_embed(x: Ref, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Ref:
    n, rank = x.shape[-1] + abs(offset), len(x.shape) + 1
    a, b = axis_of(dim1, rank), axis_of(dim2, rank)
    places = [(i - min(offset, 0)) * n + i + max(offset, 0) for i in range(x.shape[-1])]
    D, lead = x.builder, len(x.shape) - 1
    index_of = places_beside(x, np.array(places, dtype=np.int64))
    flat = D.scatter_add(index_of, x, axis=lead, size=n * n)
    square = D.reshape(flat, shape=(*x.shape[:-1], n, n))
    rest = iter(range(rank - 2))
    return D.transpose(
        square, axes=tuple(rank - 2 if d == a else rank - 1 if d == b else next(rest) for d in range(rank))
    )


def _diag(x: Ref, diagonal: int = 0) -> Ref:
    return _diag_embed(x, diagonal) if len(x.shape) == 1 else _diagonal(x, diagonal)


def _trace(x: Ref) -> Ref:
    return x.builder.sum(_diagonal(x), axes=(0,))


INDEXING = (
    Lowering("getitem", _getitem, sized=True),
    Lowering("setitem", _setitem),
    Lowering("masked_select", _masked_select, sized=True),
    Lowering("masked_scatter", _masked_scatter),
    Lowering("nonzero", _nonzero, sized=True),
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
    Lowering("index_put", _index_put),
    Lowering("repeat_interleave", _repeat_interleave, sized=True),
    Lowering("tril", lambda x, diagonal=0: _triangle(x, lambda i, j: j - i <= diagonal)),
    Lowering("triu", lambda x, diagonal=0: _triangle(x, lambda i, j: j - i >= diagonal)),
    *(Lowering(op, _diagonal) for op in ("diagonal", "diagonal_copy")),
    Lowering("linalg_diagonal", lambda x, *, offset=0, dim1=-2, dim2=-1: _diagonal(x, offset, dim1, dim2)),
    Lowering("diag_embed", _diag_embed),
    Lowering("diag", _diag),
    Lowering("diagflat", lambda x, offset=0: _diag_embed(x.builder.reshape(x, shape=(x.type.size,)), offset)),
    Lowering("trace", _trace),
)

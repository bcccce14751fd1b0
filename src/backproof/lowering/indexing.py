"""Reading and writing by a key: `x[...]`, masks, and the places of what is true."""

from __future__ import annotations

from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.types import Type
from backproof.lowering.arithmetic import as_real, as_truth, where
from backproof.lowering.keys import coordinates, count_of, read, spelled_out
from backproof.lowering.lowering import Lowering

_choose = COMPOSITIONS["where"].function


def _getitem(x: Ref, key: Any, *, results: tuple[Type, ...]) -> Ref:
    return read(x, key, count_of(x, key, results))


def _masked_select(x: Ref, mask: Ref, *, results: tuple[Type, ...]) -> Ref:
    shape = broadcast_shapes(x.shape, mask.shape)
    return (
        read(x.broadcast_to(shape), mask.broadcast_to(shape), results[0].shape[0])
        if shape
        else x.builder.reshape(x, shape=(1,))
    )


def _nonzero(x: Ref, *, as_tuple: bool = False, results: tuple[Type, ...]) -> Any:
    mask = x if x.type.kind == "bool" else x.builder.ne(x, x.constant(0))
    rows = coordinates(mask, results[0].shape[0])
    if as_tuple:
        return rows
    if not rows:
        raise GraphError("the places of a single number are not lowered")
    return rows[0].builder.concat(*(row.builder.reshape(row, shape=(*row.shape, 1)) for row in rows), axis=1)


def _where(
    condition: Ref,
    input: Any = None,  # noqa: A002 # the framework's names
    other: Any = None,
    *,
    results: tuple[Type, ...],
) -> Any:
    """One of two values by a condition; or, of the condition alone, the places where it is true."""
    return (
        _nonzero(condition, as_tuple=True, results=results)
        if input is None
        else where(as_truth(condition), input, other)
    )


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _setitem(x: Ref, key: Any, value: Any) -> Ref:
    keys = spelled_out(x, key)
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
    where = read(place, key, None)
    return put(x, where, value)


def put(x: Ref, where: Ref, value: Any) -> Ref:
    """x with the value at these places of its row-major order."""
    size, n = x.type.size, where.type.size
    if not isinstance(value, Ref):
        hit = _hits(x, where)
        return _choose(hit, number(value, x), x)
    value = like(value, x)
    if value.shape != where.shape:  # leading axes of size 1 say nothing
        value = value.builder.reshape(
            value, shape=value.shape[max(len(value.shape) - len(where.shape), 0) :]
        ).broadcast_to(where.shape)
    if x.type.kind != "real":
        return like(put(as_real(x, x), where, as_real(value, value)), x, kind=x.type.kind)
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


def number(value: Any, x: Ref) -> Any:
    return {"real": float, "int": int, "bool": bool}[x.type.kind](value)


def like(value: Ref, x: Ref, kind: str | None = None) -> Ref:
    wanted = kind or x.type.kind
    return value if value.type.kind == wanted else value.builder.cast(value, to=wanted)


def _set_where(x: Ref, mask: Ref, value: Any) -> Ref:
    """Rows through a mask over the first axes: one value for all, or the next of several for each."""
    rest = len(x.shape) - len(mask.shape)
    wide = mask.builder.broadcast(mask, shape=x.shape, axes=tuple(range(len(mask.shape))))
    if not isinstance(value, Ref):
        return _choose(wide, number(value, x), x)
    value = like(value, x)
    if len(value.shape) <= rest or value.shape[0] == 1:
        row = value if len(value.shape) <= rest else value.builder.reshape(value, shape=value.shape[1:])
        return _choose(wide, row.broadcast_to(x.shape), x)
    return _choose(wide, _next_of(value, mask, x), x)


def _next_of(value: Ref, mask: Ref, x: Ref) -> Ref:
    D = x.builder
    turns = D.cumsum(D.cast(D.reshape(mask, shape=(mask.type.size,)), to="real"), axis=0, reverse=False)
    turn = D.reshape(D.cast(turns - 0.5, to="int"), shape=mask.shape)
    return D.gather(value, turn, axis=0)


def _masked_scatter(x: Ref, mask: Ref, source: Ref) -> Ref:
    shape = broadcast_shapes(x.shape, mask.shape)
    x, mask = x.broadcast_to(shape), mask.broadcast_to(shape)
    flat = source.builder.reshape(like(source, x), shape=(source.type.size,))
    return _choose(mask, _next_of(flat, mask, x), x)


def _index_put(x: Ref, indices: Any, values: Ref, accumulate: bool = False) -> Ref:
    key = tuple(slice(None) if item is None else item for item in indices)
    if not accumulate:
        return _setitem(x, key, values)
    order = x.builder.reshape(x.builder.iota(size=x.type.size), shape=x.shape)
    where = read(order, key, None)
    flat = where.builder.reshape(where, shape=(where.type.size,))
    updates = x.builder.reshape(values.broadcast_to(where.shape), shape=flat.shape)
    added = x.builder.scatter_add(flat, updates, axis=0, size=x.type.size)
    return x + x.builder.reshape(added, shape=x.shape)


INDEXING = (
    Lowering("getitem", _getitem, sized=True),
    Lowering("setitem", _setitem),
    Lowering("masked_select", _masked_select, sized=True),
    Lowering("masked_scatter", _masked_scatter),
    Lowering("nonzero", _nonzero, sized=True),
    Lowering("where", _where, sized=True),
    Lowering("tensor_where", lambda x, condition, other: where(as_truth(condition), x, other)),
    Lowering("index_put", _index_put),
)

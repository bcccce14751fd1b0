"""Reading and writing by index. An index that points nowhere reads 0 and writes nothing."""

from __future__ import annotations

from typing import Any

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive, Value, normal_axes, require_kind, without
from backproof.ir.rounding import Decides, Moves, Special
from backproof.ir.types import Type


def _inside(index: Value, size: int) -> Value:
    return (index >= 0) & (index < size)


def _gathered(x: Type, index: Type, *, axis: int) -> Type:
    require_kind(index, "int", 1)
    normal_axes((axis,), x.rank)
    return Type(x.kind, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def _gather(K: Any, x: Value, index: Value, axis: int) -> Value:
    size = x.shape[axis]
    if size == 0:
        return K.zeros((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), like=x)
    inside = _inside(index, size)
    if K.every(inside):
        return K.take(x, index, axis=axis)
    found = K.take(x, K.where(inside, index, K.zeros(tuple(index.shape), like=index)), axis=axis)
    trailing = (1,) * (len(x.shape) - axis - 1)
    keep = K.broadcast_to(K.reshape(inside, (*index.shape, *trailing)), tuple(found.shape))
    return K.where(keep, found, K.zeros(tuple(found.shape), like=found))


GATHER = Primitive(
    "gather",
    "y = x[..., index, ...] along an axis",
    _gathered,
    _gather,
    (lambda D, x, y, dx, axis: D.gather(dx, x[1], axis=axis), None),
    (lambda D, x, y, gy, axis: D.scatter_add(x[1], gy, axis=axis, size=x[0].shape[axis]), None),
    Moves(),
    ("axis",),
)


def _scattered(index: Type, updates: Type, *, axis: int, size: int) -> Type:
    require_kind(index, "int", 0)
    require_kind(updates, "real", 1)
    fits = 0 <= axis <= updates.rank - index.rank
    if not fits or updates.shape[axis : axis + index.rank] != index.shape:
        raise GraphError(f"updates {updates} must have the shape of the index, {index}, from axis {axis} on")
    return Type("real", (*updates.shape[:axis], size, *updates.shape[axis + index.rank :]))


SCATTER_ADD = Primitive(
    "scatter_add",
    "y[..., index, ...] += updates, from zeros; what has the same index adds up",
    _scattered,
    lambda K, index, updates, axis, size: K.scatter_add(index, updates, axis, size),
    (None, lambda D, x, y, dx, axis, size: D.scatter_add(x[0], dx, axis=axis, size=size)),
    (None, lambda D, x, y, gy, axis, size: D.gather(gy, x[0], axis=axis)),
    Special(),
    ("axis", "size"),
)


def _gathered_along(x: Type, index: Type, *, axis: int) -> Type:
    require_kind(index, "int", 1)
    normal_axes((axis,), x.rank)
    if index.rank != x.rank or without(index.shape, (axis,)) != without(x.shape, (axis,)):
        raise GraphError(f"index {index} must have the shape of {x}, but for axis {axis}")
    return Type(x.kind, index.shape)


def _gather_along(K: Any, x: Value, index: Value, axis: int) -> Value:
    size = x.shape[axis]
    if size == 0:
        return K.zeros(tuple(index.shape), like=x)
    inside = _inside(index, size)
    if K.every(inside):
        return K.take_along_axis(x, index, axis=axis)
    found = K.take_along_axis(x, K.where(inside, index, K.zeros(tuple(index.shape), like=index)), axis=axis)
    return K.where(inside, found, K.zeros(tuple(found.shape), like=found))


GATHER_ALONG = Primitive(
    "gather_along",
    "y[.., i, ..] = x[.., index[.., i, ..], ..] along an axis",
    _gathered_along,
    _gather_along,
    (lambda D, x, y, dx, axis: D.gather_along(dx, x[1], axis=axis), None),
    (lambda D, x, y, gy, axis: D.scatter_along(x[1], gy, axis=axis, size=x[0].shape[axis]), None),
    Moves(),
    ("axis",),
)


def _scattered_along(index: Type, updates: Type, *, axis: int, size: int) -> Type:
    require_kind(index, "int", 0)
    require_kind(updates, "real", 1)
    normal_axes((axis,), updates.rank)
    if index.shape != updates.shape:
        raise GraphError(f"index {index} and updates {updates} must have one shape")
    return Type("real", (*updates.shape[:axis], size, *updates.shape[axis + 1 :]))


SCATTER_ALONG = Primitive(
    "scatter_along",
    "y[.., index[.., i, ..], ..] += updates[.., i, ..] along an axis, from zeros",
    _scattered_along,
    lambda K, index, updates, axis, size: K.scatter_along(index, updates, axis, size),
    (None, lambda D, x, y, dx, axis, size: D.scatter_along(x[0], dx, axis=axis, size=size)),
    (None, lambda D, x, y, gy, axis, size: D.gather_along(gy, x[0], axis=axis)),
    Special(),
    ("axis", "size"),
)


def _ordered(x: Type, *, axis: int, descending: bool) -> Type:
    del descending
    require_kind(x, "real", 0)
    normal_axes((axis,), x.rank)
    return Type("int", x.shape)


ARGSORT = Primitive(
    "argsort",
    "y is the order that sorts x along an axis; equals keep their order",
    _ordered,
    lambda K, x, axis, descending: K.argsort(x, axis=axis, descending=descending, stable=True),
    (None,),
    (None,),
    Decides(),
    ("axis", "descending"),
)


def _top(x: Type, *, k: int, axis: int) -> Type:
    require_kind(x, "real", 0)
    normal_axes((axis,), x.rank)
    if not 0 <= k <= x.shape[axis]:
        raise GraphError(f"axis {axis} of {x} does not have {k} elements")
    return Type("int", (*x.shape[:axis], k, *x.shape[axis + 1 :]))


TOPK = Primitive(
    "topk",
    "y is where the k largest of x are along an axis, largest first; the first of equals",
    _top,
    lambda K, x, k, axis: K.argsort(x, axis=axis, descending=True, stable=True)[
        (slice(None),) * axis + (slice(0, k), ...)
    ],
    (None,),
    (None,),
    Decides(),
    ("k", "axis"),
)

INDEX = (GATHER, SCATTER_ADD, GATHER_ALONG, SCATTER_ALONG, ARGSORT, TOPK)

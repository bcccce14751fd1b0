"""A key, taken apart: every form of `x[...]`, and what it reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes, index
from backproof.ir.compose.axes import places_beside
from backproof.ir.types import Type
from backproof.lowering.arithmetic import as_real
from backproof.lowering.lowering import moved

Key = list[Any]


def spelled_out(x: Ref, key: Any) -> Key:
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


def read(x: Ref, key: Any, count: int | None) -> Ref:
    """x[key]; `count` is how many elements a mask lets through."""
    y, chosen = _sliced(x, spelled_out(x, key))
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
            y = y.builder.gather(y, from_front(item, y.shape[axis - gone]), axis=axis - gone)
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
        return from_front(items[0], sizes[0])
    found: list[Ref] = []
    for item in items:
        found += coordinates(item, count) if item.type.kind == "bool" else [item]
    shape: tuple[int, ...] = ()
    for item in found:
        shape = broadcast_shapes(shape, item.shape)
    return joined_places(sizes, [item.broadcast_to(shape) for item in found])


def joined_places(sizes: Sequence[int], items: Sequence[Ref]) -> Ref:
    """Row-major places of coordinates, counted from either end."""
    total: Ref | None = None
    for size, item in zip(sizes, items, strict=True):
        part = as_real(from_front(item, size), item)
        total = part if total is None else total * float(size) + part
    assert total is not None
    return total.builder.cast(total + 0.5, to="int")  # a whole number and a half: no rounding makes it another


def from_front(item: Ref, size: int) -> Ref:
    if item.type.kind != "int":
        raise GraphError(f"an index is a whole number or a truth value, not {item.type}")
    real = as_real(item, item)
    turned = item.builder.cast(real + (size + 0.5), to="int")
    return item.builder.where(item < 0, turned, item)


def coordinates(mask: Ref, count: int | None) -> list[Ref]:
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


def count_of(x: Ref, key: Any, results: tuple[Type, ...]) -> int | None:
    """How many elements the mask in a key lets through, from the shape of the result."""
    keys = spelled_out(x, key)
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

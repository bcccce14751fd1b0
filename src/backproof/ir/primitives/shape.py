"""Rearrangements: nothing is computed, only moved. Each is linear, and its transpose is another of them."""

from __future__ import annotations

import math
from typing import Any

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive, Value, linear, normal_axes, require_kind, without
from backproof.ir.rounding import Moves
from backproof.ir.types import Shape, Type


def _reshaped(x: Type, *, shape: Shape) -> Type:
    if math.prod(shape) != x.size:
        raise GraphError(f"cannot reshape {x} ({x.size} numbers) to {list(shape)} ({math.prod(shape)} numbers)")
    return Type(x.kind, tuple(shape))


RESHAPE = linear(
    "reshape",
    "y has the numbers of x in row-major order",
    _reshaped,
    lambda K, x, shape: K.reshape(x, shape),
    lambda D, x, y, gy, shape: D.reshape(gy, shape=tuple(x[0].shape)),
    Moves(),
    ("shape",),
)


def _transposed(x: Type, *, axes: tuple[int, ...]) -> Type:
    if sorted(axes) != list(range(x.rank)):
        raise GraphError(f"axes {list(axes)} are not an order of the {x.rank} axes of {x}")
    return Type(x.kind, tuple(x.shape[axis] for axis in axes))


def inverse_order(axes: tuple[int, ...]) -> tuple[int, ...]:
    """The order that undoes this one."""
    return tuple(axes.index(position) for position in range(len(axes)))


TRANSPOSE = linear(
    "transpose",
    "axis i of y is axis axes[i] of x",
    _transposed,
    lambda K, x, axes: K.permute_dims(x, axes),
    lambda D, x, y, gy, axes: D.transpose(gy, axes=inverse_order(axes)),
    Moves(),
    ("axes",),
)


def _broadcast(x: Type, *, shape: Shape, axes: tuple[int, ...]) -> Type:
    normal_axes(axes, len(shape))
    if tuple(shape[axis] for axis in axes) != x.shape or list(axes) != sorted(axes):
        raise GraphError(f"axes {list(axes)} of {list(shape)} must be the axes of {x}, in order and of the same sizes")
    return Type(x.kind, tuple(shape))


def _spread_out(K: Any, x: Value, shape: Shape, axes: tuple[int, ...]) -> Value:
    ones = tuple(size if axis in axes else 1 for axis, size in enumerate(shape))
    return K.broadcast_to(K.reshape(x, ones), shape)


BROADCAST = linear(
    "broadcast",
    "x lies along `axes` of y and is repeated along the others",
    _broadcast,
    _spread_out,
    lambda D, x, y, gy, shape, axes: D.sum(gy, axes=tuple(a for a in range(len(shape)) if a not in axes)),
    Moves(),
    ("shape", "axes"),
)


def _sliced(x: Type, *, start: Shape, stop: Shape, step: Shape) -> Type:
    if not len(start) == len(stop) == len(step) == x.rank:
        raise GraphError(f"a slice of {x} takes {x.rank} starts, stops and steps")
    for axis, (a, b, s, n) in enumerate(zip(start, stop, step, x.shape, strict=True)):
        if not 0 <= a <= b <= n or s < 1:
            raise GraphError(f"slice {a}:{b}:{s} of axis {axis} of {x}: it must be 0 ≤ start ≤ stop ≤ {n} and step ≥ 1")
    return Type(x.kind, tuple(-((a - b) // s) for a, b, s in zip(start, stop, step, strict=True)))


def _unslice(D: Any, x: tuple[Value], y: Value, gy: Value, start: Shape, stop: Shape, step: Shape) -> Value:
    del stop
    last = [a + (n - 1) * s + 1 if n else a for a, n, s in zip(start, gy.shape, step, strict=True)]
    high = tuple(size - end for size, end in zip(x[0].shape, last, strict=True))
    return D.pad(gy, low=tuple(start), high=high, interior=tuple(s - 1 for s in step))


SLICE = linear(
    "slice",
    "y = x[start:stop:step] on every axis",
    _sliced,
    lambda K, x, start, stop, step: x[
        (*(slice(a, b, s) for a, b, s in zip(start, stop, step, strict=True)), ...)  # `...` keeps rank 0 an array
    ],
    _unslice,
    Moves(),
    ("start", "stop", "step"),
)


def padded_size(size: int, low: int, high: int, interior: int) -> int:
    """How long an axis is once padded; gaps lie between its elements only."""
    return low + high + (size + (size - 1) * interior if size else 0)


def _padded(x: Type, *, low: Shape, high: Shape, interior: Shape) -> Type:
    if not len(low) == len(high) == len(interior) == x.rank:
        raise GraphError(f"padding of {x} takes {x.rank} numbers before, after and between")
    sizes = []
    for axis, (size, a, b, gap) in enumerate(zip(x.shape, low, high, interior, strict=True)):
        if a < 0 or b < 0 or gap < 0:
            raise GraphError(f"padding ({a}, {b}, {gap}) of axis {axis} must not be negative; use slice")
        sizes.append(padded_size(size, a, b, gap))
    return Type(x.kind, tuple(sizes))


def _unpad(D: Any, x: tuple[Value], y: Value, gy: Value, low: Shape, high: Shape, interior: Shape) -> Value:
    del high
    sizes = [padded_size(n, 0, 0, gap) for n, gap in zip(x[0].shape, interior, strict=True)]
    stop = tuple(a + n for a, n in zip(low, sizes, strict=True))
    return D.slice(gy, start=tuple(low), stop=stop, step=tuple(gap + 1 for gap in interior))


PAD = linear(
    "pad",
    "y is x with zeros before, after and between its elements",
    _padded,
    lambda K, x, low, high, interior: K.pad(x, low, high, interior),
    _unpad,
    Moves(),
    ("low", "high", "interior"),
)


def _joined(*types: Type, axis: int) -> Type:
    if not types:
        raise GraphError("concat takes at least one input")
    first = types[0]
    normal_axes((axis,), first.rank)
    for position, other in enumerate(types):
        require_kind(other, first.kind, position)
        if without(other.shape, (axis,)) != without(first.shape, (axis,)) or other.rank != first.rank:
            raise GraphError(
                f"input {position} is {other} and input 0 is {first}: away from axis {axis} the shapes must be equal"
            )
    total = sum(other.shape[axis] for other in types)
    return Type(first.kind, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _part(i: int) -> Any:
    def pull(D: Any, x: tuple[Value, ...], y: Value, gy: Value, axis: int) -> Value:
        begin = sum(other.shape[axis] for other in x[:i])
        start = tuple(begin if a == axis else 0 for a in range(len(gy.shape)))
        stop = tuple(begin + x[i].shape[axis] if a == axis else n for a, n in enumerate(gy.shape))
        return D.slice(gy, start=start, stop=stop, step=(1,) * len(stop))

    return pull


def _placed(i: int) -> Any:
    def push(D: Any, x: tuple[Value, ...], y: Value, dx: Value, axis: int) -> Value:
        begin = sum(other.shape[axis] for other in x[:i])
        end = y.shape[axis] - begin - x[i].shape[axis]
        low = tuple(begin if a == axis else 0 for a in range(len(y.shape)))
        high = tuple(end if a == axis else 0 for a in range(len(y.shape)))
        return D.pad(dx, low=low, high=high, interior=(0,) * len(low))

    return push


CONCAT = Primitive(
    "concat",
    "y is the inputs, one after another along an axis",
    _joined,
    lambda K, *x, axis: K.concat(x, axis=axis),
    _placed,
    _part,
    Moves(),
    ("axis",),
    variadic=True,
)


def _flipped(x: Type, *, axes: tuple[int, ...]) -> Type:
    normal_axes(axes, x.rank)
    return x


FLIP = linear(
    "flip",
    "y is x, backwards along these axes",
    _flipped,
    lambda K, x, axes: K.flip(x, axis=axes) if axes else x,
    lambda D, x, y, gy, axes: D.flip(gy, axes=axes),
    Moves(),
    ("axes",),
)

SHAPE = (RESHAPE, TRANSPOSE, BROADCAST, SLICE, PAD, CONCAT, FLIP)

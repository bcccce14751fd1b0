"""Many numbers to one: sums, extremes, products, and running sums."""

from __future__ import annotations

import math
from typing import Any

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive, ShapeRule, Value, like, linear, normal_axes, require_kind, without
from backproof.ir.primitives.shape import inverse_order
from backproof.ir.rounding import Decides, Special, Sums
from backproof.ir.types import Type

Axes = tuple[int, ...]


def _reduced(kind: str = "real", *, empty: bool = True) -> ShapeRule:
    def rule(x: Type, *, axes: Axes) -> Type:
        require_kind(x, kind, 0)
        normal_axes(axes, x.rank)
        if not empty and any(x.shape[axis] == 0 for axis in axes):
            raise GraphError(f"there is no extreme of nothing: {x} is empty along axes {list(axes)}")
        return Type(x.kind, without(x.shape, axes))

    return rule


def _kept(x: Value, axes: Axes) -> Axes:
    return tuple(axis for axis in range(len(x.shape)) if axis not in axes)


def again(D: Any, reduced: Value, x: Value, axes: Axes) -> Value:
    """A reduced value, repeated along the axes that it lost."""
    return D.broadcast(reduced, shape=tuple(x.shape), axes=_kept(x, axes))


SUM = linear(
    "sum",
    "y = Σ x over axes",
    _reduced(),
    lambda K, x, axes: K.sum(x, axis=axes),
    lambda D, x, y, gy, axes: again(D, gy, x[0], axes),
    Sums(lambda x, axes: max(math.prod(x.shape[axis] for axis in axes) - 1, 0)),
    ("axes",),
)


def _winners(D: Any, x: Value, y: Value, axes: Axes) -> Value:
    """1/k at each of the k elements that attain the extreme: ties share."""
    hit = D.where(D.eq(x, again(D, y, x, axes)), like(D, 1.0, x), like(D, 0.0, x))
    return D.div(hit, again(D, D.sum(hit, axes=axes), x, axes))


def _extreme(name: str, says: str) -> Primitive:
    return Primitive(
        name,
        says,
        _reduced(empty=False),
        lambda K, x, axes: getattr(K, name)(x, axis=axes),
        (lambda D, x, y, dx, axes: D.sum(D.mul(dx, _winners(D, x[0], y, axes)), axes=axes),),
        (lambda D, x, y, gy, axes: D.mul(again(D, gy, x[0], axes), _winners(D, x[0], y, axes)),),
        Special(),
        ("axes",),
    )


MAX = _extreme("max", "y = max x over axes; ties share the derivative")
MIN = _extreme("min", "y = min x over axes; ties share the derivative")


def _others(D: Any, x: Value, axes: Axes) -> Value:
    """For each element the product of all the others. Nothing is divided, so it is right, and has derivatives, where some are 0."""
    order = (*sorted(axes), *_kept(x, axes))
    sizes = tuple(x.shape[axis] for axis in order)
    count = math.prod(sizes[: len(axes)])
    line = D.reshape(D.transpose(x, axes=order), shape=(count, *sizes[len(axes) :]))
    found = D.reshape(_others_in_line(D, line), shape=sizes)
    return D.transpose(found, axes=inverse_order(order))


def _others_in_line(D: Any, x: Value) -> Value:
    """Along axis 0: what is beside the pair that an element is in, times the other of the pair."""
    count, *rest = x.shape
    if count < 2:
        return like(D, 1.0, x)
    if count == 2:
        return D.flip(x, axes=(0,))
    half = (count + 1) // 2
    if count % 2:
        x = D.concat(x, D.constant(value=1.0, shape=(1, *rest)), axis=0)
    pairs = D.reshape(x, shape=(half, 2, *rest))
    beside = _others_in_line(D, D.prod(pairs, axes=(1,)))
    again_each = D.broadcast(beside, shape=(half, 2, *rest), axes=(0, *range(2, len(rest) + 2)))
    found = D.reshape(D.mul(again_each, D.flip(pairs, axes=(1,))), shape=(2 * half, *rest))
    zeros, ones = (0,) * (len(rest) + 1), (1,) * (len(rest) + 1)
    return D.slice(found, start=zeros, stop=(count, *rest), step=ones)


PROD = Primitive(
    "prod",
    "y = Π x over axes",
    _reduced(),
    lambda K, x, axes: K.prod(x, axis=axes),
    (lambda D, x, y, dx, axes: D.sum(D.mul(dx, _others(D, x[0], axes)), axes=axes),),
    (lambda D, x, y, gy, axes: D.mul(again(D, gy, x[0], axes), _others(D, x[0], axes)),),
    Special(),
    ("axes",),
)

LOGSUMEXP = Primitive(
    "logsumexp",
    "y = ln Σ eˣ over axes",
    _reduced(empty=False),
    lambda K, x, axes: K.logsumexp(x, axis=axes),
    (lambda D, x, y, dx, axes: D.sum(D.mul(dx, D.exp(D.sub(x[0], again(D, y, x[0], axes)))), axes=axes),),
    (lambda D, x, y, gy, axes: D.mul(again(D, gy, x[0], axes), D.exp(D.sub(x[0], again(D, y, x[0], axes)))),),
    Special(),
    ("axes",),
)


def _running(x: Type, *, axis: int, reverse: bool) -> Type:
    del reverse
    require_kind(x, "real", 0)
    normal_axes((axis,), x.rank)
    return x


def _running_sum(K: Any, x: Value, axis: int, reverse: bool) -> Value:
    if not reverse:
        return K.cumulative_sum(x, axis=axis)
    return K.flip(K.cumulative_sum(K.flip(x, axis=(axis,)), axis=axis), axis=(axis,))


CUMSUM = linear(
    "cumsum",
    "yᵢ = Σ xⱼ over j ≤ i (or j ≥ i, in reverse)",
    _running,
    _running_sum,
    lambda D, x, y, gy, axis, reverse: D.cumsum(gy, axis=axis, reverse=not reverse),
    Sums(lambda x, axis, reverse: max(x.shape[axis] - 1, 0)),
    ("axis", "reverse"),
)


def _place(x: Type, *, axis: int) -> Type:
    require_kind(x, "real", 0)
    normal_axes((axis,), x.rank)
    if x.shape[axis] == 0:
        raise GraphError(f"there is no largest of nothing: {x} is empty along axis {axis}")
    return Type("int", without(x.shape, (axis,)))


ARGMAX = Primitive(
    "argmax",
    "y is where x is largest along an axis; the first of equals",
    _place,
    lambda K, x, axis: K.argmax(x, axis=axis),
    (None,),
    (None,),
    Decides(),
    ("axis",),
)

REDUCE = (SUM, MAX, MIN, PROD, LOGSUMEXP, CUMSUM, ARGMAX)

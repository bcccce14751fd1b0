"""Windows that slide over space: sums and maxima of [batch, channels, space...]."""

from __future__ import annotations

import itertools
import math
from typing import Any

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive, ShapeRule, Value, linear, require_kind
from backproof.ir.primitives.shape import pad_axis
from backproof.ir.rounding import Decides, Special, Sums
from backproof.ir.types import Shape, Type

Pairs = tuple[tuple[int, int], ...]


def window_count(size: int, window: int, stride: int, pad: tuple[int, int], dilation: int) -> int:
    """How many windows fit along one axis; 0 when none does."""
    if stride < 1 or dilation < 1 or window < 1:
        raise GraphError(f"stride {stride}, dilation {dilation} and window {window} must be at least 1")
    room = size + pad[0] + pad[1] - (window - 1) * dilation - 1
    return room // stride + 1 if room >= 0 else 0


def patches(K: Any, x: Value, window: Shape, stride: Shape, dilation: Shape) -> tuple[Value, Shape]:
    """The windows of x[batch, channels, space...] as an array [channels, window, batch, space], and the shape of space.

    One strided slice per element of the window, or per element of space, whichever are fewer.
    """
    space = tuple(
        window_count(n, k, s, (0, 0), d) for n, k, s, d in zip(x.shape[2:], window, stride, dilation, strict=True)
    )
    n, c = x.shape[:2]
    x = K.permute_dims(x, (1, 0, *range(2, len(x.shape))))
    if math.prod(window) <= math.prod(space):
        return _stacked(K, x, window, space, dilation, stride, (c, n), axis=1), space
    found = _stacked(K, x, space, window, stride, dilation, (c, n), axis=1)  # (channels, space, batch, window)
    return K.permute_dims(found, (0, 3, 2, 1)), space


def _stacked(
    K: Any, x: Value, outer: Shape, inner: Shape, reach: Shape, step: Shape, lead: Shape, axis: int
) -> Value:
    """For each offset in `outer` (times reach) the slice of x that has `inner` elements (in steps)."""
    slices = []
    for offset in itertools.product(*(range(k) for k in outer)):
        key = [slice(None), slice(None)]
        for o, r, n, s in zip(offset, reach, inner, step, strict=True):
            key.append(slice(o * r, o * r + (n - 1) * s + 1 if n else 0, s))
        slices.append(K.reshape(x[tuple(key)], (*lead, math.prod(inner))))
    if not slices:
        return K.zeros((lead[0], 0, lead[1], math.prod(inner)), like=x)
    return K.stack(slices, axis=axis)


def _pooled(kind: str, *, empty: bool) -> ShapeRule:
    def rule(x: Type, *, window: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Type:
        require_kind(x, "real", 0)
        space = x.rank - 2
        if space < 0 or not len(window) == len(stride) == len(padding) == len(dilation) == space:
            raise GraphError(
                f"pooling takes x[batch, channels, space...] and one window, stride, padding and dilation per axis of space; "
                f"here x is {x}, window {list(window)}, stride {list(stride)}, padding {list(padding)}"
            )
        if any(low < 0 or high < 0 for low, high in padding):
            raise GraphError(f"padding {list(padding)} must not be negative")
        if not empty and any(pad >= (k - 1) * d + 1 for pair, k, d in zip(padding, window, dilation, strict=True) for pad in pair):
            raise GraphError(f"padding {list(padding)} is as wide as the window {list(window)}: a window would hold nothing")
        sizes = (
            window_count(n, k, s, p, d)
            for n, k, s, p, d in zip(x.shape[2:], window, stride, padding, dilation, strict=True)
        )
        return Type(kind, (*x.shape[:2], *sizes))  # type: ignore[arg-type] # one of two literals, from below

    return rule


PARAMS = ("window", "stride", "padding", "dilation")


def _pad_space(K: Any, x: Value, padding: Pairs) -> Value:
    for i, (low, high) in enumerate(padding):
        x = pad_axis(K, x, i + 2, low, high, 0)
    return x


def _sum_pool(K: Any, x: Value, window: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Value:
    n, c = x.shape[:2]
    columns, space = patches(K, _pad_space(K, x, padding), window, stride, dilation)
    return K.reshape(K.permute_dims(K.sum(columns, axis=(1,)), (1, 0, 2)), (n, c, *space))


def _spread_pool(
    D: Any,
    x: tuple[Value],
    y: Value,
    gy: Value,
    window: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
) -> Value:
    """Each output's cotangent goes to every element of its window: a sum over windows of the spread-out cotangents."""
    rank = len(window)
    size = tuple(n + low + high for n, (low, high) in zip(x[0].shape[2:], padding, strict=True))
    reach = [(k - 1) * d for k, d in zip(window, dilation, strict=True)]
    spaced = [(n - 1) * s + 1 if n else 0 for n, s in zip(gy.shape[2:], stride, strict=True)]
    high = tuple(n - m for n, m in zip(size, spaced, strict=True))
    wide = D.pad(
        gy, low=(0, 0, *reach), high=(0, 0, *high), interior=(0, 0, *(s - 1 for s in stride))
    )
    full = D.sum_pool(wide, window=window, stride=(1,) * rank, padding=((0, 0),) * rank, dilation=dilation)
    start = (0, 0, *(low for low, _ in padding))
    stop = tuple(a + n for a, n in zip(start, x[0].shape, strict=True))
    return D.slice(full, start=start, stop=stop, step=(1,) * len(start))


SUM_POOL = linear(
    "sum_pool",
    "y = Σ x over each window; padding counts as 0",
    _pooled("real", empty=True),
    _sum_pool,
    _spread_pool,
    Sums(lambda x, window, **_: math.prod(window) - 1),
    PARAMS,
)


def _flat_places(
    K: Any, shape: Shape, window: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> tuple[Value, Value]:
    """For each window its elements' places in the plane of x, row-major, and whether they are in the plane: [window, space]."""
    places, inside = K.integers(1), None
    for n, k, s, (low, high), d in zip(shape, window, stride, padding, dilation, strict=True):
        count = window_count(n, k, s, (low, high), d)
        along = K.reshape(K.integers(k) * d, (k, 1)) + K.reshape(K.integers(count) * s - low, (1, count))
        real = (along >= 0) & (along < n)
        if inside is None:
            places, inside = along, real
            continue
        w, o = places.shape
        places = K.reshape(K.reshape(places * n, (w, 1, o, 1)) + K.reshape(along, (1, k, 1, count)), (w * k, o * count))
        inside = K.reshape(K.reshape(inside, (w, 1, o, 1)) & K.reshape(real, (1, k, 1, count)), (w * k, o * count))
    return places, inside


def windows(
    K: Any, x: Value, window: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> tuple[Value, Value, Value]:
    """Each window's elements, their places in the plane, and whether they are in it: three arrays [batch·channels, window, space]."""
    n, c, *space = x.shape
    places, inside = _flat_places(K, tuple(space), window, stride, padding, dilation)
    k, o = places.shape
    full = (n * c, k, o)
    safe = K.where(inside, places, K.zeros((k, o), like=places))
    flat = K.reshape(x, (n * c, math.prod(space)))
    values = K.reshape(K.take(flat, K.reshape(safe, (k * o,)), axis=1), full)
    return (
        values,
        K.broadcast_to(K.reshape(safe, (1, k, o)), full),
        K.broadcast_to(K.reshape(inside, (1, k, o)), full),
    )


def _pool_argmax(K: Any, x: Value, window: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Value:
    n, c, *space = x.shape
    values, places, inside = windows(K, x, window, stride, padding, dilation)
    best = K.argmax_of(values, inside, axis=1)
    chosen = K.take_along_axis(places, K.reshape(best, (n * c, 1, values.shape[2])), axis=1)
    counts = tuple(
        window_count(*given) for given in zip(space, window, stride, padding, dilation, strict=True)
    )
    return K.reshape(chosen, (n, c, *counts))


POOL_ARGMAX = Primitive(
    "pool_argmax",
    "y is the place, in x's plane, of each window's largest element; the first of equals, in row-major order",
    _pooled("int", empty=False),
    _pool_argmax,
    (None,),
    (None,),
    Decides(),
    PARAMS,
)


def _max_pool(K: Any, x: Value, window: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Value:
    n, c, *space = x.shape
    chosen = _pool_argmax(K, x, window, stride, padding, dilation)
    flat = K.reshape(x, (n * c, math.prod(space)))
    picked = K.take_along_axis(flat, K.reshape(chosen, (n * c, math.prod(chosen.shape[2:]))), axis=1)
    return K.reshape(picked, tuple(chosen.shape))


def _max_pool_push(D: Any, x: tuple[Value], y: Value, dx: Value, **params: Any) -> Value:
    chosen = D.pool_argmax(x[0], **params)
    n, c, *space = x[0].shape
    flat = D.reshape(dx, shape=(n, c, math.prod(space)))
    index = D.reshape(chosen, shape=(n, c, math.prod(y.shape[2:])))
    return D.reshape(D.gather_along(flat, index, axis=2), shape=tuple(y.shape))


def _max_pool_pull(D: Any, x: tuple[Value], y: Value, gy: Value, **params: Any) -> Value:
    chosen = D.pool_argmax(x[0], **params)
    n, c, *space = x[0].shape
    flat = (n, c, math.prod(y.shape[2:]))
    found = D.scatter_along(
        D.reshape(chosen, shape=flat), D.reshape(gy, shape=flat), axis=2, size=math.prod(space)
    )
    return D.reshape(found, shape=tuple(x[0].shape))


MAX_POOL = Primitive(
    "max_pool",
    "y = max x over each window, padding left out; the first of equals takes the derivative",
    _pooled("real", empty=False),
    _max_pool,
    (_max_pool_push,),
    (_max_pool_pull,),
    Special(),
    PARAMS,
)

WINDOW = (MAX_POOL, POOL_ARGMAX, SUM_POOL)

"""Windows that slide over space: sums and maxima of [batch, channels, space...]."""

from __future__ import annotations

import itertools
import math
from functools import reduce
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive, ShapeRule, Value, linear, require_kind
from backproof.ir.rounding import Decides, Special, Sums
from backproof.ir.types import Shape, Type

Pairs = tuple[tuple[int, int], ...]
BLOCK = 1 << 20  # numbers in a block of windows that are laid out at once
MOST_EARLY = 1 << 16  # windows before 0 that are looked at one by one; no network has as many


def window_count(size: int, window: int, stride: int, pad: tuple[int, int], dilation: int) -> int:
    """How many windows fit along one axis; 0 when none does."""
    if stride < 1 or dilation < 1 or window < 1:
        raise GraphError(f"stride {stride}, dilation {dilation} and window {window} must be at least 1")
    room = size + pad[0] + pad[1] - (window - 1) * dilation - 1
    return room // stride + 1 if room >= 0 else 0


def counts(space: Shape, window: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Shape:
    """How many windows fit along each axis of space."""
    return tuple(window_count(*given) for given in zip(space, window, stride, padding, dilation, strict=True))


def shifts(K: Any, x: Value, outer: Shape, inner: Shape, reach: Shape, step: Shape) -> Value:
    """For each offset in `outer` (times reach) the slice of x that has `inner` elements (in steps): [outer, lead, lead, inner]."""
    slices = [_shifted(x, offset, inner, reach, step) for offset in itertools.product(*(range(k) for k in outer))]
    lead = tuple(x.shape[:2])
    if not slices:
        return K.zeros((0, *lead, math.prod(inner)), like=x)
    return K.reshape(K.stack(slices, axis=0), (len(slices), *lead, math.prod(inner)))


def _shifted(x: Value, offset: Shape, count: Shape, reach: Shape, step: Shape) -> Value:
    """The slice of x that begins at offset·reach and has `count` elements in steps, along each axis of space."""
    key = [slice(None), slice(None)]
    for o, r, n, s in zip(offset, reach, count, step, strict=True):
        key.append(slice(o * r, o * r + (n - 1) * s + 1, s) if n else slice(0, 0))
    return x[tuple(key)]


def correlate(K: Any, x: Value, rows: Value, window: Shape, space: Shape, stride: Shape, dilation: Shape) -> Value:
    """Kernels as rows[groups, out, tap·channel], with every window of x: [out, batch·place]; a block of samples at a time."""
    n, channels = x.shape[:2]
    groups, out, size = rows.shape
    taps, places = math.prod(window), math.prod(space)
    by_channel = K.permute_dims(x, (1, 0, *range(2, len(x.shape))))
    step = max(1, BLOCK // max(1, taps * channels * places))
    parts = []
    for begin in range(0, max(n, 1), step):
        count = min(step, n - begin)
        found = shifts(K, by_channel[:, begin : begin + count, ...], window, space, dilation, stride)
        split = K.permute_dims(K.reshape(found, (taps, groups, channels // groups, count * places)), (1, 0, 2, 3))
        columns = K.reshape(split, (groups, size, count * places))
        product = K.matmul(rows[0, ...], columns[0, ...]) if groups == 1 else K.matmul(rows, columns)
        parts.append(K.reshape(product, (groups * out, count * places)))
    return parts[0] if len(parts) == 1 else K.concat(parts, axis=1)


def _hollow(size: int, count: int, window: int, stride: int, pad: tuple[int, int], dilation: int) -> bool:
    """Whether a window along one axis lies in the padding alone, or steps over all there is."""
    if count == 0:
        return False
    if (count - 1) * stride - pad[0] >= size:
        return True
    early = min(count, -(-pad[0] // stride), dilation)  # windows that begin before 0, until their residues repeat
    reach = (window - 1) * dilation - pad[0]
    if reach < 0 or early > MOST_EARLY:
        return early > 0
    first = (((i * stride - pad[0]) % dilation, i * stride + reach) for i in range(early))
    return any(place >= size or place > last for place, last in first)


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
        fits = counts(x.shape[2:], window, stride, padding, dilation)
        along = zip(x.shape[2:], fits, window, stride, padding, dilation, strict=True)
        if not empty and any(_hollow(*given) for given in along):
            raise GraphError(
                f"padding {list(padding)} is too wide for windows {list(window)}: one would hold nothing of {x}"
            )
        return Type(kind, (*x.shape[:2], *fits))  # type: ignore[arg-type] # one of two literals, from below

    return rule


PARAMS = ("window", "stride", "padding", "dilation")


def _pad_space(K: Any, x: Value, padding: Pairs) -> Value:
    low, high = (tuple(pair[side] for pair in padding) for side in (0, 1))
    return K.pad(x, (0, 0, *low), (0, 0, *high), (0,) * (2 + len(padding)))


def _sum_pool(K: Any, x: Value, window: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Value:
    x = _pad_space(K, x, padding)
    space = counts(tuple(x.shape[2:]), window, stride, ((0, 0),) * len(window), dilation)
    total = K.sum(shifts(K, x, window, space, dilation, stride), axis=(0,))
    return K.reshape(total, (*x.shape[:2], *space))


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
    wide = D.pad(gy, low=(0, 0, *reach), high=(0, 0, *high), interior=(0, 0, *(s - 1 for s in stride)))
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
    places = K.reshape(K.integers(1), (1, 1))
    inside = places == 0
    for n, k, s, (low, high), d in zip(shape, window, stride, padding, dilation, strict=True):
        count = window_count(n, k, s, (low, high), d)
        along = K.reshape(K.integers(k) * d, (k, 1)) + K.reshape(K.integers(count) * s - low, (1, count))
        real = (along >= 0) & (along < n)
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


def _taps(K: Any, x: Value, axis: int, window: int, stride: int, pad: tuple[int, int], dilation: int) -> list[Value]:
    """For each element of a window along one axis: x there, for every window. In the padding it is the nearest that is in x."""
    size = x.shape[axis]
    count = window_count(size, window, stride, pad, dilation)
    lead = (slice(None),) * axis
    if pad == (0, 0):
        begins = [k * dilation for k in range(window)]
        return [
            x[(*lead, slice(o, o + (count - 1) * stride + 1, stride) if count else slice(0, 0), ...)] for o in begins
        ]
    places = [_inside(size, window, i * stride - pad[0], dilation) for i in range(count)]
    return [K.take(x, K.leaf(np.array([row[k] for row in places], dtype=np.int64), "int"), axis) for k in range(window)]


def _inside(size: int, window: int, begin: int, dilation: int) -> list[int]:
    """The places along an axis of the elements of one window; of an element in the padding, that of the nearest in the axis."""
    first = max(0, -(begin // dilation))
    last = min(window - 1, (size - 1 - begin) // dilation)
    return [begin + min(max(k, first), last) * dilation for k in range(window)]


def _max_pool(K: Any, x: Value, window: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Value:
    """A maximum of maxima, one axis after the other; an element that is met twice changes nothing."""
    for axis, given in enumerate(zip(window, stride, padding, dilation, strict=True), 2):
        x = reduce(K.maximum, _taps(K, x, axis, *given))
    return x


def _pool_argmax(K: Any, x: Value, window: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Value:
    """The place of the largest, one axis after the other from the last, so that the first of equals is the first in row-major order."""
    shape = (*x.shape[:2], *counts(tuple(x.shape[2:]), window, stride, padding, dilation))
    places = K.reshape(K.integers(math.prod(x.shape[2:])), (1, 1, *x.shape[2:]))
    along = list(enumerate(zip(window, stride, padding, dilation, strict=True), 2))
    for axis, given in along[::-1]:
        (x, *values), (places, *others) = _taps(K, x, axis, *given), _taps(K, places, axis, *given)
        for value, place in zip(values, others, strict=True):
            better = K.exceeds(value, x)
            x, places = K.maximum(value, x), K.where(better, place, places)
    return K.broadcast_to(places, shape)


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
    found = D.scatter_along(D.reshape(chosen, shape=flat), D.reshape(gy, shape=flat), axis=2, size=math.prod(space))
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

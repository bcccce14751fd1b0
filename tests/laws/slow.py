"""Every primitive once more, written from its mathematics: one number at a time, in loops. Nothing is shared with the library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _each(function: Callable[..., Any], dtype: Any = np.float64) -> Callable[..., Array]:
    def run(*x: Array) -> Array:
        found = np.empty(x[0].shape, dtype=dtype)
        for at in np.ndindex(x[0].shape):
            found[at] = function(*(float(v[at]) if v.dtype.kind == "f" else v[at] for v in x))
        return found

    return run


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _reduce(function: Callable[[list[float]], Any]) -> Callable[..., Array]:
    def run(x: Array, axes: tuple[int, ...]) -> Array:
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        found = np.empty([x.shape[axis] for axis in kept])
        for at in np.ndindex(found.shape):
            found[at] = function(
                [float(x[i]) for i in np.ndindex(x.shape) if all(i[axis] == at[k] for k, axis in enumerate(kept))]
            )
        return found

    return run


def _logsumexp(numbers: list[float]) -> float:
    top = max(numbers)
    return top + math.log(math.fsum(math.exp(number - top) for number in numbers))


def _cumsum(x: Array, axis: int, reverse: bool) -> Array:
    found = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        reached = range(at[axis], x.shape[axis]) if reverse else range(at[axis] + 1)
        found[at] = math.fsum(x[(*at[:axis], j, *at[axis + 1 :])] for j in reached)
    return found


def _along(function: Callable[[list[float]], Any], length: Callable[[int], int]) -> Callable[..., Array]:
    """A function of each line along an axis, which gives a line."""

    def run(x: Array, axis: int, **params: Any) -> Array:
        shape = list(x.shape)
        shape[axis] = params.get("k", length(x.shape[axis]))
        found = np.zeros(shape, dtype=np.int64)
        for at in np.ndindex(*shape[:axis], *shape[axis + 1 :]):
            line = [float(x[(*at[:axis], j, *at[axis:])]) for j in range(x.shape[axis])]
            for j, value in enumerate(function(line, **params)):
                found[(*at[:axis], j, *at[axis:])] = value
        return found

    return run


def _order(line: list[float], descending: bool) -> list[int]:
    return sorted(range(len(line)), key=lambda j: (-line[j] if descending else line[j], j))


# ── products ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _dot_general(a: Array, b: Array, contract: Any, batch: Any) -> Array:
    free = [
        [axis for axis in range(v.ndim) if axis not in contract[side] and axis not in batch[side]]
        for side, v in enumerate((a, b))
    ]
    sizes = [[v.shape[axis] for axis in axes] for v, axes in ((a, batch[0]), (a, free[0]), (b, free[1]))]
    summed = [a.shape[axis] for axis in contract[0]]
    found = np.zeros([size for group in sizes for size in group])
    for n in np.ndindex(*sizes[0]):
        for i in np.ndindex(*sizes[1]):
            for j in np.ndindex(*sizes[2]):
                terms = []
                for k in np.ndindex(*summed):
                    left = dict(zip((*batch[0], *free[0], *contract[0]), (*n, *i, *k), strict=True))
                    right = dict(zip((*batch[1], *free[1], *contract[1]), (*n, *j, *k), strict=True))
                    terms.append(
                        a[tuple(left[axis] for axis in range(a.ndim))] * b[tuple(right[axis] for axis in range(b.ndim))]
                    )
                found[(*n, *i, *j)] = math.fsum(terms)
    return found


def _read(x: Array, lead: tuple[int, ...], places: tuple[int, ...], dilation: tuple[int, ...]) -> float:
    """An element of x, spread out with zeros between its elements; 0 where there is none."""
    at = []
    for place, spread, size in zip(places, dilation, x.shape[2:], strict=True):
        if place % spread or not 0 <= place // spread < size:
            return 0.0
        at.append(place // spread)
    return float(x[(*lead, *at)])


def _spans(x: Array, window: Any, stride: Any, padding: Any, dilation: Any, spread: Any) -> list[int]:
    """How many windows fit along each axis, by trying them one after another."""
    found = []
    for size, k, s, (low, high), d, between in zip(x.shape[2:], window, stride, padding, dilation, spread, strict=True):
        length = low + high + (size + (size - 1) * (between - 1) if size else 0)
        found.append(sum(1 for begin in range(0, max(length, 0), s) if begin + (k - 1) * d < length))
    return found


def _conv(
    x: Array, w: Array, stride: Any, padding: Any, input_dilation: Any, window_dilation: Any, groups: int
) -> Array:
    space = _spans(x, w.shape[2:], stride, padding, window_dilation, input_dilation)
    found = np.zeros((x.shape[0], w.shape[0], *space))
    for n, o, *s in np.ndindex(found.shape):
        group = o // (w.shape[0] // groups)
        terms = []
        for c, *k in np.ndindex(w.shape[1:]):
            places = tuple(
                i * t + j * d - low for i, t, j, d, (low, _) in zip(s, stride, k, window_dilation, padding, strict=True)
            )
            value = _read(x, (n, group * w.shape[1] + c), places, input_dilation)
            terms.append(value * w[(o, c, *k)])
        found[(n, o, *s)] = math.fsum(terms)
    return found


# ── windows ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _window(function: Callable[[list[tuple[float, int]]], Any], dtype: Any) -> Callable[..., Array]:
    """A function of the elements in each window, with their places in the plane; padding is left out."""

    def run(x: Array, window: Any, stride: Any, padding: Any, dilation: Any) -> Array:
        space = _spans(x, window, stride, padding, dilation, (1,) * len(window))
        found = np.zeros((*x.shape[:2], *space), dtype=dtype)
        for n, c, *s in np.ndindex(found.shape):
            inside = []
            for k in itertools.product(*map(range, window)):
                at = tuple(
                    i * t + j * d - low for i, t, j, d, (low, _) in zip(s, stride, k, dilation, padding, strict=True)
                )
                if all(0 <= a < size for a, size in zip(at, x.shape[2:], strict=True)):
                    place = 0
                    for a, size in zip(at, x.shape[2:], strict=True):
                        place = place * size + a
                    inside.append((float(x[(n, c, *at)]), place))
            found[(n, c, *s)] = function(inside)
        return found

    return run


def _first_largest(inside: list[tuple[float, int]]) -> tuple[float, int]:
    return min(inside, key=lambda pair: (-pair[0], pair[1]))


# ── rearrangements ──────────────────────────────────────────────────────────────────────────────────────────────────


def _reshape(x: Array, shape: tuple[int, ...]) -> Array:
    found = np.empty(shape, dtype=x.dtype)
    for to, at in zip(np.ndindex(*shape), np.ndindex(*x.shape), strict=True):
        found[to] = x[at]
    return found


def _transpose(x: Array, axes: tuple[int, ...]) -> Array:
    found = np.empty([x.shape[axis] for axis in axes], dtype=x.dtype)
    for at in np.ndindex(*found.shape):
        found[at] = x[tuple(at[axes.index(axis)] for axis in range(x.ndim))]
    return found


def _broadcast(x: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    found = np.empty(shape, dtype=x.dtype)
    for at in np.ndindex(*shape):
        found[at] = x[tuple(at[axis] for axis in axes)]
    return found


def _slice(x: Array, start: Any, stop: Any, step: Any) -> Array:
    lists = [list(range(a, b, s)) for a, b, s in zip(start, stop, step, strict=True)]
    found = np.empty([len(places) for places in lists], dtype=x.dtype)
    for at in np.ndindex(*found.shape):
        found[at] = x[tuple(places[i] for places, i in zip(lists, at, strict=True))]
    return found


def _pad(x: Array, low: Any, high: Any, interior: Any) -> Array:
    sizes = [a + b + (n + (n - 1) * gap if n else 0) for a, b, gap, n in zip(low, high, interior, x.shape, strict=True)]
    found = np.zeros(sizes, dtype=x.dtype)
    for at in np.ndindex(*x.shape):
        found[tuple(a + i * (gap + 1) for a, i, gap in zip(low, at, interior, strict=True))] = x[at]
    return found


def _concat(*x: Array, axis: int) -> Array:
    shape = list(x[0].shape)
    shape[axis] = sum(v.shape[axis] for v in x)
    found, begin = np.empty(shape, dtype=x[0].dtype), 0
    for v in x:
        for at in np.ndindex(*v.shape):
            found[(*at[:axis], begin + at[axis], *at[axis + 1 :])] = v[at]
        begin += v.shape[axis]
    return found


def _flip(x: Array, axes: tuple[int, ...]) -> Array:
    found = np.empty_like(x)
    for at in np.ndindex(*x.shape):
        found[tuple(n - 1 - i if a in axes else i for a, (i, n) in enumerate(zip(at, x.shape, strict=True)))] = x[at]
    return found


# ── indices ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gather(x: Array, index: Array, axis: int) -> Array:
    found = np.zeros((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), dtype=x.dtype)
    for at in np.ndindex(*found.shape):
        i = int(index[at[axis : axis + index.ndim]])
        if 0 <= i < x.shape[axis]:
            found[at] = x[(*at[:axis], i, *at[axis + index.ndim :])]
    return found


def _scatter_add(index: Array, updates: Array, axis: int, size: int) -> Array:
    found = np.zeros((*updates.shape[:axis], size, *updates.shape[axis + index.ndim :]))
    for at in np.ndindex(*updates.shape):
        i = int(index[at[axis : axis + index.ndim]])
        if 0 <= i < size:
            found[(*at[:axis], i, *at[axis + index.ndim :])] += updates[at]
    return found


def _gather_along(x: Array, index: Array, axis: int) -> Array:
    found = np.zeros(index.shape, dtype=x.dtype)
    for at in np.ndindex(*index.shape):
        if 0 <= index[at] < x.shape[axis]:
            found[at] = x[(*at[:axis], int(index[at]), *at[axis + 1 :])]
    return found


def _scatter_along(index: Array, updates: Array, axis: int, size: int) -> Array:
    found = np.zeros((*updates.shape[:axis], size, *updates.shape[axis + 1 :]))
    for at in np.ndindex(*updates.shape):
        if 0 <= index[at] < size:
            found[(*at[:axis], int(index[at]), *at[axis + 1 :])] += updates[at]
    return found


# ── the rest ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _constant(value: Any, shape: tuple[int, ...]) -> Array:
    return value.array if hasattr(value, "array") else np.array([value] * math.prod(shape)).reshape(shape)


def _cast(x: Array, to: str) -> Array:
    dtype, convert = {"int": (np.int64, int), "bool": (np.bool_, bool)}.get(to, (np.float64, float))
    return np.array([convert(v) for v in x.ravel().tolist()], dtype=dtype).reshape(x.shape)


SLOW: dict[str, Callable[..., Array]] = {
    "add": _each(lambda a, b: float(Fraction(a) + Fraction(b))),
    "sub": _each(lambda a, b: float(Fraction(a) - Fraction(b))),
    "mul": _each(lambda a, b: float(Fraction(a) * Fraction(b))),
    "div": _each(lambda a, b: float(Fraction(a) / Fraction(b))),
    "neg": _each(lambda x: 0 - x),
    "pow": _each(math.pow),
    "exp": _each(math.exp),
    "log": _each(math.log),
    "log1p": _each(math.log1p),
    "expm1": _each(math.expm1),
    "sqrt": _each(math.sqrt),
    "rsqrt": _each(lambda x: 1 / math.sqrt(x)),
    "tanh": _each(math.tanh),
    "sigmoid": _each(_sigmoid),
    "erf": _each(math.erf),
    "sin": _each(math.sin),
    "cos": _each(math.cos),
    "relu": _each(lambda x: x if x > 0 else 0.0),
    "abs": _each(lambda x: -x if x < 0 else x),
    "sign": _each(lambda x: (x > 0) - (x < 0)),
    "maximum": _each(max),
    "minimum": _each(min),
    "eq": _each(lambda a, b: a == b, np.bool_),
    "ne": _each(lambda a, b: a != b, np.bool_),
    "lt": _each(lambda a, b: a < b, np.bool_),
    "le": _each(lambda a, b: a <= b, np.bool_),
    "gt": _each(lambda a, b: a > b, np.bool_),
    "ge": _each(lambda a, b: a >= b, np.bool_),
    "logical_and": _each(lambda a, b: bool(a) and bool(b), np.bool_),
    "logical_or": _each(lambda a, b: bool(a) or bool(b), np.bool_),
    "logical_not": _each(lambda a: not a, np.bool_),
    "where": lambda c, a, b: _each(lambda c, a, b: a if c else b, a.dtype)(c, a, b),
    "sum": _reduce(math.fsum),
    "prod": _reduce(math.prod),
    "max": _reduce(max),
    "min": _reduce(min),
    "logsumexp": _reduce(_logsumexp),
    "cumsum": _cumsum,
    "argmax": lambda x, axis: np.squeeze(_along(lambda v: [v.index(max(v))], lambda n: 1)(x, axis), axis=axis),
    "argsort": _along(_order, lambda n: n),
    "topk": _along(lambda v, k: _order(v, descending=True)[:k], lambda n: n),
    "dot_general": _dot_general,
    "conv": _conv,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "concat": _concat,
    "flip": _flip,
    "gather": _gather,
    "scatter_add": _scatter_add,
    "gather_along": _gather_along,
    "scatter_along": _scatter_along,
    "max_pool": _window(lambda inside: _first_largest(inside)[0], np.float64),
    "pool_argmax": _window(lambda inside: _first_largest(inside)[1], np.int64),
    "sum_pool": _window(lambda inside: math.fsum(value for value, _ in inside), np.float64),
    "constant": _constant,
    "iota": lambda size: np.array(list(range(size)), dtype=np.int64),
    "cast": _cast,
    "stop_gradient": lambda x: x,
}

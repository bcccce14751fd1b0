"""Views and copies: numbers are moved, none is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import axes_of, axis_of, places_beside
from backproof.ir.types import Type
from backproof.lowering.lowering import Lowering, moved

KIND_OF = {
    **dict.fromkeys(("float64", "float32", "float16", "bfloat16"), "real"),
    **dict.fromkeys(("int64", "int32", "int16", "int8", "uint8"), "int"),
    "bool": "bool",
}


def _sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else given


def _laid_out(x: Ref, *shape: Any, results: tuple[Type, ...]) -> Ref:
    """A size may be a tensor; the shape of the result says what it was."""
    sizes = _sizes(shape)
    return _reshape(x, *(results[0].shape if any(isinstance(size, Ref) for size in sizes) else sizes))


def _reshape(x: Ref, *shape: Any) -> Ref:
    sizes = list(_sizes(shape))
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = x.type.size // rest if rest else 0
    return x.builder.apply("reshape", x, shape=tuple(sizes))


def _cast(x: Ref, *given: Any, dtype: Any = None, format: str, **_: Any) -> Ref:  # noqa: A002 # the format of the result
    """A change of kind; and what is rounded to float32 from a wider format (what is rounded to a half format is, like every result)."""
    like = next((item.type.kind for item in given if isinstance(item, Ref)), x.type.kind)
    wanted = dtype or next((item for item in given if isinstance(item, str) and item in KIND_OF), None)
    kind = KIND_OF.get(str(wanted), like)
    if kind != x.type.kind:
        return as_kind(x, kind)
    return x.builder.apply("cast", x, to="float32") if kind == "real" and format == "float32" else moved(x)


def as_kind(x: Ref, kind: str) -> Ref:
    if kind == "bool":
        return x.builder.ne(x, x.constant(0))
    return x.builder.apply("cast", x, to=kind)


SHORT = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}


def _cast_to(dtype: str) -> Callable[..., Ref]:
    return partial(_cast, dtype=dtype)


def _transpose(x: Ref, dim0: int, dim1: int) -> Ref:
    if not x.shape:
        return moved(x)
    order = list(range(len(x.shape)))
    a, b = axis_of(dim0, len(order)), axis_of(dim1, len(order))
    order[a], order[b] = b, a
    return x.builder.apply("transpose", x, axes=tuple(order))


def _permute(x: Ref, *dims: Any) -> Ref:
    return x.builder.apply("transpose", x, axes=tuple(axis_of(d, len(x.shape)) for d in _sizes(dims)))


def _t(x: Ref) -> Ref:
    return x.builder.apply("transpose", x, axes=tuple(reversed(range(len(x.shape)))))


def _expand(x: Ref, *sizes: Any) -> Ref:
    wanted = list(_sizes(sizes))
    lead = len(wanted) - len(x.shape)
    shape = tuple(x.shape[i - lead] if n == -1 else n for i, n in enumerate(wanted))
    return x.broadcast_to(shape)


def unsqueeze(x: Ref, dim: int) -> Ref:
    axis = dim % (len(x.shape) + 1)
    return x.builder.apply("reshape", x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))


def _squeeze(x: Ref, dim: Any = None) -> Ref:
    dims = (
        range(len(x.shape))
        if dim is None
        else [axis_of(d, len(x.shape)) for d in ([dim] if isinstance(dim, int) else dim)]
    )
    return x.builder.apply("reshape", x, shape=tuple(n for axis, n in enumerate(x.shape) if n != 1 or axis not in dims))


def _flatten(x: Ref, start_dim: int = 0, end_dim: int = -1) -> Ref:
    if not x.shape:
        return _reshape(x, 1)
    a, b = axis_of(start_dim, len(x.shape)), axis_of(end_dim, len(x.shape))
    return x.builder.apply("reshape", x, shape=(*x.shape[:a], math.prod(x.shape[a : b + 1]), *x.shape[b + 1 :]))


def along(x: Ref, axis: int, begin: int, end: int) -> Ref:
    return x[(slice(None),) * axis + (slice(begin, end),)]


def select(x: Ref, dim: int, index: int) -> Ref:
    return x[(slice(None),) * axis_of(dim, len(x.shape)) + (index,)]


def _narrow(x: Ref, dim: int, start: Any, length: int) -> Ref:
    if isinstance(start, Ref):
        raise GraphError("narrow from a place that is data is not lowered")
    start = start if start >= 0 else start + x.shape[axis_of(dim, len(x.shape))]
    return along(x, axis_of(dim, len(x.shape)), start, start + length)


def _copy(x: Ref, other: Ref, *_: Any, **__: Any) -> Ref:
    return (
        as_kind(other, x.type.kind).broadcast_to(x.shape)
        if other.type.kind != x.type.kind
        else spread_to(other, x.shape)
    )


def spread_to(x: Ref, shape: tuple[int, ...]) -> Ref:
    return moved(x) if x.shape == shape else x.broadcast_to(shape)


def _tile(x: Ref, *dims: Any) -> Ref:
    given = _sizes(dims)
    times = (1,) * (len(x.shape) - len(given)) + tuple(given)
    shape = (1,) * (len(times) - len(x.shape)) + x.shape
    if 0 in times or 0 in shape:
        return x.builder.apply(
            "broadcast", _nothing(x), shape=tuple(n * k for n, k in zip(shape, times, strict=True)), axes=()
        )
    wide = tuple(size for n, k in zip(shape, times, strict=True) for size in (k, n))
    places = tuple(2 * axis + 1 for axis in range(len(shape)))
    spread = x.builder.apply("broadcast", x.builder.reshape(x, shape=shape), shape=wide, axes=places)
    return x.builder.reshape(spread, shape=tuple(n * k for n, k in zip(shape, times, strict=True)))


def _nothing(x: Ref) -> Ref:
    return x.constant({"real": 0.0, "int": 0, "bool": False}[x.type.kind], ())


def _roll(x: Ref, shifts: Any, dims: Any = None) -> Ref:
    if dims in (None, (), []):
        flat = x.builder.reshape(x, shape=(x.type.size,))
        return x.builder.reshape(_roll(flat, shifts if isinstance(shifts, int) else shifts[0], 0), shape=x.shape)
    pairs = (
        [(shifts, dims)]
        if isinstance(shifts, int)
        else list(zip(shifts, [dims] if isinstance(dims, int) else dims, strict=True))
    )
    for shift, dim in pairs:
        axis = axis_of(dim, len(x.shape))
        at = -shift % max(x.shape[axis], 1)
        if at:
            x = x.builder.concat(along(x, axis, at, x.shape[axis]), along(x, axis, 0, at), axis=axis)
    return moved(x)


def _flip(x: Ref, *axes: Any, dims: Any = None) -> Ref:
    given = _sizes(axes) if dims is None else dims
    return x.builder.apply("flip", x, axes=axes_of(list(given), len(x.shape)))


def _rot90(x: Ref, k: int = 1, dims: Any = (0, 1)) -> Ref:
    a, b = (axis_of(d, len(x.shape)) for d in dims)
    match k % 4:
        case 0:
            return moved(x)
        case 1:
            return _transpose(_flip(x, b), a, b)
        case 2:
            return _flip(x, (a, b))
        case _:
            return _flip(_transpose(x, a, b), b)


def _movedim(x: Ref, source: Any, destination: Any) -> Ref:
    rank = len(x.shape)
    sources, places = (
        [axis_of(d, rank) for d in ([given] if isinstance(given, int) else given)] for given in (source, destination)
    )
    rest = iter(axis for axis in range(rank) if axis not in sources)
    order = [sources[places.index(place)] if place in places else next(rest) for place in range(rank)]
    return x.builder.transpose(x, axes=tuple(order))


def _unflatten(x: Ref, dim: int, sizes: Any) -> Ref:
    axis = axis_of(dim, len(x.shape))
    parts = list(sizes)
    if -1 in parts:
        parts[parts.index(-1)] = x.shape[axis] // max(math.prod(n for n in parts if n != -1), 1)
    return x.builder.reshape(x, shape=(*x.shape[:axis], *parts, *x.shape[axis + 1 :]))


def _windows(x: Ref, dimension: int, size: int, step: int) -> Ref:
    """Windows along an axis, each laid along a new last axis."""
    if not x.shape:
        return x.builder.reshape(x, shape=(size,))
    axis = axis_of(dimension, len(x.shape))
    starts = range(0, x.shape[axis] - size + 1, step)
    index = places_beside(x, np.array([[a + k for k in range(size)] for a in starts], dtype=np.int64).reshape(-1, size))
    found = x.builder.gather(x, index, axis=axis)
    return _movedim(found, axis + 1, -1)


def _sum_to_size(x: Ref, *sizes: Any) -> Ref:
    wanted = _sizes(sizes)
    lead = len(x.shape) - len(wanted)
    axes = tuple(axis for axis, n in enumerate(x.shape) if axis < lead or (wanted[axis - lead] == 1 and n != 1))
    return x.builder.reshape(x.builder.sum(x, axes=axes), shape=tuple(wanted)) if axes else moved(x)


def _filled(x: Ref, value: Any) -> Ref:
    if isinstance(value, Ref):
        return _copy(x, value)
    return x.constant({"real": float, "int": int, "bool": bool}[x.type.kind](value))


STRUCTURE = (
    *(Lowering(op, _laid_out, sized=True) for op in ("reshape", "view", "_unsafe_view", "view_copy")),
    *(Lowering(op, moved) for op in ("contiguous", "clone", "alias", "alias_copy", "cpu", "identity")),
    Lowering("view_as", lambda x, other: _reshape(x, *other.shape)),
    Lowering("reshape_as", lambda x, other: _reshape(x, *other.shape)),
    Lowering("ravel", lambda x: _reshape(x, -1) if x.type.size else x.builder.reshape(x, shape=(0,))),
    *(Lowering(op, _cast, formatted=True) for op in ("to", "type", "_to_copy")),
    *(Lowering(op, _cast_to(name), formatted=True) for op, name in SHORT.items()),
    Lowering("detach", lambda x: x.builder.apply("stop_gradient", x)),
    *(Lowering(op, _transpose) for op in ("transpose", "transpose_copy")),
    *(Lowering(op, _permute) for op in ("permute", "permute_copy")),
    *(Lowering(op, _t) for op in ("t", "T", "t_copy")),
    Lowering("H", lambda x: _transpose(x, -1, -2)),
    Lowering("mT", lambda x: _transpose(x, -1, -2)),
    Lowering("mH", lambda x: _transpose(x, -1, -2)),
    Lowering("movedim", _movedim),
    *(Lowering(op, _expand) for op in ("expand", "expand_copy")),
    Lowering("expand_as", lambda x, other: spread_to(x, other.shape)),
    Lowering("broadcast_to", lambda x, *shape, size=None: spread_to(x, tuple(_sizes((size,) if size else shape)))),
    *(Lowering(op, unsqueeze) for op in ("unsqueeze", "unsqueeze_copy")),
    *(Lowering(op, _squeeze) for op in ("squeeze", "squeeze_copy")),
    Lowering("flatten", _flatten),
    Lowering("unflatten", _unflatten),
    Lowering("select", select),
    *(Lowering(op, _narrow) for op in ("narrow", "narrow_copy")),
    *(Lowering(op, _tile) for op in ("tile", "repeat")),
    Lowering("roll", _roll),
    Lowering("flip", _flip),
    Lowering("fliplr", lambda x: _flip(x, 1)),
    Lowering("flipud", lambda x: _flip(x, 0)),
    Lowering("rot90", _rot90),
    *(Lowering(op, _windows) for op in ("unfold", "unfold_copy")),
    Lowering("sum_to_size", _sum_to_size),
    Lowering("copy", _copy),
    Lowering("fill", _filled),
    Lowering("zero", lambda x: _filled(x, 0)),
)

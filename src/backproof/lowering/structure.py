"""Views, copies, joins and indices: numbers are moved, none is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes
from backproof.ir.compose.axes import axes_of, axis_of, places_beside
from backproof.lowering.lowering import Lowering, moved

KIND_OF = {
    **dict.fromkeys(("float64", "float32", "float16", "bfloat16"), "real"),
    **dict.fromkeys(("int64", "int32", "int16", "int8", "uint8"), "int"),
    "bool": "bool",
}


def _sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else given


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
        return _as(x, kind)
    return x.builder.apply("cast", x, to="float32") if kind == "real" and format == "float32" else moved(x)


def _as(x: Ref, kind: str) -> Ref:
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


def _unsqueeze(x: Ref, dim: int) -> Ref:
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


def _cat(tensors: list[Ref], dim: int = 0, **_: Any) -> Ref:
    parts = [x for x in tensors if x.shape != (0,)] or tensors[
        :1
    ]  # an empty vector is joined to anything, by old custom
    if len({x.type.kind for x in parts}) > 1:
        parts = [x if x.type.kind == "real" else _as(x, "real") for x in parts]
    axis = axis_of(dim, len(parts[0].shape))
    return moved(parts[0]) if len(parts) == 1 else parts[0].builder.apply("concat", *parts, axis=axis)


def _stack(tensors: list[Ref], dim: int = 0) -> Ref:
    axis = dim % (len(tensors[0].shape) + 1)
    return _cat([_unsqueeze(x, axis) for x in tensors], axis)


def _along(x: Ref, axis: int, begin: int, end: int) -> Ref:
    return x[(slice(None),) * axis + (slice(begin, end),)]


def _split(
    x: Ref, split_size: Any = None, dim: int = 0, *, split_sizes: Any = None, split_size_or_sections: Any = None
) -> list[Ref]:
    sizes = next(given for given in (split_size, split_sizes, split_size_or_sections) if given is not None)
    axis = axis_of(dim, len(x.shape))
    n = x.shape[axis]
    parts = [min(sizes, n - at) for at in range(0, n, sizes)] if isinstance(sizes, int) else list(sizes)
    ends = np.cumsum(parts).tolist()
    return [_along(x, axis, end - part, end) for part, end in zip(parts, ends, strict=True)]


def _chunk(x: Ref, chunks: int, dim: int = 0) -> list[Ref]:
    return _split(x, -(-x.shape[axis_of(dim, len(x.shape))] // chunks), dim)


def _unbind(x: Ref, dim: int = 0) -> list[Ref]:
    axis = axis_of(dim, len(x.shape))
    return [_select(x, axis, i) for i in range(x.shape[axis])]


def _select(x: Ref, dim: int, index: int) -> Ref:
    return x[(slice(None),) * axis_of(dim, len(x.shape)) + (index,)]


def _narrow(x: Ref, dim: int, start: Any, length: int) -> Ref:
    if isinstance(start, Ref):
        raise GraphError("narrow from a place that is data is not lowered")
    start = start if start >= 0 else start + x.shape[axis_of(dim, len(x.shape))]
    return _along(x, axis_of(dim, len(x.shape)), start, start + length)


def _copy(x: Ref, other: Ref, *_: Any, **__: Any) -> Ref:
    return _as(other, x.type.kind).broadcast_to(x.shape) if other.type.kind != x.type.kind else _spread(other, x.shape)


def _spread(x: Ref, shape: tuple[int, ...]) -> Ref:
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
            x = x.builder.concat(_along(x, axis, at, x.shape[axis]), _along(x, axis, 0, at), axis=axis)
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


def _tensor_split(x: Ref, parts: Any, dim: int = 0) -> list[Ref]:
    axis = axis_of(dim, len(x.shape))
    if isinstance(parts, Ref):
        raise GraphError("a split at places that are data is not lowered")
    n = x.shape[axis]
    if isinstance(parts, int):
        small, more = divmod(n, parts)
        ends = np.cumsum([small + (i < more) for i in range(parts)]).tolist()
    else:
        ends = [*(min(max(at + n if at < 0 else at, 0), n) for at in parts), n]
    return [_along(x, axis, begin, max(begin, end)) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _split_along(axis: int) -> Callable[..., list[Ref]]:
    return lambda x, parts: _tensor_split(x, parts, 0 if axis == 1 and len(x.shape) == 1 else axis)


def _at_least(rank: int) -> Callable[..., Any]:
    """With new axes of size 1: behind a vector's for rank 3, else in front."""

    def one(x: Ref) -> Ref:
        shape = x.shape
        if rank == 3 and len(shape) == 2:
            shape = (*shape, 1)
        elif rank == 3 and len(shape) == 1:
            shape = (1, *shape, 1)
        return x.builder.reshape(x, shape=(1,) * (rank - len(shape)) + shape)

    def lower(*given: Any) -> Any:
        several = len(given) > 1 or isinstance(given[0], (list, tuple))
        parts = list(given[0]) if isinstance(given[0], (list, tuple)) else list(given)
        return [one(x) for x in parts] if several else one(parts[0])

    return lower


def _joined(rank: int, axis: int) -> Callable[..., Ref]:
    def lower(tensors: Any) -> Ref:
        parts = [x if len(x.shape) >= rank else _at_least(rank)(x) for x in tensors]
        return _cat(parts, 0 if axis == 1 and len(parts[0].shape) == 1 else axis)

    return lower


def _columns(tensors: Any) -> Ref:
    return _cat([x if len(x.shape) > 1 else x.builder.reshape(x, shape=(x.type.size, 1)) for x in tensors], 1)


def _meshgrid(*given: Any, indexing: str = "ij") -> list[Ref]:
    parts = list(given[0]) if isinstance(given[0], (list, tuple)) else list(given)
    flat = [x.builder.reshape(x, shape=(x.type.size,)) for x in parts]
    order = list(range(len(flat)))
    if indexing == "xy" and len(flat) > 1:
        order[:2] = [1, 0]
    shape = tuple(flat[i].shape[0] for i in order)
    return [x.builder.broadcast(x, shape=shape, axes=(order.index(i),)) for i, x in enumerate(flat)]


def _broadcast_tensors(*given: Any) -> list[Ref]:
    parts = list(given[0]) if isinstance(given[0], (list, tuple)) else list(given)
    shape: tuple[int, ...] = ()
    for x in parts:
        shape = broadcast_shapes(shape, x.shape)
    return [_spread(x, shape) for x in parts]


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


def _cartesian(*tensors: Any) -> Ref:
    if len(tensors) == 1:
        return moved(tensors[0])
    grid = _meshgrid(*tensors)
    return _stack([x.builder.reshape(x, shape=(x.type.size,)) for x in grid], 1)


def _block_diagonal(*tensors: Any) -> Ref:
    parts = [_at_least(2)(x) for x in (tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors)]
    width, before, rows = sum(x.shape[1] for x in parts), 0, []
    for x in parts:
        low, high = (0, before), (0, width - before - x.shape[1])
        rows.append(x.builder.pad(x, low=low, high=high, interior=(0, 0)))
        before += x.shape[1]
    return _cat(rows, 0)


def _filled(x: Ref, value: Any) -> Ref:
    if isinstance(value, Ref):
        return _copy(x, value)
    return x.constant({"real": float, "int": int, "bool": bool}[x.type.kind](value))


STRUCTURE = (
    *(Lowering(op, _reshape) for op in ("reshape", "view", "_unsafe_view", "view_copy")),
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
    Lowering("expand_as", lambda x, other: _spread(x, other.shape)),
    Lowering("broadcast_to", lambda x, *shape, size=None: _spread(x, tuple(_sizes((size,) if size else shape)))),
    Lowering("broadcast_tensors", _broadcast_tensors),
    *(Lowering(op, _unsqueeze) for op in ("unsqueeze", "unsqueeze_copy")),
    *(Lowering(op, _squeeze) for op in ("squeeze", "squeeze_copy")),
    Lowering("flatten", _flatten),
    Lowering("unflatten", _unflatten),
    Lowering("cat", _cat),
    Lowering("stack", _stack),
    Lowering("hstack", _joined(1, 1)),
    Lowering("vstack", _joined(2, 0)),
    Lowering("dstack", _joined(3, 2)),
    Lowering("column_stack", _columns),
    Lowering("block_diag", _block_diagonal),
    Lowering("cartesian_prod", _cartesian),
    *(Lowering(f"atleast_{n}d", _at_least(n)) for n in (1, 2, 3)),
    Lowering("meshgrid", _meshgrid),
    *(Lowering(op, _split) for op in ("split", "split_with_sizes_copy")),
    Lowering("chunk", _chunk),
    Lowering("tensor_split", _tensor_split),
    *(Lowering(op, _split_along(axis)) for op, axis in (("vsplit", 0), ("hsplit", 1), ("dsplit", 2))),
    *(Lowering(op, _unbind) for op in ("unbind", "unbind_copy")),
    Lowering("select", _select),
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

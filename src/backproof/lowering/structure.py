"""Views, copies, joins and indices: numbers are moved, none is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, index
from backproof.ir.compose.axes import axis_of
from backproof.lowering.lowering import Lowering

FLOATS = {"float64", "float32", "float16", "bfloat16"}


def _sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else given


def _reshape(x: Ref, *shape: Any) -> Ref:
    sizes = list(_sizes(shape))
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = x.type.size // rest if rest else 0
    return x.builder.apply("reshape", x, shape=tuple(sizes))


def _same(x: Ref, *_: Any, **__: Any) -> Ref:
    return x.builder.apply("reshape", x, shape=x.shape)


def _cast(x: Ref, *given: Any, dtype: Any = None, **_: Any) -> Ref:
    """Only a change of kind is a change of numbers; rounding to another format is the format of the output."""
    wanted = dtype or next(
        (item for item in given if isinstance(item, str) and item in {*FLOATS, "int64", "bool"}), None
    )
    kind = "real" if wanted in FLOATS else {"int64": "int", "bool": "bool"}.get(wanted or "", x.type.kind)
    return _same(x) if kind == x.type.kind else x.builder.apply("cast", x, to=kind)


def _transpose(x: Ref, a: int, b: int) -> Ref:
    order = list(range(len(x.shape)))
    a, b = axis_of(a, len(order)), axis_of(b, len(order))
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
    parts = [x for x in tensors if x.shape != (0,)] or tensors  # an empty vector is joined to anything, by old custom
    axis = axis_of(dim, len(parts[0].shape))
    return _same(parts[0]) if len(parts) == 1 else parts[0].builder.apply("concat", *parts, axis=axis)


def _stack(tensors: list[Ref], dim: int = 0) -> Ref:
    axis = dim % (len(tensors[0].shape) + 1)
    return _cat([_unsqueeze(x, axis) for x in tensors], axis)


def _along(x: Ref, axis: int, begin: int, end: int) -> Ref:
    return x[(slice(None),) * axis + (slice(begin, end),)]


def _split(x: Ref, sizes: Any, dim: int = 0) -> list[Ref]:
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


def _select(x: Ref, dim: int, at: int) -> Ref:
    return x[(slice(None),) * axis_of(dim, len(x.shape)) + (at,)]


def _narrow(x: Ref, dim: int, start: int, length: int) -> Ref:
    return _along(x, axis_of(dim, len(x.shape)), start, start + length)


def _getitem(x: Ref, key: Any) -> Ref:
    keys = list(key) if isinstance(key, tuple) else [key]
    values = [item for item in keys if isinstance(item, Ref)]
    if not values:
        return _plain_index(x, keys)
    if (
        len(values) == 1
        and values[0].type.kind == "int"
        and all(isinstance(k, (Ref, slice)) and k in (slice(None), values[0]) for k in keys if not isinstance(k, Ref))
    ):
        axis = next(i for i, item in enumerate(keys) if isinstance(item, Ref))
        return x.builder.apply("gather", x, values[0], axis=axis)
    raise GraphError(f"an index of this form is not lowered: {keys}")


def _plain_index(x: Ref, keys: list[Any]) -> Ref:
    """Whole numbers, slices, `...` and None (a new axis)."""
    if any(item is None for item in keys):
        full = [item for item in keys if item is not None and item is not Ellipsis]
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * (len(x.shape) - len(full))
        else:
            keys = keys + [slice(None)] * (len(x.shape) - len(full))
        y = index(x, tuple(item for item in keys if item is not None))
        place = 0
        for item in keys:
            if item is None:
                y = _unsqueeze(y, place)
            place += item is None or isinstance(item, slice)
        return y
    return index(x, tuple(keys))


def _pad(x: Ref, pad: list[int], mode: str = "constant", value: float | None = None) -> Ref:
    if mode != "constant" or (value not in (None, 0) and x.type.kind == "real"):
        raise GraphError(f"padding of mode {mode!r} with {value!r} is not lowered")
    n = len(x.shape)
    low, high = [0] * n, [0] * n
    for i in range(len(pad) // 2):
        low[n - 1 - i], high[n - 1 - i] = pad[2 * i], pad[2 * i + 1]
    cut = tuple(slice(max(-a, 0), size - max(-b, 0)) for a, b, size in zip(low, high, x.shape, strict=True))
    grown = x.builder.apply(
        "pad", index(x, cut), low=tuple(max(a, 0) for a in low), high=tuple(max(b, 0) for b in high), interior=(0,) * n
    )
    if value in (None, 0) or x.type.kind == "real":
        return grown
    inside = x.builder.apply(
        "pad",
        index(x, cut).constant(True),
        low=tuple(max(a, 0) for a in low),
        high=tuple(max(b, 0) for b in high),
        interior=(0,) * n,
    )
    return x.builder.apply("where", inside, grown, grown.constant(value))


def _setter(op: Callable[..., Ref]) -> Callable[..., Ref]:
    return lambda x, other, *_, **__: op(other).broadcast_to(x.shape)


STRUCTURE = (
    *(Lowering(op, _reshape) for op in ("reshape", "view", "_unsafe_view")),
    *(Lowering(op, _same) for op in ("contiguous", "clone", "alias", "identity", "requires_grad")),
    Lowering("view_as", lambda x, other: _reshape(x, *other.shape)),
    Lowering("reshape_as", lambda x, other: _reshape(x, *other.shape)),
    *(Lowering(op, _cast) for op in ("to", "type")),
    Lowering("float", lambda x, **_: _cast(x, "float32")),
    Lowering("double", lambda x, **_: _cast(x, "float64")),
    Lowering("half", lambda x, **_: _cast(x, "float16")),
    Lowering("bfloat16", lambda x, **_: _cast(x, "bfloat16")),
    Lowering("long", lambda x, **_: _cast(x, "int64")),
    Lowering("bool", lambda x, **_: _cast(x, "bool")),
    Lowering("detach", lambda x: x.builder.apply("stop_gradient", x)),
    Lowering("transpose", _transpose),
    Lowering("permute", _permute),
    Lowering("t", _t),
    Lowering("T", _t),
    Lowering("mT", lambda x: _transpose(x, -1, -2)),
    Lowering("expand", _expand),
    Lowering("expand_as", lambda x, other: x.broadcast_to(other.shape)),
    Lowering("broadcast_to", lambda x, shape: x.broadcast_to(tuple(shape))),
    Lowering("unsqueeze", _unsqueeze),
    Lowering("squeeze", _squeeze),
    Lowering("flatten", _flatten),
    Lowering("cat", _cat),
    Lowering("stack", _stack),
    Lowering("split", _split),
    Lowering("chunk", _chunk),
    Lowering("unbind", _unbind),
    Lowering("select", _select),
    Lowering("narrow", _narrow),
    Lowering("getitem", _getitem),
    Lowering("pad", _pad),
    Lowering(
        "flip",
        lambda x, *dims: x.builder.apply("flip", x, axes=tuple(sorted(axis_of(d, len(x.shape)) for d in _sizes(dims)))),
    ),
    Lowering(
        "cumsum", lambda x, dim, **_: x.builder.apply("cumsum", x, axis=axis_of(dim, len(x.shape)), reverse=False)
    ),
    Lowering("copy", _setter(lambda x: x)),
    Lowering(
        "index_select", lambda x, dim, index: x.builder.apply("gather", x, index, axis=axis_of(dim, len(x.shape)))
    ),
    Lowering(
        "gather", lambda x, dim, index, **_: x.builder.apply("gather_along", x, index, axis=axis_of(dim, len(x.shape)))
    ),
)

"""Parts joined to a whole, and a whole taken into its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes
from backproof.ir.compose.axes import axis_of
from backproof.lowering.lowering import Lowering, moved
from backproof.lowering.structure import along, as_kind, select, spread_to, unsqueeze


def _cat(tensors: list[Ref], dim: int = 0) -> Ref:
    parts = [x for x in tensors if x.shape != (0,)] or tensors[
        :1
    ]  # an empty vector is joined to anything, by old custom
    if len({x.type.kind for x in parts}) > 1:
        parts = [x if x.type.kind == "real" else as_kind(x, "real") for x in parts]
    axis = axis_of(dim, len(parts[0].shape))
    return moved(parts[0]) if len(parts) == 1 else parts[0].builder.apply("concat", *parts, axis=axis)


def _stack(tensors: list[Ref], dim: int = 0) -> Ref:
    axis = dim % (len(tensors[0].shape) + 1)
    return _cat([unsqueeze(x, axis) for x in tensors], axis)


def _split(
    x: Ref, split_size: Any = None, dim: int = 0, *, split_sizes: Any = None, split_size_or_sections: Any = None
) -> list[Ref]:
    sizes = next(given for given in (split_size, split_sizes, split_size_or_sections) if given is not None)
    axis = axis_of(dim, len(x.shape))
    n = x.shape[axis]
    parts = [min(sizes, n - at) for at in range(0, n, sizes)] if isinstance(sizes, int) else list(sizes)
    ends = np.cumsum(parts).tolist()
    return [along(x, axis, end - part, end) for part, end in zip(parts, ends, strict=True)]


def _chunk(x: Ref, chunks: int, dim: int = 0) -> list[Ref]:
    return _split(x, -(-x.shape[axis_of(dim, len(x.shape))] // chunks), dim)


def _unbind(x: Ref, dim: int = 0) -> list[Ref]:
    axis = axis_of(dim, len(x.shape))
    return [select(x, axis, i) for i in range(x.shape[axis])]


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
    return [along(x, axis, begin, max(begin, end)) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


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


def _block_diagonal(*tensors: Any) -> Ref:
    parts = [_at_least(2)(x) for x in (tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors)]
    width, before, rows = sum(x.shape[1] for x in parts), 0, []
    for x in parts:
        low, high = (0, before), (0, width - before - x.shape[1])
        rows.append(x.builder.pad(x, low=low, high=high, interior=(0, 0)))
        before += x.shape[1]
    return _cat(rows, 0)


def _meshgrid(*given: Any, indexing: str = "ij") -> list[Ref]:
    parts = list(given[0]) if isinstance(given[0], (list, tuple)) else list(given)
    flat = [x.builder.reshape(x, shape=(x.type.size,)) for x in parts]
    order = list(range(len(flat)))
    if indexing == "xy" and len(flat) > 1:
        order[:2] = [1, 0]
    shape = tuple(flat[i].shape[0] for i in order)
    return [x.builder.broadcast(x, shape=shape, axes=(order.index(i),)) for i, x in enumerate(flat)]


def _cartesian(*tensors: Any) -> Ref:
    if len(tensors) == 1:
        return moved(tensors[0])
    grid = _meshgrid(*tensors)
    return _stack([x.builder.reshape(x, shape=(x.type.size,)) for x in grid], 1)


def _broadcast_tensors(*given: Any) -> list[Ref]:
    parts = list(given[0]) if isinstance(given[0], (list, tuple)) else list(given)
    shape: tuple[int, ...] = ()
    for x in parts:
        shape = broadcast_shapes(shape, x.shape)
    return [spread_to(x, shape) for x in parts]


JOINS = (
    Lowering("broadcast_tensors", _broadcast_tensors),
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
)

"""Tables: rows that are looked up, one by one or in bags."""

from __future__ import annotations

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.reduce import mean, total
from backproof.lowering.arithmetic import sloped
from backproof.lowering.lowering import Lowering

_choose = COMPOSITIONS["where"].function


def _embedding(
    index: Ref,
    weight: Ref,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Ref:
    del norm_type, sparse
    if max_norm is not None:
        raise GraphError("embedding with max_norm, which writes into the table first, is not lowered")
    rows = COMPOSITIONS["embedding"].function(index, weight, padding_idx)
    if not scale_grad_by_freq:
        return rows
    D, flat = weight.builder, index.builder.reshape(index, shape=(index.type.size,))
    times = D.scatter_add(flat, D.cast(flat.constant(1), to="real"), axis=0, size=weight.shape[0])
    share = 1.0 / D.gather(times, index, axis=0)
    return sloped(rows, (rows, D.broadcast(share, shape=rows.shape, axes=tuple(range(len(index.shape))))))


def _embedding_bag(
    index: Ref,
    weight: Ref,
    offsets: Ref | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Ref | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Ref:
    """Rows of each bag, added up, averaged, or the largest of each column; those of padding_idx are not there."""
    del norm_type, sparse
    if max_norm is not None or scale_grad_by_freq or (mode == "max" and padding_idx is not None):
        raise GraphError(
            "embedding_bag with max_norm, scale_grad_by_freq, or padding beside the largest is not lowered"
        )
    D = weight.builder
    rows = D.gather(weight, index, axis=0)
    one = D.cast(index, to="real").constant(1.0)
    if padding_idx is not None:
        there = D.ne(index, index.constant(padding_idx % weight.shape[0]))
        rows = _choose(D.broadcast(there, shape=rows.shape, axes=tuple(range(len(index.shape)))), rows, 0.0)
        one = D.cast(there, to="real")
    if per_sample_weights is not None:
        rows = rows * D.broadcast(per_sample_weights, shape=rows.shape, axes=tuple(range(len(index.shape))))
    if offsets is None and mode == "mean" and padding_idx is not None:
        return total(rows, 1) / _at_least_one(total(one, 1), weight)
    if offsets is None:
        return {"sum": total, "mean": mean, "max": COMPOSITIONS["amax"].function}[mode](rows, 1)
    if mode == "max":
        raise GraphError("embedding_bag with offsets and the largest of each bag is not lowered")
    count, n = index.shape[0], offsets.shape[0]
    place, begin = (
        D.broadcast(D.iota(size=count), shape=(count, n), axes=(0,)),
        D.broadcast(offsets, shape=(count, n), axes=(1,)),
    )
    bags = n - 1 if include_last_offset else n
    which = D.cast(D.sum(D.cast(begin <= place, to="real"), axes=(1,)) - 0.5, to="int")
    sums = D.scatter_add(which, rows, axis=0, size=bags)
    if mode == "sum":
        return sums
    return sums / _at_least_one(D.scatter_add(which, one, axis=0, size=bags), weight)


def _at_least_one(sizes: Ref, weight: Ref) -> Ref:
    """By how many rows each bag is divided."""
    shape = (sizes.shape[0], weight.shape[1])
    return sizes.builder.broadcast(_choose(sizes > 0.0, sizes, 1.0), shape=shape, axes=(0,))


TABLES = (
    Lowering("embedding", _embedding),
    Lowering(
        "torch_embedding",
        lambda weight, index, *rest: _embedding(index, weight, rest[0] if rest and rest[0] >= 0 else None),
    ),
    Lowering("embedding_bag", _embedding_bag),
)

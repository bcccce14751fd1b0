"""Affine maps, tables of vectors, and dropout with a given mask."""

from __future__ import annotations

from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import along, value_of
from backproof.ir.compose.choose import where
from backproof.ir.compose.record import Composition


def linear(x: Ref, weight: Ref, bias: Ref | None = None) -> Ref:
    """x·wᵀ + b along the last axis; the weight is (out, in)."""
    if not x.shape or len(weight.shape) != 2 or x.shape[-1] != weight.shape[1]:
        raise GraphError(f"linear: x is {x.type} and the weight {weight.type}; they must be (…, in) and (out, in)")
    last = len(x.shape) - 1
    y = x.builder.dot_general(x, weight, contract=((last,), (1,)), batch=((), ()))
    return y if bias is None else y + along(bias, y, last)


def embedding(index: Ref, weight: Ref, padding_idx: int | None = None) -> Ref:
    """The rows of a table; the row of padding_idx gets no derivative. An index that points nowhere reads zeros."""
    D = weight.builder
    if len(weight.shape) != 2 or index.type.kind != "int":
        raise GraphError(
            f"embedding: the index is {index.type} and the weight {weight.type}; they must be integers and (rows, size)"
        )
    rows = D.gather(weight, index, axis=0)
    if padding_idx is None:
        return rows
    size = weight.shape[0]
    if not -size <= padding_idx < size:
        raise GraphError(f"embedding: padding_idx {padding_idx} of {size} rows")
    padding = D.eq(index, index.constant(padding_idx % size))
    lead = tuple(range(len(index.shape)))
    return D.where(D.broadcast(padding, shape=rows.shape, axes=lead), D.stop_gradient(rows), rows)


def dropout(x: Ref, mask: Any, p: float = 0.5) -> Ref:
    """x·mask/(1 − p), for a mask of truth values or of numbers that says what stays."""
    if not 0 <= p <= 1:
        raise GraphError(f"dropout: p is {p}; it must be from 0 to 1")
    stays = value_of(mask, x)
    scaled = x if p == 0 else x * 0.0 if p == 1 else x / (1 - p)
    return where(stays, scaled, 0.0) if stays.type.kind == "bool" else scaled * stays


LINEAR = (
    Composition("linear", "y = x·wᵀ + b", linear),
    Composition("embedding", "y = w[index]; the row of padding_idx gets no derivative", embedding),
    Composition("dropout", "y = x·mask/(1 − p)", dropout),
)

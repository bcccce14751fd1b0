"""Diagonals and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import axis_of, places_beside
from backproof.lowering.indexing import number
from backproof.lowering.lowering import Lowering

_choose = COMPOSITIONS["where"].function


def _triangle(x: Ref, inside: Any) -> Ref:
    rows, columns = x.shape[-2:]
    mask = x.constant(np.asarray(inside(np.arange(rows)[:, None], np.arange(columns)[None, :])))
    wide = x.builder.broadcast(mask, shape=x.shape, axes=(len(x.shape) - 2, len(x.shape) - 1))
    return _choose(wide, x, number(0, x))


def diagonal_of(x: Ref, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Ref:
    a, b = axis_of(dim1, len(x.shape)), axis_of(dim2, len(x.shape))
    rows, columns = x.shape[a], x.shape[b]
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    rest = [axis for axis in range(len(x.shape)) if axis not in (a, b)]
    turned = x.builder.transpose(x, axes=(*rest, a, b))
    flat = x.builder.reshape(turned, shape=(*turned.shape[:-2], rows * columns))
    places = [(i - min(offset, 0)) * columns + i + max(offset, 0) for i in range(length)]
    return x.builder.gather(flat, places_beside(x, np.array(places, dtype=np.int64)), axis=len(rest))


def _diag_embed(x: Ref, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Ref:
    n, rank = x.shape[-1] + abs(offset), len(x.shape) + 1
    a, b = axis_of(dim1, rank), axis_of(dim2, rank)
    places = [(i - min(offset, 0)) * n + i + max(offset, 0) for i in range(x.shape[-1])]
    D, lead = x.builder, len(x.shape) - 1
    index_of = places_beside(x, np.array(places, dtype=np.int64))
    flat = D.scatter_add(index_of, x, axis=lead, size=n * n)
    square = D.reshape(flat, shape=(*x.shape[:-1], n, n))
    rest = iter(range(rank - 2))
    return D.transpose(
        square, axes=tuple(rank - 2 if d == a else rank - 1 if d == b else next(rest) for d in range(rank))
    )


def _diag(x: Ref, diagonal: int = 0) -> Ref:
    return _diag_embed(x, diagonal) if len(x.shape) == 1 else diagonal_of(x, diagonal)


def _trace(x: Ref) -> Ref:
    return x.builder.sum(diagonal_of(x), axes=(0,))


DIAGONALS = (
    Lowering("tril", lambda x, diagonal=0: _triangle(x, lambda i, j: j - i <= diagonal)),
    Lowering("triu", lambda x, diagonal=0: _triangle(x, lambda i, j: j - i >= diagonal)),
    *(Lowering(op, diagonal_of) for op in ("diagonal", "diagonal_copy")),
    Lowering("linalg_diagonal", lambda x, *, offset=0, dim1=-2, dim2=-1: diagonal_of(x, offset, dim1, dim2)),
    Lowering("diag_embed", _diag_embed),
    Lowering("diag", _diag),
    Lowering("diagflat", lambda x, offset=0: _diag_embed(x.builder.reshape(x, shape=(x.type.size,)), offset)),
    Lowering("trace", _trace),
)

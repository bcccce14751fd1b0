"""Distances of rows, each to each."""

from __future__ import annotations

from typing import Any

import numpy as np

from backproof.ir.build import Ref, matmul
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import places_beside
from backproof.ir.compose.reduce import total
from backproof.lowering.lowering import Lowering
from backproof.lowering.reductions import vector_norm

_choose = COMPOSITIONS["where"].function


def _cdist(a: Ref, b: Ref, p: float = 2.0, compute_mode: Any = None, seen: list[Ref] | None = None) -> Ref:
    """All distances of two sets of rows; the Euclidean ones of many rows through a product, as the kernel computes them."""
    many = max(a.shape[-2], b.shape[-2]) > 25
    if p == 2 and (
        compute_mode == "use_mm_for_euclid_dist"
        or (many and compute_mode in (None, "use_mm_for_euclid_dist_if_necessary"))
    ):
        return _through_a_product(a, b, seen)
    left = a.builder.reshape(a, shape=(*a.shape[:-1], 1, a.shape[-1]))
    right = b.builder.reshape(b, shape=(*b.shape[:-2], 1, *b.shape[-2:]))
    return vector_norm(left - right, float(p), -1)


def _through_a_product(a: Ref, b: Ref, seen: list[Ref] | None) -> Ref:
    """√(|a|² − 2ab + |b|²). Its derivative divides by the distance that was found, and is 0 where that is."""
    axes = (*range(len(b.shape) - 2), len(b.shape) - 1, len(b.shape) - 2)
    rows, columns = total(a * a, -1, keepdim=True), total(b * b, -1, keepdim=True)
    product = matmul(a, b.builder.transpose(b, axes=axes))
    squares = (rows + b.builder.transpose(columns, axes=axes)) - 2.0 * product
    D = squares.builder
    apart = squares > 0.0
    value = _choose(apart, D.sqrt(_choose(apart, squares, 1.0)), 0.0)
    found = D.stop_gradient(value if seen is None else seen[0])
    there = found > 0.0
    slope = squares / _choose(there, 2.0 * found, 1.0)
    return D.stop_gradient(value) + _choose(there, slope - D.stop_gradient(slope), 0.0)


def _pdist(x: Ref, p: float = 2.0) -> Ref:
    """The distances of every two rows."""
    first, second = np.triu_indices(x.shape[0], 1)
    left, right = (x.builder.gather(x, places_beside(x, rows), axis=0) for rows in (first, second))
    return vector_norm(left - right, float(p), -1)


DISTANCES = (
    Lowering("cdist", _cdist, witnessed=True),
    Lowering("pdist", _pdist),
)

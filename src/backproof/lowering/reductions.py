"""Reductions: sums, means, spreads, products, norms, counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import axes_of, axis_of, count, kept, spread
from backproof.ir.compose.reduce import mean, norm, std, total, var
from backproof.lowering.arithmetic import as_real, as_truth
from backproof.lowering.lowering import Lowering

_choose = COMPOSITIONS["where"].function


def dims(dim: Any, x: Ref | None = None) -> Any:
    """All axes by None, by an empty list of them, and of a single number by any."""
    return None if (isinstance(dim, (list, tuple)) and not dim) or (x is not None and not x.shape) else dim


def _sum(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return total(as_real(x, x), dims(dim, x), keepdim=keepdim)


def _mean(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return mean(as_real(x, x), dims(dim, x), keepdim=keepdim)


def _known(x: Ref) -> Ref:
    """What is a number, 1, and what is not, 0."""
    return x.builder.cast(x.builder.eq(x, x), to="real")


def _present(x: Ref) -> Ref:
    return _choose(x.builder.eq(x, x), x, 0.0)


def _nansum(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return total(_present(x), dims(dim, x), keepdim=keepdim)


def _nanmean(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return _nansum(x, dim, keepdim) / total(_known(x), dims(dim, x), keepdim=keepdim)


def _spread_of(function: Callable[..., Ref]) -> Callable[..., Ref]:
    """`var` and `std`: (x, unbiased), (x, dim, unbiased, keepdim) or (x, dim, correction=, keepdim=)."""

    def lower(
        x: Ref,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Ref:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1.0 if unbiased is None else float(unbiased)
        return function(x, dims(dim, x), correction=correction, keepdim=keepdim)

    return lower


def _with_mean(function: Callable[..., Ref]) -> Callable[..., list[Ref]]:
    def lower(
        x: Ref, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> list[Ref]:
        axes = None if isinstance(dim, bool) else dims(dim, x)
        found = _spread_of(function)(x, dim, unbiased, keepdim, correction=correction)
        return [found, mean(x, axes, keepdim=keepdim)]

    return lower


def _prod(x: Ref, dim: int | None = None, keepdim: bool = False, **_: Any) -> Ref:
    x = as_real(x, x)
    axes = axes_of(dims(dim, x), len(x.shape))
    return kept(x.builder.prod(x, axes=axes), x, axes, keepdim=keepdim)


def _logsumexp(x: Ref, dim: Any, keepdim: bool = False) -> Ref:
    x = as_real(x, x)
    axes = axes_of(dims(dim, x), len(x.shape))
    return kept(x.builder.logsumexp(x, axes=axes), x, axes, keepdim=keepdim)


def vector_norm(x: Ref, ord: float = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:  # noqa: A002
    x, p = as_real(x, x), float(ord)
    if p == 0:
        axes = axes_of(dims(dim, x), len(x.shape))
        hits = x.builder.cast(x.builder.ne(x, x.constant(0.0)), to="real")
        return kept(x.builder.sum(hits, axes=axes), x, axes, keepdim=keepdim)
    if p == -math.inf:
        axes = axes_of(dims(dim, x), len(x.shape))
        return kept(x.builder.min(x.builder.abs(x), axes=axes), x, axes, keepdim=keepdim)
    return norm(x, p, dims(dim, x), keepdim=keepdim)


def _norm(x: Ref, p: Any = "fro", dim: Any = None, keepdim: bool = False, **given: Any) -> Ref:
    if p == "nuc":
        raise GraphError("the nuclear norm is not lowered")
    return vector_norm(x, 2.0 if p in ("fro", None) else p, dim, keepdim, **given)


def _linalg_norm(x: Ref, ord: Any = None, dim: Any = None, keepdim: bool = False, **given: Any) -> Ref:  # noqa: A002
    pair = (dim is None and len(x.shape) == 2) or (isinstance(dim, (list, tuple)) and len(dim) == 2)
    if ord is not None and pair:
        return _matrix_norm(x, ord, dim or (-2, -1), keepdim)
    return vector_norm(x, 2.0 if ord is None else ord, dim, keepdim, **given)


def _matrix_norm(x: Ref, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, **_: Any) -> Ref:  # noqa: A002
    """Frobenius, and the largest (smallest) sum of a column (1) or row (∞)."""
    row, column = (axis_of(d, len(x.shape)) for d in dim)
    if ord == "fro":
        return norm(x, 2.0, (row, column), keepdim=keepdim)
    if not isinstance(ord, (int, float)) or abs(ord) not in (1, math.inf):
        raise GraphError(f"the matrix norm {ord!r} takes singular values, and is not lowered")
    inner, outer = (row, column) if abs(ord) == 1 else (column, row)
    sums = total(x.builder.abs(x), inner, keepdim=True)
    found = sums.builder.apply("max" if ord > 0 else "min", sums, axes=(outer,))
    gone = tuple(n for axis, n in enumerate(x.shape) if axis not in (inner, outer))
    flat = x.builder.reshape(found, shape=gone)
    return kept(flat, x, (inner, outer), keepdim=keepdim)


def _dist(a: Ref, b: Ref, p: float = 2) -> Ref:
    return vector_norm(a - b, p)


def _truth_of(op: str) -> Callable[..., Ref]:
    """Whether all, or any, are true."""

    def lower(x: Ref, dim: Any = None, keepdim: bool = False) -> Ref:
        axes = axes_of(dims(dim, x), len(x.shape))
        counted = x.builder.cast(as_truth(x), to="real")
        hits = kept(x.builder.sum(counted, axes=axes), x, axes, keepdim=keepdim)
        return hits > 0.0 if op == "any" else hits >= float(count(x, axes))

    return lower


def _count_nonzero(x: Ref, dim: Any = None) -> Ref:
    return total(x.builder.cast(as_truth(x), to="real"), dims(dim, x))


def _cov(x: Ref, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Ref:
    if fweights is not None or aweights is not None:
        raise GraphError("cov with weights is not lowered")
    rows = x.builder.reshape(x, shape=(1, x.type.size)) if len(x.shape) < 2 else x
    off = rows - spread(mean(rows, (1,)), rows, (1,))
    found = (off @ x.builder.transpose(off, axes=(1, 0))) / float(max(rows.shape[1] - correction, 0))
    return x.builder.reshape(found, shape=()) if found.type.size == 1 else found


REDUCTIONS = (
    Lowering("sum", _sum),
    Lowering("mean", _mean),
    Lowering("nansum", _nansum),
    Lowering("nanmean", _nanmean),
    Lowering("var", _spread_of(var)),
    Lowering("std", _spread_of(std)),
    Lowering("var_mean", _with_mean(var)),
    Lowering("std_mean", _with_mean(std)),
    Lowering("prod", _prod),
    Lowering("logsumexp", _logsumexp),
    Lowering("vector_norm", vector_norm),
    Lowering("norm", _norm),
    Lowering("linalg_norm", _linalg_norm),
    Lowering("matrix_norm", _matrix_norm),
    Lowering("dist", _dist),
    Lowering("all", _truth_of("all")),
    Lowering("any", _truth_of("any")),
    Lowering("count_nonzero", _count_nonzero),
    Lowering("cov", _cov, in_pieces=True),
)

"""Reductions: means, variances, norms, extremes."""

from __future__ import annotations

import math

from backproof.ir.build import Ref, broadcast_shapes
from backproof.ir.compose.axes import Dim, axes_of, count, kept, spread
from backproof.ir.compose.choose import clamp, safe_sqrt, where
from backproof.ir.compose.record import Composition


def total(x: Ref, dim: Dim = None, *, keepdim: bool = False) -> Ref:
    """Σ x."""
    axes = axes_of(dim, len(x.shape))
    return kept(x.builder.apply("sum", x, axes=axes), x, axes, keepdim=keepdim)


def mean(x: Ref, dim: Dim = None, *, keepdim: bool = False) -> Ref:
    """Σ x/n."""
    axes = axes_of(dim, len(x.shape))
    return kept(x.builder.apply("sum", x, axes=axes) / float(count(x, axes)), x, axes, keepdim=keepdim)


def centred(x: Ref, axes: tuple[int, ...]) -> Ref:
    """x without its mean over axes."""
    return x - spread(mean(x, axes), x, axes)


def var(x: Ref, dim: Dim = None, *, correction: float = 1, keepdim: bool = False) -> Ref:
    """Σ (x − mean)²/(n − correction)."""
    axes = axes_of(dim, len(x.shape))
    off = centred(x, axes)
    squares = x.builder.apply("sum", off * off, axes=axes)
    return kept(squares / float(max(count(x, axes) - correction, 0)), x, axes, keepdim=keepdim)


def std(x: Ref, dim: Dim = None, *, correction: float = 1, keepdim: bool = False) -> Ref:
    """√var; where it is 0 its derivative is 0."""
    return safe_sqrt(var(x, dim, correction=correction, keepdim=keepdim))


def norm(x: Ref, p: float = 2.0, dim: Dim = None, *, keepdim: bool = False) -> Ref:
    """The p-norm over axes; where it is 0 its derivative is 0."""
    D, axes = x.builder, axes_of(dim, len(x.shape))
    if p == 1:
        found = D.sum(D.abs(x), axes=axes)
    elif p == math.inf:
        found = D.max(D.abs(x), axes=axes)
    else:
        powers = D.sum(x * x if p == 2 else D.abs(x) ** p, axes=axes)
        # Whether anything is there the numbers themselves say without rounding, which a sum of their powers does not.
        there = D.sum(D.cast(D.ne(x, x.constant(0.0)), to="real"), axes=axes) > 0.0
        some = where(there, powers, 1.0)
        found = where(there, D.sqrt(some) if p == 2 else some ** (1 / p), 0.0)
    return kept(found, x, axes, keepdim=keepdim)


def amax(x: Ref, dim: Dim = None, *, keepdim: bool = False) -> Ref:
    """max x; ties share the derivative."""
    axes = axes_of(dim, len(x.shape))
    return kept(x.builder.apply("max", x, axes=axes), x, axes, keepdim=keepdim)


def amin(x: Ref, dim: Dim = None, *, keepdim: bool = False) -> Ref:
    """min x; ties share the derivative."""
    axes = axes_of(dim, len(x.shape))
    return kept(x.builder.apply("min", x, axes=axes), x, axes, keepdim=keepdim)


def normalize(x: Ref, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Ref:
    """x/max(‖x‖, ε)."""
    return x / clamp(norm(x, p, dim, keepdim=True), lo=eps)


def cosine_similarity(x1: Ref, x2: Ref, dim: int = 1, eps: float = 1e-8) -> Ref:
    """⟨a, b⟩/(max(‖a‖, ε)·max(‖b‖, ε)); the derivative of the norms does not notice ε."""
    shape = broadcast_shapes(x1.shape, x2.shape)
    a, b = x1.broadcast_to(shape), x2.broadcast_to(shape)
    return total(_unit(a, dim, eps) * _unit(b, dim, eps), dim)


def _unit(x: Ref, dim: int, eps: float) -> Ref:
    length = norm(x, 2.0, dim, keepdim=True)
    lifted = x.builder.stop_gradient(clamp(length, lo=eps) - length)
    return x / (length + lifted)


REDUCE = (
    Composition("mean", "y = Σ x/n", mean),
    Composition("var", "y = Σ (x − mean)²/(n − correction)", var),
    Composition("std", "y = √(Σ (x − mean)²/(n − correction))", std),
    Composition("norm", "y = (Σ |x|ᵖ)^(1/p)", norm),
    Composition("amax", "y = max x; ties share the derivative", amax),
    Composition("amin", "y = min x; ties share the derivative", amin),
    Composition("normalize", "y = x/max(‖x‖, ε)", normalize),
    Composition("cosine_similarity", "y = ⟨a, b⟩/(max(‖a‖, ε)·max(‖b‖, ε))", cosine_similarity),
)

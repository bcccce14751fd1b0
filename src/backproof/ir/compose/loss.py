"""Losses of two values of one shape, element by element, and their reductions."""

from __future__ import annotations

import math
from typing import Literal

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.activation import logsigmoid, softplus
from backproof.ir.compose.choose import clamp, where
from backproof.ir.compose.record import Composition
from backproof.ir.compose.reduce import mean, total

Reduction = Literal["mean", "sum", "none"]

# PyTorch's guards of the binary cross-entropy: logarithms go no lower, and x·(1 − x) no nearer to 0 (1e-12, which its kernel
# holds in float32 whatever it computes in).
LOWEST_LOG = -100.0
NEAREST = 9.999999960041972e-13


def reduced(losses: Ref, reduction: str) -> Ref:
    """Their mean, their sum, or themselves."""
    if reduction not in ("mean", "sum", "none"):
        raise GraphError(f"reduction is {reduction!r}; there are 'mean', 'sum' and 'none'")
    return losses if reduction == "none" else mean(losses) if reduction == "mean" else total(losses)


def mse_loss(x: Ref, target: Ref, reduction: Reduction = "mean") -> Ref:
    """(x − t)²."""
    off = x - target
    return reduced(off * off, reduction)


def l1_loss(x: Ref, target: Ref, reduction: Reduction = "mean") -> Ref:
    """|x − t|."""
    return reduced(x.builder.abs(x - target), reduction)


def smooth_l1_loss(x: Ref, target: Ref, reduction: Reduction = "mean", beta: float = 1.0) -> Ref:
    """(x − t)²/2β within β of the target, else |x − t| − β/2."""
    if beta < 0:
        raise GraphError(f"smooth_l1_loss: beta is {beta}, and must not be negative")
    if beta == 0:
        return l1_loss(x, target, reduction)
    off = x - target
    far = x.builder.abs(off)
    return reduced(where(far < beta, 0.5 * off * off / beta, far - 0.5 * beta), reduction)


def huber_loss(x: Ref, target: Ref, reduction: Reduction = "mean", delta: float = 1.0) -> Ref:
    """(x − t)²/2 within δ of the target, else δ·(|x − t| − δ/2)."""
    if delta <= 0:
        raise GraphError(f"huber_loss: delta is {delta}, and must be positive")
    off = x - target
    far = x.builder.abs(off)
    return reduced(where(far < delta, 0.5 * off * off, delta * (far - 0.5 * delta)), reduction)


def bce_loss(x: Ref, target: Ref, weight: Ref | None = None, reduction: Reduction = "mean") -> Ref:
    """−t·ln x − (1 − t)·ln(1 − x), its logarithms no lower than −100; at the ends the slope is (x − t)/10⁻¹²."""
    D = x.builder
    edge = x * (1.0 - x) < NEAREST
    inner = where(edge, 0.5, x)
    smooth = -(target * D.log(inner)) - (1.0 - target) * D.log1p(-inner)
    fixed, still = D.stop_gradient(x), D.stop_gradient(target)
    # At an end: the value there, and, as a derivative in x, the slope that PyTorch gives it.
    low = where(fixed > 0.0, D.log(where(fixed > 0.0, fixed, 0.5)), LOWEST_LOG)
    high = where(fixed < 1.0, D.log1p(-where(fixed < 1.0, fixed, 0.5)), LOWEST_LOG)
    level = -(target * clamp(low, lo=LOWEST_LOG)) - (1.0 - target) * clamp(high, lo=LOWEST_LOG)
    slope = (fixed - still) / NEAREST
    losses = where(edge, level + slope * (x - fixed), smooth)
    return reduced(losses if weight is None else losses * weight, reduction)


def bce_with_logits_loss(
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    pos_weight: Ref | None = None,
    reduction: Reduction = "mean",
) -> Ref:
    """−p·t·ln σ(x) − (1 − t)·ln(1 − σ(x)), with weight p on what is true."""
    rises = softplus(x, threshold=None) - target * x
    falls = (1.0 - target) * x - logsigmoid(x)
    if pos_weight is not None:
        extra = (pos_weight - 1.0) * target * logsigmoid(x)
        rises, falls = rises - extra, falls - extra
    # The same number twice, for kernels compute it in one way and its slope, σ(x) − t, in the other: the value and its bound are
    # the second's, the derivatives the first's, and what lies between is 0 but for rounding.
    losses = rises + x.builder.stop_gradient(falls - rises)
    return reduced(losses if weight is None else losses * weight, reduction)


def kl_div(
    x: Ref,
    target: Ref,
    reduction: Literal["mean", "sum", "none", "batchmean"] = "mean",
    log_target: bool = False,
) -> Ref:
    """t·(ln t − x), where x is a logarithm, and t one too if `log_target` says so."""
    D = x.builder
    logs = target if log_target else D.log(where(target > 0.0, target, 1.0))
    losses = (D.exp(target) if log_target else target) * (logs - x)
    if reduction != "batchmean":
        return reduced(losses, reduction)
    return total(losses) / float(math.prod(losses.shape[:1]))


LOSS = (
    Composition("mse_loss", "(x − t)², mean or sum or none", mse_loss),
    Composition("l1_loss", "|x − t|, mean or sum or none", l1_loss),
    Composition("smooth_l1_loss", "(x − t)²/2β where |x − t| < β, else |x − t| − β/2", smooth_l1_loss),
    Composition("huber_loss", "(x − t)²/2 where |x − t| < δ, else δ·(|x − t| − δ/2)", huber_loss),
    Composition("bce_loss", "−w·(t·ln x + (1 − t)·ln(1 − x))", bce_loss),
    Composition("bce_with_logits_loss", "−w·(p·t·ln σ(x) + (1 − t)·ln(1 − σ(x)))", bce_with_logits_loss),
    Composition("kl_div", "t·(ln t − x), or eᵗ·(t − x)", kl_div),
)

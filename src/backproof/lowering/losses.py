"""Losses, with the parameters that the framework's functions take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.activation import logsigmoid
from backproof.ir.compose.loss import reduced
from backproof.ir.compose.reduce import mean, norm, total
from backproof.lowering.arithmetic import as_real
from backproof.lowering.lowering import Lowering

_choose = COMPOSITIONS["where"].function
LEAST_SQUARE = float(np.float32(1e-12))
"""What is added to squares of norms: a float32, whatever they are."""


def _only_new(size_average: Any, reduce: Any) -> None:
    if size_average is not None or reduce is not None:
        raise GraphError("size_average and reduce, which are deprecated, are not lowered; reduction says it")


def _met(x: Ref, target: Ref) -> tuple[Ref, Ref]:
    shape = broadcast_shapes(x.shape, target.shape)
    return as_real(x, x).broadcast_to(shape), as_real(target, x).broadcast_to(shape)


def _weighted(x: Ref, target: Ref, weight: Ref | None = None, reduction: str = "mean") -> Ref:
    off = x - target
    if weight is None:
        return reduced(off * off, reduction)
    squares = weight * (off * off)
    return (
        total(squares) / total(weight.broadcast_to(squares.shape))
        if reduction == "mean"
        else reduced(squares, reduction)
    )


def _mse(
    x: Ref,
    target: Ref,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Ref | None = None,
) -> Ref:
    _only_new(size_average, reduce)
    return _weighted(*_met(x, target), weight, reduction)


def _l1(
    x: Ref,
    target: Ref,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Ref | None = None,
) -> Ref:
    _only_new(size_average, reduce)
    if weight is not None:
        raise GraphError("l1_loss with a weight is not lowered")
    return COMPOSITIONS["l1_loss"].function(*_met(x, target), reduction)


def _huber(x: Ref, target: Ref, reduction: str = "mean", delta: float = 1.0, weight: Ref | None = None) -> Ref:
    if weight is not None:
        raise GraphError("huber_loss with a weight is not lowered")
    return COMPOSITIONS["huber_loss"].function(*_met(x, target), reduction, delta)


def _smooth_l1(
    x: Ref, target: Ref, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0
) -> Ref:
    _only_new(size_average, reduce)
    return COMPOSITIONS["smooth_l1_loss"].function(*_met(x, target), reduction, beta)


def _kl_div(
    x: Ref, target: Ref, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False
) -> Ref:
    _only_new(size_average, reduce)
    return COMPOSITIONS["kl_div"].function(*_met(x, target), reduction, log_target)


def _cross_entropy(
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Ref:
    _only_new(size_average, reduce)
    return COMPOSITIONS["cross_entropy"].function(x, target, weight, ignore_index, reduction, label_smoothing)


def _nll(
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Ref:
    _only_new(size_average, reduce)
    return COMPOSITIONS["nll_loss"].function(x, target, weight, ignore_index, reduction)


def _bce(
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Ref:
    _only_new(size_average, reduce)
    return COMPOSITIONS["bce_loss"].function(x, as_real(target, x), weight, reduction)


def _bce_with_logits(
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Ref | None = None,
) -> Ref:
    _only_new(size_average, reduce)
    return COMPOSITIONS["bce_with_logits_loss"].function(x, as_real(target, x), weight, pos_weight, reduction)


def _at_least(x: Ref, least: float) -> Ref:
    return _choose(x < least, least, x)


def _gaussian_nll(x: Ref, target: Ref, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> Ref:
    """(ln v + (x − t)²/v)/2 with v no less than ε, which its derivative does not notice."""
    if not isinstance(var, Ref):
        var = x.constant(float(var), ())
    if var.shape == x.shape[:-1] and var.shape != x.shape and x.shape:
        var = var.builder.reshape(var, shape=(*var.shape, 1))
    var = var + var.builder.stop_gradient(_at_least(var, eps) - var)
    off = x - target
    losses = 0.5 * (x.builder.log(var).broadcast_to(off.shape) + off * off / var)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)


def _poisson_nll(
    x: Ref,
    target: Ref,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Ref:
    _only_new(size_average, reduce)
    D, target = x.builder, as_real(target, x)
    losses = D.exp(x) - target * x if log_input else x - target * D.log(x + eps)
    if full:  # Stirling's approximation of ln t!
        large = _choose(target > 1.0, target, 2.0)
        stirling = large * D.log(large) - large + 0.5 * D.log((2 * math.pi) * large)
        losses = losses + _choose(target > 1.0, stirling, 0.0)
    return reduced(losses, reduction)


def _hinge_embedding(
    x: Ref, target: Ref, margin: float = 1.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Ref:
    _only_new(size_average, reduce)
    D = x.builder
    x, target = _met(x, target)
    apart = _choose(D.ne(target, target.constant(1.0)), _at_least(margin - x, 0.0), 0.0)
    near = _choose(D.ne(target, target.constant(-1.0)), x, 0.0)
    return reduced(apart + near, reduction)


def _margin_ranking(
    x1: Ref,
    x2: Ref,
    target: Ref,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Ref:
    _only_new(size_average, reduce)
    return reduced(_at_least(-as_real(target, x1) * (x1 - x2) + margin, 0.0), reduction)


def _soft_margin(x: Ref, target: Ref, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Ref:
    _only_new(size_average, reduce)
    x, target = _met(x, target)
    return reduced(x.builder.log1p(x.builder.exp(-target * x)), reduction)


def _multi_margin(
    x: Ref,
    target: Ref,
    p: float = 1,
    margin: float = 1.0,
    weight: Ref | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Ref:
    """Σ max(0, margin − x[t] + x[j])ᵖ/C over the other classes j."""
    _only_new(size_average, reduce)
    D, single = x.builder, len(x.shape) < 2
    if single:
        x, target = D.reshape(x, shape=(1, max(x.type.size, 1))), D.reshape(target, shape=(1,))
    right = D.reshape(target, shape=(target.shape[0], 1))
    own = D.gather_along(x, right, axis=1)
    over = margin - own + x
    positive = over > 0.0
    terms = _choose(positive, over if p == 1 else over * over, 0.0)
    if weight is not None:
        terms = terms * D.reshape(D.gather(weight, target, axis=0), shape=right.shape)
    others = D.ne(
        D.broadcast(target, shape=x.shape, axes=(0,)), D.broadcast(D.iota(size=x.shape[1]), shape=x.shape, axes=(1,))
    )
    losses = total(_choose(others, terms, 0.0), 1) / float(x.shape[1])
    found = reduced(losses, reduction)
    return D.reshape(found, shape=()) if single else found


def _multilabel_margin(
    x: Ref, target: Ref, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Ref:
    """Σ max(0, 1 − x[t] + x[j])/C over the labels t, which end at the first −1, and the classes j that are none."""
    _only_new(size_average, reduce)
    D, single = x.builder, len(x.shape) < 2
    if single:
        x, target = (D.reshape(y, shape=(1, max(y.type.size, 1))) for y in (x, target))
    ended = D.cumsum(D.cast(target < 0, to="real"), axis=1, reverse=False) > 0.0
    labels = D.where(ended, target.constant(-1), target)
    hits = D.scatter_along(labels, x.constant(1.0), axis=1, size=x.shape[1])
    own, (n, c) = D.gather_along(x, labels, axis=1), x.shape
    wide = (n, c, c)
    gaps = 1.0 - D.broadcast(own, shape=wide, axes=(0, 1)) + D.broadcast(x, shape=wide, axes=(0, 2))
    counted = D.logical_and(
        D.logical_not(D.broadcast(ended, shape=wide, axes=(0, 1))),
        D.logical_not(D.broadcast(hits > 0.0, shape=wide, axes=(0, 2))),
    )
    losses = total(_choose(D.logical_and(counted, gaps > 0.0), gaps, 0.0), (1, 2)) / float(c)
    found = reduced(losses, reduction)
    return D.reshape(found, shape=()) if single else found


def _multilabel_soft_margin(
    x: Ref,
    target: Ref,
    weight: Ref | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Ref:
    _only_new(size_average, reduce)
    x, target = _met(x, target)
    losses = -(target * logsigmoid(x) + (1.0 - target) * logsigmoid(-x))
    losses = losses if weight is None else losses * weight
    return reduced(mean(losses, len(losses.shape) - 1), reduction)


def _cosine_embedding(
    x1: Ref,
    x2: Ref,
    target: Ref,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Ref:
    """1 − cos for what belongs together, max(0, cos − margin) for what does not; squares of norms have LEAST_SQUARE added."""
    _only_new(size_average, reduce)
    D, target = x1.builder, as_real(target, x1)
    axis = len(x1.shape) - 1
    squares = (total(x1 * x1, axis) + LEAST_SQUARE) * (total(x2 * x2, axis) + LEAST_SQUARE)
    cosine = total(x1 * x2, axis) / D.sqrt(squares)
    near = _choose(D.eq(target, target.constant(1.0)).broadcast_to(cosine.shape), 1.0 - cosine, 0.0)
    far = _choose(D.eq(target, target.constant(-1.0)).broadcast_to(cosine.shape), _at_least(cosine - margin, 0.0), 0.0)
    return reduced(near + far, reduction)


def _pairwise_distance(x1: Ref, x2: Ref, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Ref:
    off = x1 - x2 + eps
    return norm(off, float(p), len(off.shape) - 1, keepdim=keepdim)


def _triplet_margin(
    anchor: Ref,
    positive: Ref,
    negative: Ref,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Ref:
    _only_new(size_average, reduce)
    near, far = _pairwise_distance(anchor, positive, p, eps), _pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.builder.minimum(far, _pairwise_distance(positive, negative, p, eps))
    return reduced(_at_least(margin + near - far, 0.0), reduction)


LOSSES = (
    Lowering("cross_entropy", _cross_entropy),
    Lowering("nll_loss", _nll),
    Lowering("mse_loss", _mse),
    Lowering("l1_loss", _l1),
    Lowering("huber_loss", _huber),
    Lowering("smooth_l1_loss", _smooth_l1),
    Lowering("kl_div", _kl_div, in_pieces=True),
    Lowering("binary_cross_entropy", _bce),
    Lowering("binary_cross_entropy_with_logits", _bce_with_logits),
    Lowering("gaussian_nll_loss", _gaussian_nll, in_pieces=True),
    Lowering("poisson_nll_loss", _poisson_nll, in_pieces=True),
    Lowering("hinge_embedding_loss", _hinge_embedding, in_pieces=True),
    Lowering("margin_ranking_loss", _margin_ranking, in_pieces=True),
    Lowering("soft_margin_loss", _soft_margin),
    Lowering("multi_margin_loss", _multi_margin),
    Lowering("multilabel_margin_loss", _multilabel_margin),
    Lowering("multilabel_soft_margin_loss", _multilabel_soft_margin, in_pieces=True),
    Lowering("cosine_embedding_loss", _cosine_embedding, in_pieces=True),
    Lowering("pairwise_distance", _pairwise_distance, in_pieces=True),
    Lowering("triplet_margin_loss", _triplet_margin, in_pieces=True),
)

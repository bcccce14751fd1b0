"""Layers and activations: each name is a composition of the same name, or nearly."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, matmul
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import axis_of
from backproof.ir.compose.reduce import norm
from backproof.ir.types import Type
from backproof.lowering.algebra import among
from backproof.lowering.arithmetic import as_real, sloped, truncated
from backproof.lowering.lowering import Lowering, moved
from backproof.lowering.reductions import vector_norm
from backproof.numerics import FORMATS

_choose = COMPOSITIONS["where"].function
ACTIVATIONS = (
    *("gelu", "silu", "mish", "softplus", "softsign", "tanhshrink", "glu", "logsigmoid", "leaky_relu", "prelu", "elu"),
    *("celu", "selu", "hardtanh", "relu6", "hardsigmoid", "hardswish", "softshrink", "hardshrink", "threshold"),
)


def _named(name: str) -> Callable[..., Ref]:
    """The composition of this name, without the last parameter that says how and not what: inplace."""
    function = COMPOSITIONS[name].function
    count = len(inspect.signature(function).parameters)

    def lower(*args: Any, inplace: bool = False, **kwargs: Any) -> Ref:
        del inplace
        return moved(function(*args[:count], **kwargs))

    return lower


def _linear(x: Ref, weight: Ref, bias: Ref | None = None, *, format: str = "float32") -> Ref:  # noqa: A002
    if len(weight.shape) == 1:  # one feature out, and no axis for it
        found = matmul(x, weight)
        return found if bias is None else found + bias
    bias = None if bias is None else among(bias, weight.shape[1], format)
    return moved(COMPOSITIONS["linear"].function(x, weight, bias))


def _conv(rank: int) -> Callable[..., Ref]:
    function = COMPOSITIONS[f"conv{rank}d"].function

    def lower(
        x: Ref,
        weight: Ref,
        bias: Ref | None = None,
        *args: Any,
        format: str = "float32",  # noqa: A002 # the format of the result
        **named: Any,
    ) -> Ref:
        bias = None if bias is None else among(bias, math.prod(weight.shape[1:]), format)
        return function(x, weight, bias, *args, **named)

    return lower


def _hardsigmoid(x: Ref, inplace: bool = False) -> Ref:
    """Its derivative is, in any format, what a sixth is in float32."""
    del inplace
    inside = x.builder.logical_and(x > -3.0, x < 3.0)
    return sloped(COMPOSITIONS["hardsigmoid"].function(x), (x, _choose(inside, _single(1.0 / 6.0), x.constant(0.0))))


def _celu(x: Ref, alpha: float = 1.0, inplace: bool = False) -> Ref:
    """Its derivative has, in any format, the inverse of what α is in float32."""
    del inplace
    rate, positive = 1.0 / _single(alpha), x > 0.0
    curve = x.builder.exp(_choose(positive, 0.0, x) * rate) * (alpha * rate)
    return sloped(COMPOSITIONS["celu"].function(x, alpha), (x, _choose(positive, 1.0, curve)))


def _single(value: float) -> float:
    return float(np.float32(value))


def _relu(x: Ref, inplace: bool = False) -> Ref:
    del inplace
    return x.builder.relu(x)


def _rrelu(
    x: Ref, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Ref:
    del inplace
    if training:
        raise NotImplementedError  # its slopes are drawn, and stay inside of the kernel
    return COMPOSITIONS["leaky_relu"].function(x, (lower + upper) / 2)


def _softmax(name: str, sign: float = 1.0) -> Callable[..., Ref]:
    def lower(x: Ref, dim: int | None = None, *given: Any, dtype: str | None = None, **_: Any) -> Ref:
        if dim is None:  # by old custom, axis 1, but of few axes the first
            dim = 0 if len(x.shape) in (0, 1, 3) else 1
        x = as_real(x, x)
        if "float32" in (dtype, *given):  # which what is wider is rounded to first
            x = x.builder.apply("cast", x, to="float32")
        return moved(COMPOSITIONS[name].function(x if sign > 0 else -x, dim))

    return lower


# ── normalisations ──────────────────────────────────────────────────────────────────────────────────────────────────


def _layer_norm(
    x: Ref, shape: Any, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5, *_: Any
) -> Ref:
    if 0 in x.shape:
        return moved(x)
    return COMPOSITIONS["layer_norm"].function(x, tuple(shape), weight, bias, eps)


def _rms_norm(
    x: Ref,
    shape: Any,
    weight: Ref | None = None,
    eps: float | None = None,
    *,
    format: str,  # noqa: A002 # the format of the result
) -> Ref:
    """Without an ε it is the distance from 1 to the next number of the format, of those that kernels compute in."""
    if eps is None:
        eps = 2.0 * FORMATS["float64" if format == "float64" else "float32"].unit
    if 0 in x.shape:
        return moved(x)
    return COMPOSITIONS["rms_norm"].function(x, tuple(shape), weight, eps)


def _batch_norm(
    x: Ref,
    running_mean: Ref | None,
    running_var: Ref | None,
    weight: Ref | None = None,
    bias: Ref | None = None,
    training: bool = False,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Ref:
    return COMPOSITIONS["batch_norm"].function(
        x, running_mean, running_var, weight, bias, training, momentum or 0.0, eps
    )


def _kernel_order(function: Callable[..., Ref]) -> Callable[..., Ref]:
    """The kernel's own function has the affine parameters before the statistics."""
    return lambda x, weight, bias, mean_of, var_of, *rest: function(x, mean_of, var_of, weight, bias, *rest)


def _instance_norm(
    x: Ref,
    running_mean: Ref | None = None,
    running_var: Ref | None = None,
    weight: Ref | None = None,
    bias: Ref | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Ref:
    return COMPOSITIONS["instance_norm"].function(
        x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _group_norm(
    x: Ref, groups: int, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5, *_: Any
) -> Ref:
    return moved(x) if 0 in x.shape else COMPOSITIONS["group_norm"].function(x, groups, weight, bias, eps)


def _local_response_norm(x: Ref, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Ref:
    """x/(k + α·(mean of the squares of `size` channels around))^β."""
    squares = x * x
    low, high = (0, size // 2) + (0,) * (len(x.shape) - 2), (0, (size - 1) // 2) + (0,) * (len(x.shape) - 2)
    grown = x.builder.pad(squares, low=low, high=high, interior=(0,) * len(low))
    around = grown[:, 0 : x.shape[1]]
    for i in range(1, size):
        around = around + grown[:, i : i + x.shape[1]]
    return x / (around / float(size) * alpha + k) ** beta


def _normalize(x: Ref, p: float = 2.0, dim: int = 1, eps: float = 1e-12, **_: Any) -> Ref:
    size = vector_norm(x, float(p), dim, keepdim=True)
    return moved(x / COMPOSITIONS["clamp"].function(size, eps))


def _weight_norm(v: Ref, g: Ref, dim: int = 0) -> Ref:
    """g·v/‖v‖, with a norm for each slice along an axis, or for all."""
    axes = (
        tuple(range(len(v.shape)))
        if dim == -1
        else tuple(a for a in range(len(v.shape)) if a != axis_of(dim, len(v.shape)))
    )
    return v * (g / norm(v, 2.0, axes, keepdim=True)) if axes else v * (g / v.builder.abs(v))


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _attention(
    query: Ref,
    key: Ref,
    value: Ref,
    attn_mask: Ref | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    dropout_mask: Ref | None = None,
) -> Ref:
    if dropout_p and dropout_mask is None:
        raise NotImplementedError  # the mask stays inside of the kernel
    if is_causal and attn_mask is not None:
        raise GraphError("attention with a mask and is_causal is not lowered")
    return COMPOSITIONS["attention"].function(
        query, key, value, attn_mask, dropout_mask, dropout_p, is_causal, scale, enable_gqa
    )


# ── whole numbers ───────────────────────────────────────────────────────────────────────────────────────────────────


def _one_hot(x: Ref, num_classes: int = -1, *, results: tuple[Type, ...]) -> Ref:
    """Without the number of classes it is one more than the largest, which the shape of the result says."""
    num_classes = results[0].shape[-1]
    shape = (*x.shape, num_classes)
    place = x.builder.broadcast(x.builder.iota(size=num_classes), shape=shape, axes=(len(x.shape),))
    return x.builder.cast(
        x.builder.eq(x.builder.broadcast(x, shape=shape, axes=tuple(range(len(x.shape)))), place), to="int"
    )


def _histogram(x: Ref, bins: int = 100, min: float = 0, max: float = 0) -> Ref:  # noqa: A002 # the framework's names
    """How many numbers lie in each of equal bins; the last holds its end."""
    if min == max:
        raise GraphError("a histogram over the range of its numbers is not lowered")
    D, flat = x.builder, as_real(x, x).builder.reshape(as_real(x, x), shape=(x.type.size,))
    place = D.cast(truncated((flat - float(min)) * (bins / (max - min))), to="int")
    last = D.where(place >= bins, place.constant(bins - 1), place)
    inside = D.logical_and(flat >= float(min), flat <= float(max))
    return D.scatter_add(D.where(inside, last, last.constant(-1)), flat.constant(1.0), axis=0, size=bins)


def _grouped_mm(a: Ref, b: Ref, *, offs: Ref | None = None, bias: Ref | None = None, out_dtype: Any = None) -> Ref:
    """Rows of a, by groups that end at `offs`, each group with its own matrix of b."""
    del out_dtype
    if offs is None or bias is not None or len(a.shape) != 2 or len(b.shape) != 3:
        raise GraphError("_grouped_mm is lowered for rows of a matrix and a matrix for each group")
    D, rows, groups = a.builder, a.shape[0], b.shape[0]
    ends, place = (
        D.broadcast(offs, shape=(rows, groups), axes=(1,)),
        D.broadcast(D.iota(size=rows), shape=(rows, groups), axes=(0,)),
    )
    group = D.sum(D.cast(ends <= place, to="real"), axes=(1,))
    found = matmul(a, b[0]).constant(0.0)
    for g in range(groups):
        mine = D.eq(group, group.constant(float(g)))
        found = D.where(D.broadcast(mine, shape=found.shape, axes=(0,)), matmul(a, b[g]), found)
    return found


def _dropout(x: Ref, p: float = 0.5, training: bool = True, inplace: bool = False) -> Ref:
    del inplace
    if training and p:
        raise NotImplementedError  # it takes a mask, which is recovered where it is verified
    return moved(x)


NETWORKS = (
    Lowering("linear", _linear, formatted=True),
    *(Lowering(f"conv{n}d", _conv(n), formatted=True) for n in (1, 2, 3)),
    *(Lowering(f"conv_transpose{n}d", COMPOSITIONS[f"conv_transpose{n}d"].function) for n in (1, 2, 3)),
    Lowering("layer_norm", _layer_norm),
    Lowering("rms_norm", _rms_norm, formatted=True, in_pieces=True),
    Lowering("group_norm", _group_norm),
    Lowering("batch_norm", _batch_norm),
    Lowering("torch_batch_norm", _kernel_order(_batch_norm)),
    Lowering("instance_norm", _instance_norm),
    Lowering("torch_instance_norm", _kernel_order(_instance_norm)),
    Lowering("local_response_norm", _local_response_norm, in_pieces=True),
    Lowering("normalize", _normalize, in_pieces=True),
    Lowering("cosine_similarity", COMPOSITIONS["cosine_similarity"].function, in_pieces=True),
    Lowering("_weight_norm", _weight_norm),
    Lowering("softmax", _softmax("softmax")),
    Lowering("softmin", _softmax("softmax", -1.0)),
    Lowering("log_softmax", _softmax("log_softmax")),
    Lowering("scaled_dot_product_attention", _attention),
    Lowering("relu", _relu),
    Lowering("rrelu", _rrelu),
    Lowering("celu", _celu),
    Lowering("hardsigmoid", _hardsigmoid),
    *(
        Lowering(name, _named(name), in_pieces=name in ("tanhshrink", "softsign"))
        for name in ACTIVATIONS
        if name not in ("celu", "hardsigmoid")
    ),
    *(
        Lowering(f"{name}dropout{rank}", _dropout)
        for name in ("", "alpha_", "feature_alpha_")
        for rank in ("", "1d", "2d", "3d")
        if not (name and rank)
    ),
    Lowering("one_hot", _one_hot, sized=True),
    Lowering("histc", _histogram),
    Lowering("_grouped_mm", _grouped_mm),
)

"""Layers, activations and losses: each name is a composition of the same name, or nearly."""

from __future__ import annotations

from typing import Any

from backproof.ir.build import Ref, matmul
from backproof.ir.compose import COMPOSITIONS
from backproof.lowering.lowering import Lowering


def _named(name: str, *dropped: str) -> Any:
    """The composition of this name, without parameters that say how and not what."""
    function = COMPOSITIONS[name].function

    def lower(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{key: value for key, value in kwargs.items() if key not in dropped})

    return lower


def _addmm(x: Ref, a: Ref, b: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    product = matmul(a, b)
    return (x if beta == 1 else x * float(beta)) + (product if alpha == 1 else product * float(alpha))


def _embedding(index: Ref, weight: Ref, padding_idx: int | None = None, *_: Any, **__: Any) -> Ref:
    return COMPOSITIONS["embedding"].function(index, weight, padding_idx)


def _softmax(name: str) -> Any:
    def lower(x: Ref, dim: int = -1, *_: Any, **__: Any) -> Ref:
        return COMPOSITIONS[name].function(x, dim)

    return lower


def _layer_norm(
    x: Ref, shape: Any, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5, *_: Any, **__: Any
) -> Ref:
    return COMPOSITIONS["layer_norm"].function(x, tuple(shape), weight, bias, eps)


def _batch_norm(
    x: Ref,
    running_mean: Ref | None,
    running_var: Ref | None,
    weight: Ref | None = None,
    bias: Ref | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *_: Any,
) -> Ref:
    return COMPOSITIONS["batch_norm"].function(
        x, running_mean, running_var, weight, bias, training, momentum or 0.0, eps
    )


def _attention(
    query: Ref,
    key: Ref,
    value: Ref,
    attn_mask: Ref | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Ref:
    if enable_gqa:
        repeat = query.shape[-3] // key.shape[-3]
        key, value = (_repeated(x, repeat) for x in (key, value))
    return COMPOSITIONS["attention"].function(query, key, value, attn_mask=attn_mask, is_causal=is_causal, scale=scale)


def _repeated(x: Ref, times: int) -> Ref:
    """Each head, `times` times in a row."""
    *lead, heads, length, size = x.shape
    split = x.builder.apply("reshape", x, shape=(*lead, heads, 1, length, size))
    return x.builder.apply(
        "reshape", split.broadcast_to((*lead, heads, times, length, size)), shape=(*lead, heads * times, length, size)
    )


def _relu(x: Ref, *_: Any, **__: Any) -> Ref:
    return x.builder.apply("relu", x)


def _loss(name: str) -> Any:
    function = COMPOSITIONS[name].function

    def lower(x: Ref, target: Ref, *args: Any, **kwargs: Any) -> Ref:
        kept = {key: value for key, value in kwargs.items() if key not in ("size_average", "reduce", "inplace")}
        return function(x, target, *args, **kept)

    return lower


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
    return COMPOSITIONS["nll_loss"].function(x, target, weight, ignore_index, reduction)


def _dropout(x: Ref, p: float = 0.5, training: bool = True, inplace: bool = False) -> Ref:
    if training and p:
        raise NotImplementedError  # it takes a mask, which is recovered where it is verified
    return x.builder.apply("reshape", x, shape=x.shape)


def _conv_transpose(x: Ref, weight: Ref, *args: Any, **kwargs: Any) -> Ref:
    return COMPOSITIONS["conv_transpose"].function(x, weight, *args, **kwargs)


def _max_pool(
    x: Ref, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, **_: Any
) -> Ref:
    return COMPOSITIONS["max_pool"].function(x, kernel_size, stride or None, padding, dilation, ceil_mode=ceil_mode)


def _avg_pool(
    x: Ref,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Ref:
    return COMPOSITIONS["avg_pool"].function(
        x,
        kernel_size,
        stride or None,
        padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
    )


NETWORKS = (
    Lowering("linear", _named("linear")),
    Lowering("matmul", matmul),
    Lowering("mm", matmul),
    Lowering("bmm", matmul),
    Lowering("rmatmul", lambda a, b: matmul(b, a)),
    Lowering("addmm", _addmm),
    Lowering("baddbmm", _addmm),
    Lowering("embedding", _embedding),
    *(Lowering(f"conv{n}d", _named("conv")) for n in (1, 2, 3)),
    *(Lowering(f"conv_transpose{n}d", _conv_transpose) for n in (1, 2, 3)),
    *(Lowering(f"max_pool{n}d", _max_pool) for n in (1, 2, 3)),
    *(Lowering(f"avg_pool{n}d", _avg_pool) for n in (1, 2, 3)),
    *(Lowering(f"adaptive_avg_pool{n}d", _named("adaptive_avg_pool")) for n in (1, 2, 3)),
    *(Lowering(f"adaptive_max_pool{n}d", _named("adaptive_max_pool")) for n in (1, 2, 3)),
    Lowering("layer_norm", _layer_norm),
    Lowering("rms_norm", _named("rms_norm")),
    Lowering("group_norm", _named("group_norm")),
    Lowering("batch_norm", _batch_norm),
    Lowering("softmax", _softmax("softmax")),
    Lowering("log_softmax", _softmax("log_softmax")),
    Lowering("scaled_dot_product_attention", _attention),
    Lowering("relu", _relu),
    *(
        Lowering(name, _named(name, "inplace"))
        for name in (
            *(
                "gelu",
                "silu",
                "mish",
                "softplus",
                "softsign",
                "tanhshrink",
                "glu",
                "logsigmoid",
                "leaky_relu",
                "prelu",
                "elu",
            ),
            *(
                "celu",
                "selu",
                "hardtanh",
                "relu6",
                "hardsigmoid",
                "hardswish",
                "softshrink",
                "hardshrink",
                "var",
                "std",
            ),
        )
    ),
    Lowering("dropout", _dropout),
    Lowering("cross_entropy", _cross_entropy),
    Lowering("nll_loss", _nll),
    *(Lowering(name, _loss(name)) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div")),
    Lowering("binary_cross_entropy", _loss("bce_loss")),
    Lowering("binary_cross_entropy_with_logits", _loss("bce_with_logits_loss")),
)

"""What Keras's layers are, as kinds of layers with their hyper-parameters, and how their variables lie as a kind has them.

A kind is a function of PyTorch's, and so are its parameters' names and layouts: a Dense kernel [in, out] is the weight [out, in] of
`linear`. Activations are left as they are: where their channels are last, the kind's `layout` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Told = tuple[str, dict[str, Any]]
UNTOLD: Told = "", {}


@dataclass(frozen=True)
class Call:
    """A layer that is called."""

    layer: Any
    shapes: tuple[tuple[int, ...], ...]
    """Of the arrays that it reads."""
    training: bool = False


ACTIVATIONS: dict[str, Told] = {
    "relu": ("relu", {}),
    "tanh": ("tanh", {}),
    "sigmoid": ("sigmoid", {}),
    "gelu": ("gelu", {}),
    "silu": ("silu", {}),
    "swish": ("silu", {}),
    "softmax": ("softmax", {"dim": -1}),
    "linear": ("identity", {}),
}
"""An activation's name → what it is as Keras calls it: with nothing said beside the array."""


def activation_of(layer: Any) -> tuple[str, Told] | None:
    """The activation that a layer ends with, a layer of its own then: its name and kind. None where there is none."""
    name = getattr(getattr(layer, "activation", None), "__name__", "linear")
    if name == "linear" or _known(layer) not in ("Dense", "Conv1D", "Conv2D", "Conv3D"):
        return None
    own = getattr(layer.activation, "__module__", "").startswith("keras.")
    return name, ACTIVATIONS.get(name, UNTOLD) if own else UNTOLD


def _layout(last: bool) -> dict[str, Any]:
    return {"layout": "channels_last"} if last else {}


def _space(call: Call) -> tuple[int, ...]:
    """The lengths of the axes that a window moves along."""
    shape = call.shapes[0]
    return shape[1:-1] if call.layer.data_format == "channels_last" else shape[2:]


def _ends(call: Call, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[list[int]] | None:
    """How many cells Keras adds before and behind each axis; None where it says so in a way that is not known."""
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if call.layer.padding == "valid":
        return [[0, 0] for _ in kernel]
    if call.layer.padding == "causal":
        return [[reach[0], 0]]
    if call.layer.padding != "same":
        return None
    needed = zip(_space(call), stride, reach, strict=True)
    more = [max((math.ceil(n / s) - 1) * s + r + 1 - n, 0) for n, s, r in needed]
    return [[n // 2, n - n // 2] for n in more]


def _conv(call: Call) -> Told:
    layer = call.layer
    stride, dilation = list(layer.strides), list(layer.dilation_rate)
    ends = _ends(call, layer.kernel_size, stride, dilation)
    if ends is None:
        return UNTOLD
    even = all(before == behind for before, behind in ends)
    return f"conv{layer.rank}d", {
        "stride": stride,
        "padding": [before for before, _ in ends] if even else [0] * layer.rank,
        "dilation": dilation,
        "groups": layer.groups,
        **_layout(layer.data_format == "channels_last"),
        **({} if even else {"pads": ends}),
    }


def _pool(kind: str) -> Callable[[Call], Told]:
    def told(call: Call) -> Told:
        layer = call.layer
        kernel, stride = list(layer.pool_size), list(layer.strides)
        ends = _ends(call, kernel, stride, [1] * len(kernel))
        if ends is None:
            return UNTOLD
        hyper = {"kernel_size": kernel, "stride": stride, **_layout(layer.data_format == "channels_last")}
        if all(before == behind for before, behind in ends):
            padding = [before for before, _ in ends]
        elif all(before == 0 for before, _ in ends):
            padding, hyper["ceil_mode"] = [0] * len(kernel), True  # windows that reach over the end, and no further
        else:
            return UNTOLD
        if any(padding):
            hyper |= {"padding": padding} | ({"count_include_pad": False} if kind == "avg_pool" else {})
        return f"{kind}{len(kernel)}d", hyper

    return told


def _mean(call: Call) -> Told:
    first = 1 if call.layer.data_format == "channels_last" else 2
    axes = list(range(first, first + len(_space(call))))
    return "mean", {"dim": axes, "keepdim": bool(call.layer.keepdims)}


def _channels_at(call: Call) -> bool | None:
    """Whether a layer's one axis of channels is the last, and not the first behind the batch; None where it is another."""
    axis, rank = call.layer.axis, len(call.shapes[0])
    axes = [axis] if isinstance(axis, int) else list(axis)
    at = {a % rank for a in axes}
    return {frozenset({1}): False, frozenset({rank - 1}): rank > 2}.get(frozenset(at))


def _batch_norm(call: Call) -> Told:
    """Of the batch's own statistics; those of the past are not seen in a step."""
    last = _channels_at(call)
    if last is None or not call.training or not call.layer.trainable:
        return UNTOLD
    return "batch_norm", {"training": True, "eps": call.layer.epsilon, **_layout(last)}


def _group_norm(call: Call) -> Told:
    last = _channels_at(call)
    if last is None:
        return UNTOLD
    channels = call.shapes[0][-1 if last else 1]
    groups = channels if call.layer.groups == -1 else call.layer.groups
    return "group_norm", {"num_groups": groups, "eps": call.layer.epsilon, **_layout(last)}


def _layer_norm(call: Call) -> Told:
    layer, shape = call.layer, call.shapes[0]
    axis = [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)
    axes = sorted(a % len(shape) for a in axis)
    if axes != list(range(len(shape) - len(axes), len(shape))) or getattr(layer, "rms_scaling", False):
        return UNTOLD
    return "layer_norm", {"normalized_shape": list(shape[axes[0] :]), "eps": layer.epsilon}


def _relu(call: Call) -> Told:
    layer = call.layer
    if layer.max_value is not None or layer.threshold:
        return UNTOLD
    return ("leaky_relu", {"negative_slope": float(layer.negative_slope)}) if layer.negative_slope else ("relu", {})


def _activation(call: Call) -> Told:
    return ACTIVATIONS.get(getattr(call.layer.activation, "__name__", ""), UNTOLD)


def _flatten(call: Call) -> Told:
    """With channels first Keras moves them to the end before it flattens."""
    return ("flatten", {"start_dim": 1}) if call.layer.data_format == "channels_last" else UNTOLD


KINDS: dict[str, Callable[[Call], Told]] = {
    "Dense": lambda call: ("linear", {}),
    "Conv1D": _conv,
    "Conv2D": _conv,
    "Conv3D": _conv,
    "MaxPooling1D": _pool("max_pool"),
    "MaxPooling2D": _pool("max_pool"),
    "MaxPooling3D": _pool("max_pool"),
    "AveragePooling1D": _pool("avg_pool"),
    "AveragePooling2D": _pool("avg_pool"),
    "AveragePooling3D": _pool("avg_pool"),
    "GlobalAveragePooling1D": _mean,
    "GlobalAveragePooling2D": _mean,
    "GlobalAveragePooling3D": _mean,
    "BatchNormalization": _batch_norm,
    "GroupNormalization": _group_norm,
    "LayerNormalization": _layer_norm,
    "ReLU": _relu,
    "LeakyReLU": lambda call: ("leaky_relu", {"negative_slope": float(call.layer.negative_slope)}),
    "ELU": lambda call: ("elu", {"alpha": float(call.layer.alpha)}),
    "Softmax": lambda call: ("softmax", {"dim": call.layer.axis}) if isinstance(call.layer.axis, int) else UNTOLD,
    "Activation": _activation,
    "Flatten": _flatten,
    "Embedding": lambda call: ("embedding", {}),
    "Identity": lambda call: ("identity", {}),
    "Add": lambda call: ("add", {}),
    "Multiply": lambda call: ("mul", {}),
    "Subtract": lambda call: ("sub", {}),
    "Concatenate": lambda call: ("cat", {"dim": call.layer.axis}),
}
"""A layer's class → what its instances are. Subclasses may do otherwise, and are not told."""


def told_of(call: Call) -> Told:
    """The kind of a layer of Keras's own. It adds any number of arrays, and the kind adds two."""
    name = _known(call.layer)
    if not call.shapes or (name in ("Add", "Multiply") and len(call.shapes) != 2):
        return UNTOLD
    return KINDS[name](call) if name else UNTOLD


def _known(layer: Any) -> str:
    """A layer's class where it is one of the table."""
    kind = type(layer)
    return kind.__name__ if kind.__name__ in KINDS and kind.__module__.startswith("keras.") else ""


NAMES = {"kernel": "weight", "gamma": "weight", "beta": "bias", "embeddings": "weight"}


def parameter_of(layer: Any, name: str, rank: int) -> tuple[str, tuple[int, ...] | None]:
    """A variable's name and the order of its axes, as the layer's kind has them; None where they stay."""
    kind = next(
        (
            base.__name__
            for base in type(layer).__mro__
            if base.__module__.startswith("keras.") and base.__name__ in KINDS
        ),
        "",
    )
    if name == "kernel" and kind == "Dense" and rank == 2:
        return "weight", (1, 0)
    if name == "kernel" and kind.startswith("Conv"):
        return "weight", (rank - 1, rank - 2, *range(rank - 2))
    return (NAMES.get(name, name) if kind else name), None


def told_of_loss(loss: Any) -> tuple[Told, float | str | None]:
    """A loss's kind, and what gradients are to be multiplied by: `mean` for the batch's size; None where nobody can tell."""
    scales: dict[str, float | str] = {"sum_over_batch_size": "mean", "mean": "mean", "sum": 1.0}
    scale = scales.get(getattr(loss, "reduction", None) or "")
    kind = type(loss).__name__
    if kind == "SparseCategoricalCrossentropy" and loss._fn_kwargs.get("from_logits"):  # noqa: SLF001 # Keras keeps it nowhere else
        return ("cross_entropy", {}), scale
    if kind == "MeanSquaredError":
        return ("mse_loss", {}), scale
    return UNTOLD, scale

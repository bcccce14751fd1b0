"""What Keras's layers are, as kinds of layers with their hyper-parameters, and how their variables lie as a kind has them.

A kind is a function of PyTorch's, and so are its parameters' names and layouts: a Dense kernel [in, out] is the weight [out, in] of
`linear`. Activations are left as they are: a convolution with channels last has no kind, and is compared, not derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Told = tuple[str, dict[str, Any]]
UNTOLD: Told = "", {}

ACTIVATIONS = {
    "relu": "relu",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "gelu": "gelu",
    "silu": "silu",
    "swish": "silu",
    "linear": "identity",
}


def _plain(layer: Any) -> bool:
    """Whether a layer has no activation of its own."""
    return getattr(getattr(layer, "activation", None), "__name__", "linear") == "linear"


def _dense(layer: Any) -> Told:
    return ("linear", {}) if _plain(layer) else UNTOLD


def _conv(layer: Any) -> Told:
    stride, dilation = layer.strides, layer.dilation_rate
    if layer.data_format != "channels_first" or not _plain(layer):
        return UNTOLD
    if layer.padding == "valid":
        padding = [0] * layer.rank
    elif layer.padding == "same" and all(s == 1 for s in stride) and all(k % 2 for k in layer.kernel_size):
        padding = [d * (k - 1) // 2 for k, d in zip(layer.kernel_size, dilation, strict=True)]
    else:
        return UNTOLD  # more on one side than on the other: no padding that the kind has
    return f"conv{layer.rank}d", {
        "stride": list(stride),
        "padding": padding,
        "dilation": list(dilation),
        "groups": layer.groups,
    }


def _pool(kind: str) -> Callable[[Any], Told]:
    def told(layer: Any) -> Told:
        if layer.data_format != "channels_first" or layer.padding != "valid":
            return UNTOLD
        rank = len(layer.pool_size)
        return f"{kind}{rank}d", {"kernel_size": list(layer.pool_size), "stride": list(layer.strides)}

    return told


def _layer_norm(layer: Any) -> Told:
    axis = [layer.axis] if isinstance(layer.axis, int) else list(layer.axis)
    shape = [int(n) for n in layer.gamma.shape] if getattr(layer, "gamma", None) is not None else []
    last = axis == list(range(-len(axis), 0)) or axis == list(range(axis[0], axis[0] + len(axis)))
    if not shape or layer.beta is None or not last or getattr(layer, "rms_scaling", False):
        return UNTOLD
    return "layer_norm", {"normalized_shape": shape, "eps": layer.epsilon}


def _relu(layer: Any) -> Told:
    if layer.max_value is not None or layer.threshold:
        return UNTOLD
    return ("leaky_relu", {"negative_slope": float(layer.negative_slope)}) if layer.negative_slope else ("relu", {})


def _activation(layer: Any) -> Told:
    kind = ACTIVATIONS.get(getattr(layer.activation, "__name__", ""))
    return (kind, {}) if kind else UNTOLD


def _flatten(layer: Any) -> Told:
    """With channels first Keras moves them to the end before it flattens."""
    return ("flatten", {"start_dim": 1}) if layer.data_format == "channels_last" else UNTOLD


KINDS: dict[str, Callable[[Any], Told]] = {
    "Dense": _dense,
    "Conv1D": _conv,
    "Conv2D": _conv,
    "Conv3D": _conv,
    "MaxPooling1D": _pool("max_pool"),
    "MaxPooling2D": _pool("max_pool"),
    "MaxPooling3D": _pool("max_pool"),
    "AveragePooling1D": _pool("avg_pool"),
    "AveragePooling2D": _pool("avg_pool"),
    "AveragePooling3D": _pool("avg_pool"),
    "LayerNormalization": _layer_norm,
    "ReLU": _relu,
    "LeakyReLU": lambda layer: ("leaky_relu", {"negative_slope": float(layer.negative_slope)}),
    "ELU": lambda layer: ("elu", {"alpha": float(layer.alpha)}),
    "Softmax": lambda layer: ("softmax", {"dim": layer.axis}) if isinstance(layer.axis, int) else UNTOLD,
    "Activation": _activation,
    "Flatten": _flatten,
    "Embedding": lambda layer: ("embedding", {}),
    "Identity": lambda layer: ("identity", {}),
    "Add": lambda layer: ("add", {}),
    "Multiply": lambda layer: ("mul", {}),
    "Subtract": lambda layer: ("sub", {}),
    "Concatenate": lambda layer: ("cat", {"dim": layer.axis}),
}
"""A layer's class → what its instances are. Subclasses may do otherwise, and are not told."""


def told_of(layer: Any, reads: int) -> Told:
    """The kind of a layer of Keras's own that reads so many arrays: Keras adds any number, and the kind adds two."""
    kind = type(layer)
    found = KINDS.get(kind.__name__) if kind.__module__.startswith("keras.") else None
    if found is None or (kind.__name__ in ("Add", "Multiply") and reads != 2):
        return UNTOLD
    return found(layer)


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

"""What PyTorch's modules and functions are, as kinds of layers with their hyper-parameters. Two tables; what is not in them has no kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

Told = tuple[str, dict[str, Any]]
"""A kind and its hyper-parameters; the empty kind says that the mathematics is not told."""

UNTOLD: Told = "", {}


def plain(value: Any) -> Any:
    """A hyper-parameter as JSON has it; None where it has no place there."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    return None


def _reads(kind: str, *names: str) -> Callable[[Any], Told]:
    """A kind whose hyper-parameters are attributes of the module, under the same names."""
    return lambda module: (kind, {name: plain(getattr(module, name)) for name in names})


def _conv(kind: str, *more: str) -> Callable[[Any], Told]:
    told = _reads(kind, "stride", "padding", "dilation", "groups", *more)
    return lambda module: told(module) if module.padding_mode == "zeros" else UNTOLD


def _batch_norm(module: Any) -> Told:
    """Of the batch's own statistics; those of the past are not seen in a step."""
    own = module.training or module.running_mean is None
    return ("batch_norm", {"training": True, "eps": module.eps}) if own else UNTOLD


def _dropout(module: Any) -> Told:
    return ("dropout", {"p": module.p, "training": False}) if not module.training or module.p == 0 else UNTOLD


def _embedding(module: Any) -> Told:
    return ("embedding", {}) if module.max_norm is None and not module.scale_grad_by_freq else UNTOLD


def _max_pool(kind: str) -> Callable[[Any], Told]:
    told = _reads(kind, "kernel_size", "stride", "padding", "dilation", "ceil_mode")
    return lambda module: UNTOLD if module.return_indices else told(module)


MODULES: dict[type[nn.Module], Callable[[Any], Told]] = {
    nn.Linear: _reads("linear"),
    nn.Embedding: _embedding,
    nn.Conv1d: _conv("conv1d"),
    nn.Conv2d: _conv("conv2d"),
    nn.Conv3d: _conv("conv3d"),
    nn.ConvTranspose1d: _conv("conv_transpose1d", "output_padding"),
    nn.ConvTranspose2d: _conv("conv_transpose2d", "output_padding"),
    nn.ConvTranspose3d: _conv("conv_transpose3d", "output_padding"),
    nn.LayerNorm: _reads("layer_norm", "normalized_shape", "eps"),
    nn.RMSNorm: _reads("rms_norm", "normalized_shape", "eps"),
    nn.GroupNorm: _reads("group_norm", "num_groups", "eps"),
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.BatchNorm3d: _batch_norm,
    nn.MaxPool1d: _max_pool("max_pool1d"),
    nn.MaxPool2d: _max_pool("max_pool2d"),
    nn.MaxPool3d: _max_pool("max_pool3d"),
    nn.AvgPool1d: _reads("avg_pool1d", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
    nn.AvgPool2d: _reads("avg_pool2d", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
    nn.AvgPool3d: _reads("avg_pool3d", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"),
    nn.AdaptiveAvgPool1d: _reads("adaptive_avg_pool1d", "output_size"),
    nn.AdaptiveAvgPool2d: _reads("adaptive_avg_pool2d", "output_size"),
    nn.AdaptiveAvgPool3d: _reads("adaptive_avg_pool3d", "output_size"),
    nn.ReLU: _reads("relu"),
    nn.ReLU6: _reads("relu6"),
    nn.GELU: _reads("gelu", "approximate"),
    nn.SiLU: _reads("silu"),
    nn.Mish: _reads("mish"),
    nn.Tanh: _reads("tanh"),
    nn.Sigmoid: _reads("sigmoid"),
    nn.Hardswish: _reads("hardswish"),
    nn.Hardsigmoid: _reads("hardsigmoid"),
    nn.LogSigmoid: _reads("logsigmoid"),
    nn.SELU: _reads("selu"),
    nn.Softsign: _reads("softsign"),
    nn.LeakyReLU: _reads("leaky_relu", "negative_slope"),
    nn.ELU: _reads("elu", "alpha"),
    nn.CELU: _reads("celu", "alpha"),
    nn.Hardtanh: _reads("hardtanh", "min_val", "max_val"),
    nn.Softplus: _reads("softplus", "beta", "threshold"),
    nn.PReLU: _reads("prelu"),
    nn.Softmax: lambda module: ("softmax", {"dim": module.dim}) if module.dim is not None else UNTOLD,
    nn.LogSoftmax: lambda module: ("log_softmax", {"dim": module.dim}) if module.dim is not None else UNTOLD,
    nn.Flatten: _reads("flatten", "start_dim", "end_dim"),
    nn.Dropout: _dropout,
    nn.Identity: _reads("identity"),
}
"""A module's class → what its instances are. Subclasses may do otherwise, and are not told."""


def told_of(module: nn.Module) -> Told:
    """The kind of a module."""
    found = MODULES.get(type(module))
    return found(module) if found else UNTOLD


_POOL = ("kernel_size", "stride", "padding")
FUNCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        "relu relu6 silu mish tanh sigmoid hardswish hardsigmoid logsigmoid selu softsign tanhshrink".split(), ()
    ),
    **dict.fromkeys("add sub mul div matmul bmm maximum minimum exp log sqrt identity contiguous".split(), ()),
    "gelu": ("approximate",),
    "leaky_relu": ("negative_slope",),
    "elu": ("alpha",),
    "hardtanh": ("min_val", "max_val"),
    "softplus": ("beta", "threshold"),
    "softmax": ("dim",),
    "log_softmax": ("dim",),
    "flatten": ("start_dim", "end_dim"),
    "transpose": ("dim0", "dim1"),
    "unsqueeze": ("dim",),
    "squeeze": ("dim",),
    "mean": ("dim", "keepdim"),
    "sum": ("dim", "keepdim"),
    "cat": ("dim",),
    "stack": ("dim",),
    **{f"max_pool{n}d": (*_POOL, "dilation", "ceil_mode") for n in (1, 2, 3)},
    **{f"avg_pool{n}d": (*_POOL, "ceil_mode", "count_include_pad") for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": ("output_size",) for n in (1, 2, 3)},
    "scaled_dot_product_attention": (),
}
"""A function's canonical name → the names of its arguments behind the tensors, in order."""

HOW = {"inplace", "_stacklevel", "return_indices", "memory_format"}
"""Arguments that say how, and not what; return_indices only where it is false, for then a single tensor comes back."""


ACROSS = {"mean", "sum", "softmax", "log_softmax", "cat", "stack", "squeeze", "unsqueeze", "transpose"}
"""Functions along axes. What works along the first mixes the samples of a batch, and is told of none of them alone."""


def told_of_call(name: str, rest: Sequence[Any], given: dict[str, Any], axes: int) -> Told:
    """The kind of a call by its arguments behind the tensors; none where an argument has no place in the tables."""
    names = FUNCTIONS.get(name)
    if names is None or len(rest) > len(names):
        return UNTOLD
    hyper = {**dict(zip(names, rest, strict=False)), **{key: item for key, item in given.items() if key not in HOW}}
    found = {key: plain(item) for key, item in hyper.items() if item is not None}
    if any(key not in names for key in found) or None in found.values():
        return UNTOLD
    if name in ACROSS:
        along = [found[key] for key in names if key.startswith("dim") and key in found]
        flat = [n for one in along for n in (one if isinstance(one, list) else [one])]
        if not flat or any(n in (0, -axes) for n in flat):
            return UNTOLD
    return name, found


LOSSES = {
    "cross_entropy",
    "nll_loss",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
}
"""Functions that are losses: what they read first is what they judge, then what it should be."""

LOSS_HYPER = {"label_smoothing": 0.0, "ignore_index": -100, "delta": 1.0, "beta": 1.0, "log_target": False}
"""What a loss is told beside its tensors and its reduction, and what it is where nothing is told."""


def told_of_loss(name: str, given: dict[str, Any]) -> Told:
    """A loss's kind; none where it weighs classes, for weights are tensors and no hyper-parameters."""
    rest = {
        key: item
        for key, item in given.items()
        if item is not None and key not in ("reduction", "size_average", "reduce")
    }
    if set(rest) - set(LOSS_HYPER):
        return UNTOLD
    return name, {key: plain(item) for key, item in rest.items() if item != LOSS_HYPER[key]}

"""What a lowering is, and the one name of a function that has many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Lowering:
    """A function by its canonical name, and its mathematics as a function of references, with the framework's parameters."""

    name: str
    function: Callable[..., Any]
    sized: bool = False
    """Whether the shape of its result depends on numbers: it is then given `results`, the types that were recorded."""
    formatted: bool = False
    """Whether it depends on the format of its result, which it is then given as `format`."""
    witnessed: bool = False
    """Whether it is given `seen`, its results as they were recorded: to tell which of equals was taken, where that is left open, or
    because a result is computed, and differentiated, from another."""
    in_pieces: bool = False
    """Whether the framework differentiates it in pieces: what comes back to an operand along several ways is then added up one by one,
    and what comes from other readers in between."""


def moved(x: Any, *_: Any, **__: Any) -> Any:
    """The same numbers, as another value."""
    return x.builder.apply("reshape", x, shape=x.shape)


# Operators and older names, by the function they are.
_SAME = {
    "__add__": "add",
    "__radd__": "add",
    "__iadd__": "add_",
    "__sub__": "sub",
    "__rsub__": "rsub",
    "__isub__": "sub_",
    "subtract": "sub",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__imul__": "mul_",
    "multiply": "mul",
    "__truediv__": "div",
    "__rtruediv__": "rdiv",
    "__itruediv__": "div_",
    "true_divide": "div",
    "divide": "div",
    "__pow__": "pow",
    "__ipow__": "pow_",
    "__imod__": "remainder_",
    "__ifloordiv__": "floor_divide_",
    "__rpow__": "rpow",
    "__neg__": "neg",
    "negative": "neg",
    "__matmul__": "matmul",
    "__rmatmul__": "rmatmul",
    "__getitem__": "getitem",
    "__setitem__": "setitem_",
    "__abs__": "abs",
    "absolute": "abs",
    "__gt__": "gt",
    "__lt__": "lt",
    "__ge__": "ge",
    "__le__": "le",
    "__eq__": "eq",
    "__ne__": "ne",
    "__invert__": "bitwise_not",
    "__and__": "bitwise_and",
    "argwhere": "nonzero",
    "_is_all_true": "all",
    "_is_any_true": "any",
    "spmm": "mm",  # one function under two names; this one is found first
    "concat": "cat",
    "concatenate": "cat",
    "special_expit": "sigmoid",
    "expit": "sigmoid",
    "adjoint": "mT",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "type_as": "to",
    "arctan": "atan",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "special_exp2": "exp2",
    "special_expm1": "expm1",
    "special_log1p": "log1p",
    "special_logit": "logit",
    "special_xlogy": "xlogy",
    "special_xlog1py": "xlog1py",
    "special_entr": "entr",
    "special_softmax": "softmax",
    "special_log_softmax": "log_softmax",
    "special_logsumexp": "logsumexp",
    "special_round": "round",
    "special_sinc": "sinc",
    "row_stack": "vstack",
    "split_with_sizes": "split",
    "select_copy": "select",
    "max_pool1d_with_indices": "max_pool1d",
    "max_pool2d_with_indices": "max_pool2d",
    "max_pool3d_with_indices": "max_pool3d",
    "unsafe_split": "split",
    "unsafe_split_with_sizes": "split",
    "unsafe_chunk": "chunk",
    "linalg_vector_norm": "vector_norm",
    "linalg_vecdot": "vecdot",
    "linalg_multi_dot": "multi_dot",
    "upsample": "interpolate",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "clip": "clamp",
    "fix": "trunc",
    "sgn": "sign",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__ror__": "bitwise_or",
    "__rand__": "bitwise_and",
    "__rxor__": "bitwise_xor",
    "__ior__": "bitwise_or_",
    "__iand__": "bitwise_and_",
    "__floordiv__": "floor_divide",
    "__rfloordiv__": "rfloordiv",
    "__mod__": "remainder",
}


# Functions that share their last name with another that takes other arguments, by their whole name.
_APART = {
    "torch.Tensor.where": "tensor_where",
    "torch.nn.functional.unfold": "im2col",
    "torch.nn.functional.fold": "col2im",
    "torch.linalg.norm": "linalg_norm",
    "torch.linalg.cross": "linalg_cross",
    "torch.linalg.diagonal": "linalg_diagonal",
    "torch.batch_norm": "torch_batch_norm",
    "torch.instance_norm": "torch_instance_norm",
    "torch.embedding": "torch_embedding",
    "torch.embedding_bag": "torch_embedding_bag",
    "torch.kl_div": "torch_kl_div",
    "torch.binary_cross_entropy_with_logits": "torch_binary_cross_entropy_with_logits",
}


def canonical(name: str) -> str:
    """`torch.Tensor.__radd__` is `radd`, `torch.nn.functional.linear` is `linear`, `torch.Tensor.T.__get__` is `T`."""
    if name in _APART:
        return _APART[name]
    parts = [part for part in name.split(".") if part not in ("__get__", "default")]
    last = parts[-1]
    return _SAME.get(last, last)

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


# Operators and older names, by the function they are.
_SAME = {
    "__add__": "add",
    "__radd__": "radd",
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
    "__invert__": "logical_not",
    "__and__": "logical_and",
    "__or__": "logical_or",
    "concat": "cat",
    "concatenate": "cat",
    "special_expit": "sigmoid",
    "expit": "sigmoid",
    "adjoint": "mT",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "type_as": "to",
    "special_erf": "erf",
    "clip": "clamp",
}


def canonical(name: str) -> str:
    """`torch.Tensor.__radd__` is `radd`, `torch.nn.functional.linear` is `linear`, `torch.Tensor.T.__get__` is `T`."""
    parts = [part for part in name.split(".") if part not in ("__get__", "default")]
    last = parts[-1]
    return _SAME.get(last, last)

"""Arguments of a call as plain data, and tensors as bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

DTYPES = {
    torch.float64: ("float64", "F64"),
    torch.float32: ("float32", "F32"),
    torch.float16: ("float16", "F16"),
    torch.bfloat16: ("bfloat16", "BF16"),
    torch.int64: ("int64", "I64"),
    torch.int32: ("int32", "I32"),
    torch.int16: ("int16", "I16"),
    torch.int8: ("int8", "I8"),
    torch.uint8: ("uint8", "U8"),
    torch.bool: ("bool", "BOOL"),
}


PAIRS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
"""The formats of complex numbers, and of their parts."""
MARKS = {"value", "float", "tuple", "slice", "ellipsis", "opaque", "lies"}
"""What says, as the one key of an object, what it stands for; a dictionary of the user's has none of these keys."""


def dtype_name(dtype: torch.dtype) -> str:
    """`float32` for torch.float32."""
    return DTYPES[dtype][0] if dtype in DTYPES else str(dtype).removeprefix("torch.")


def encode(value: Any, tensor: Callable[[torch.Tensor], int]) -> Any:
    """An argument as JSON; tensors by the number that `tensor` gives them."""
    if isinstance(value, torch.Tensor):
        return {"value": tensor(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (torch.Size, list)):
        return [encode(item, tensor) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item, tensor) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) and key not in MARKS for key in value):
        return {key: encode(item, tensor) for key, item in value.items()}
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, slice):
        return {"slice": [encode(item, tensor) for item in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    return encode(value.item(), tensor) if isinstance(value, np.generic) else {"opaque": _named(value)}


def _named(value: Any) -> str:
    """What is no data, by its kind: what it would say of itself may be long, or be asked before it is whole."""
    says_itself = isinstance(value, (torch.device, torch.layout, torch.memory_format))
    return f"{type(value).__name__} {value}" if says_itself else type(value).__name__


def is_abstract(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a shape and no numbers."""
    return isinstance(tensor, FakeTensor)


def has_numbers(tensor: torch.Tensor) -> bool:
    """Whether a tensor's numbers can be written as they are: not those of quantized formats, and of nested tensors."""
    return not is_abstract(tensor) and tensor.dtype in DTYPES and not tensor.is_nested


def is_written(tensor: torch.Tensor) -> bool:
    """Whether they can be, as they are or in pairs."""
    return has_numbers(tensor) or (tensor.dtype in PAIRS and not is_abstract(tensor))


def numbers_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as what is written of it: complex numbers are pairs of reals, along one more axis."""
    held = tensor.detach()
    return torch.view_as_real(held.resolve_conj()) if tensor.dtype in PAIRS else held


def form_of(tensor: torch.Tensor) -> tuple[str, tuple[int, ...]]:
    """The format and the shape of that."""
    if tensor.dtype in PAIRS:
        return dtype_name(PAIRS[tensor.dtype]), (*tensor.shape, 2)
    if tensor.is_nested:  # its rows have lengths of their own
        return dtype_name(tensor.dtype), (0,)
    return dtype_name(tensor.dtype), tuple(tensor.shape)


def maker_of(tensor: torch.Tensor) -> Any:
    """What made a tensor, for the backward pass; nothing for a leaf.

    A view that was made without gradients can no longer be asked, once what it looks at was written to. It has none.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def tensors_in(value: Any) -> list[torch.Tensor]:
    """All tensors in a nested structure, in order."""
    found: list[torch.Tensor] = []
    _collect(value, found)
    return found


def _collect(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found)


def in_full(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with all its zeros. Entries of a sparse one that lie in one place are added up as the framework does it."""
    if tensor.layout is torch.strided:
        return tensor
    return (tensor.coalesce() if tensor.layout is torch.sparse_coo else tensor).to_dense()


def stored(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], memoryview]:
    """A tensor for the safetensors writer; without a copy where it is contiguous and on the CPU. A sparse one is written in full."""
    flat = in_full(tensor.detach()).cpu().contiguous()
    code = DTYPES[flat.dtype][1]
    if not flat.numel():
        return code, tuple(tensor.shape), memoryview(b"")
    raw = flat.view(torch.int16) if flat.dtype is torch.bfloat16 else flat
    # The stride of an axis of one element says nothing, but would keep it from being seen as bytes.
    line = raw.as_strided((raw.numel(),), (1,))
    return code, tuple(tensor.shape), line.view(torch.uint8).numpy().data

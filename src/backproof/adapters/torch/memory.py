"""The tensors of an observed step, read where they are: the same as from a folder, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from backproof.adapters.torch.encode import stored
from backproof.errors import InputError
from backproof.trace.safetensors import DTYPES


class InMemory(Mapping[str, np.ndarray[Any, Any]]):
    """Tensors by name, as arrays; bfloat16 as float32, which holds it exactly."""

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.tensors = tensors
        self.changed: dict[str, str] = {}

    def __contains__(self, name: object) -> bool:
        return name in self.tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def _tensor(self, name: str) -> torch.Tensor:
        if name not in self.tensors:
            raise InputError(f"there is no tensor {name!r} in this step")
        return self.tensors[name]

    def dtype(self, name: str) -> str:
        """The format of a tensor, as the files say it."""
        return stored(self._tensor(name))[0]

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape."""
        return tuple(self._tensor(name).shape)

    def raw(self, name: str) -> memoryview:
        """A tensor's bytes."""
        return stored(self._tensor(name))[2]

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        code, shape, raw = stored(self._tensor(name))
        found = np.frombuffer(raw, dtype=DTYPES[code]).reshape(shape)
        return (found.astype(np.uint32) << 16).view(np.float32) if code == "BF16" else found

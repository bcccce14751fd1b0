"""Numbers as part of a graph: an immutable tensor that can be hashed, compared and written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.types import Shape

_DTYPES = {"real": np.float64, "int": np.int64, "bool": np.bool_}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A constant's numbers: kind, shape, and the elements in row-major order."""

    kind: str
    shape: Shape
    data: bytes

    @classmethod
    def of(cls, value: Any) -> Tensor:
        """The tensor that holds these numbers."""
        array = np.asarray(value)
        kind = {"f": "real", "i": "int", "u": "int", "b": "bool"}.get(array.dtype.kind)
        if kind is None:
            sort = type(value).__name__ if array.dtype.kind == "O" else array.dtype
            raise GraphError(f"a constant is made of numbers or truth values, not of {sort}")
        exact: np.ndarray[Any, Any] = np.ascontiguousarray(array, dtype=_DTYPES[kind])
        return cls(kind, tuple(int(size) for size in array.shape), exact.tobytes())

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The numbers, read only."""
        return np.frombuffer(self.data, dtype=_DTYPES[self.kind]).reshape(self.shape)

    def __repr__(self) -> str:
        return f"Tensor({self.kind}[{','.join(map(str, self.shape))}])"

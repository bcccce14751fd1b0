"""What a session's leaves come from: parameters, and places for natural numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.errors import SessionError
from backproof.ir.build import Ref
from backproof.ir.types import Type


class Parameter:
    """A mutable tensor outside of any graph. `Session.use` records its present value as a leaf."""

    def __init__(self, value: Any, name: str, *, requires_grad: bool, domain: str) -> None:
        self.value = value
        self.name = name
        self.requires_grad = requires_grad
        self.domain = domain

    def __repr__(self) -> str:
        return f"Parameter({self.name or 'unnamed'}, shape {list(np.shape(self.value))})"


@dataclass(frozen=True, slots=True, eq=False)  # a place is itself alone
class Nat:
    """A place in the session's natural numbers: where it starts, and how many it holds (None: a single number)."""

    start: int
    length: int | None
    ref: Ref


def natural(value: Any) -> int:
    """A natural number, or an error."""
    whole = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not whole or not 0 <= value < 2**63 or int(value) != value:
        raise SessionError(f"expected a natural number below 2^63, got {value!r}")
    return int(value)


def naturals(values: Any) -> list[int]:
    """A vector of natural numbers, or an error."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise SessionError("expected a vector of natural numbers, got rows of different lengths") from None
    if given.ndim != 1:
        raise SessionError(f"expected a vector of natural numbers, got {type(values).__name__} of {given.ndim} axes")
    return [natural(value) for value in given.tolist()]


def nat_type(length: int | None) -> Type:
    """The type of a place that holds so many naturals, or (None) a single one."""
    return Type("int", () if length is None else (length,))

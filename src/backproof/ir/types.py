"""The type of a value: a kind and a static shape."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, get_args

from backproof.errors import GraphError

Kind = Literal["real", "int", "bool"]
Shape = tuple[int, ...]
KINDS: tuple[str, ...] = get_args(Kind)
MOST_AXES = 32


@dataclass(frozen=True, slots=True)
class Type:
    """`real[2,3]`: what a value is made of, and its shape. Only reals have derivatives."""

    kind: Kind
    shape: Shape

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise GraphError(f"unknown kind {self.kind!r}; there are {', '.join(KINDS)}")
        if any(not isinstance(size, int) or isinstance(size, bool) or size < 0 for size in self.shape):
            raise GraphError(f"a shape is made of whole numbers from 0 on, not {self.shape!r}")
        if len(self.shape) > MOST_AXES or math.prod(max(size, 1) for size in self.shape) >= 2**63:
            raise GraphError(
                f"a value has at most {MOST_AXES} axes and 2⁶³ − 1 numbers; this is larger: {str(self.shape)[:60]}"
            )

    def __str__(self) -> str:
        return f"{self.kind}[{','.join(map(str, self.shape))}]"

    @property
    def size(self) -> int:
        """How many numbers a value of this type holds."""
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        """How many axes a value of this type has."""
        return len(self.shape)

    @classmethod
    def parse(cls, text: str) -> Type:
        """The type that `str` wrote."""
        match = re.fullmatch(r"(real|int|bool)\[((?:[0-9]{1,19}(?:,[0-9]{1,19})*)?)\]", text)
        if match is None:
            raise GraphError(f"not a type: {text[:60]!r}; one looks like real[2,3] or int[]")
        kind, sizes = match.groups()
        return cls(kind, tuple(int(size) for size in sizes.split(",") if size))  # type: ignore[arg-type] # the pattern admits only kinds


def real(*shape: int) -> Type:
    """The type of real tensors of this shape."""
    return Type("real", shape)


def integer(*shape: int) -> Type:
    """The type of integer tensors of this shape."""
    return Type("int", shape)


def boolean(*shape: int) -> Type:
    """The type of truth-value tensors of this shape."""
    return Type("bool", shape)

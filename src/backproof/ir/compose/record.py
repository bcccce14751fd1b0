"""What a composition is: a name, its mathematics, and a function that writes it into a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Composition:
    """A function of values of a graph, made of primitives."""

    name: str
    says: str
    """Its mathematics, in one line."""
    function: Callable[..., Any]
    """It takes and gives references of one graph; names and conventions are PyTorch's."""

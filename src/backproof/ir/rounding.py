"""How much a primitive rounds: four kinds of error analysis, each a record that the bounded domain interprets.

The analyses hold for any order of summation and for fused multiply-add; see TRUST.md for what they assume of a framework's
elementary functions (the `ulps` of each).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Moves:
    """No rounding at all: errors are moved about as the values are (reshape, gather, concat ...)."""


@dataclass(frozen=True)
class Rounds:
    """An elementwise function whose result is rounded once, or is within `ulps` units of roundoff.

    `spread(np, x, e, y)` bounds |f(x̂) − f(x)| for all |x̂ᵢ − xᵢ| ≤ eᵢ.
    """

    spread: Callable[..., Any]
    ulps: float = 1.0
    absolute: float = 0.0
    """Units of roundoff by which a result is off besides, whatever its size: for functions that libraries approximate to a fixed
    error where speed counts. In float64 they are computed exactly enough."""


@dataclass(frozen=True)
class Sums:
    """A sum, or a sum of products: the error is γ of the roundings that one term meets, times the sum of the magnitudes.

    `roundings(*x, **params)` is how many roundings a term may meet, in the worst order: n − 1 for a sum of n, n for n products.
    """

    roundings: Callable[..., int]
    some: Callable[..., tuple[Any, ...]] | None = None
    """`some(part, *x, **params)`: where the operands have one of `part` of the terms; their sizes never add up to more than all do."""


@dataclass(frozen=True)
class Decides:
    """A decision: exact while every margin exceeds the error of what is compared, and otherwise in doubt."""


@dataclass(frozen=True)
class Special:
    """An analysis of its own, written in the bounded domain under the primitive's name."""


Rounding = Moves | Rounds | Sums | Decides | Special

"""How numbers are rounded, and when two agree: floating formats, units in the last place, and the classical error factors.

Compares, never computes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from backproof.errors import UsageError

Reals = NDArray[np.float64]
NOT_COMPARABLE = int(np.iinfo(np.int64).max)
NOWHERE = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Format:
    """A binary floating format, rounded to nearest, ties to even, with subnormal numbers."""

    name: str
    precision: int
    """Bits of the significand, the hidden one included."""
    least_exponent: int
    """The exponent of the smallest normal number."""
    largest: float
    """The largest finite number."""
    infinity: bool = True
    """Whether what is too large becomes infinity (else: not a number)."""

    @cached_property
    def unit(self) -> float:
        """The unit roundoff u: |round(x) − x| ≤ u·|x| for normal x."""
        return math.ldexp(1.0, -self.precision)

    @cached_property
    def tiniest(self) -> float:
        """The smallest positive number; half of it is the most that rounding a subnormal changes."""
        return math.ldexp(1.0, self.least_exponent - self.precision + 1)

    @cached_property
    def smallest_normal(self) -> float:
        """The smallest positive normal number."""
        return math.ldexp(1.0, self.least_exponent)

    @cached_property
    def underflow(self) -> float:
        """The most that a result near 0 may be off: libraries may flush subnormals of the wide-ranged formats to 0."""
        return self.smallest_normal if self.least_exponent <= -126 else self.tiniest

    def round(self, x: ArrayLike) -> Reals:
        """The nearest number of this format to each float64 in x."""
        given = np.asarray(x, dtype=np.float64)
        if self.precision == 53:
            return given
        with np.errstate(all="ignore"):
            _, exponent = np.frexp(given)
            spacing = np.maximum(exponent - self.precision, self.least_exponent - self.precision + 1)
            rounded = np.ldexp(np.rint(np.ldexp(given, -spacing)), spacing)
        beyond = np.inf if self.infinity else np.nan
        rounded = np.where(np.abs(rounded) > self.largest, np.copysign(beyond, given), rounded)
        # The sign of zero is kept; frexp says nothing useful of what is not finite.
        return np.where(
            np.isfinite(given), np.copysign(rounded, given), given if self.infinity else np.copysign(beyond, given)
        )

    def ulp(self, x: ArrayLike) -> Reals:
        """The distance between the two numbers of this format around each x."""
        size = np.abs(np.asarray(x, dtype=np.float64))
        _, exponent = np.frexp(np.where(size < self.smallest_normal, self.smallest_normal, size))  # 0 has no exponent
        spacing = np.ldexp(1.0, np.maximum(exponent - self.precision, self.least_exponent - self.precision + 1))
        return np.where(np.isfinite(size), spacing, np.nan)[()]

    def rank(self, x: ArrayLike) -> NDArray[np.int64]:
        """Each number's place in the order of all numbers of this format; 0 is at 0, ∞ comes right after the largest.

        What is not a number has no place; it gets one that no number has.
        """
        rounded = self.round(x)
        if not np.isfinite(rounded).all():
            beyond = np.where(np.isinf(rounded), np.sign(rounded) * 1.0, 0.0).astype(np.int64)
            places = self.rank(np.where(np.isinf(rounded), np.copysign(self.largest, rounded), np.nan_to_num(rounded)))
            return np.where(np.isnan(rounded), NOWHERE, places + beyond)
        mantissa, exponent = np.frexp(np.abs(rounded))
        normal = exponent > self.least_exponent
        steps = np.where(normal, exponent - 1 - self.least_exponent, 0).astype(np.int64) << (self.precision - 1)
        small = np.ldexp(np.where(normal, 0.0, np.abs(rounded)), self.precision - 1 - self.least_exponent)
        within = np.where(normal, np.ldexp(mantissa, self.precision), small)
        return (np.sign(rounded).astype(np.int64)) * (steps + within.astype(np.int64))


FORMATS: dict[str, Format] = {
    found.name: found
    for found in (
        Format("float64", 53, -1022, float(np.finfo(np.float64).max)),
        Format("float32", 24, -126, float(np.finfo(np.float32).max)),
        Format("tf32", 11, -126, math.ldexp(2 - 2.0**-10, 127)),
        Format("float16", 11, -14, 65504.0),
        Format("bfloat16", 8, -126, math.ldexp(2 - 2.0**-7, 127)),
        Format("float8_e4m3", 4, -6, 448.0, infinity=False),
        Format("float8_e5m2", 3, -14, 57344.0),
    )
}


def format_named(name: str) -> Format:
    """The format of this name."""
    if name not in FORMATS:
        raise UsageError(f"unknown floating format {name!r}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def ulp_distance(a: ArrayLike, b: ArrayLike, fmt: Format) -> NDArray[np.int64]:
    """How many steps from a to b through the numbers of the format: 0 when equal, 1 for neighbours.

    Of two that are not numbers it is 0, of one the largest integer there is; so is what exceeds it (only in float64).
    """
    left, right = fmt.rank(a), fmt.rank(b)
    lost = (left == NOWHERE) | (right == NOWHERE)
    with np.errstate(over="ignore"):  # distances come near 2⁶⁴ in float64, so they are taken without a sign, modulo 2⁶⁴
        steps = np.maximum(left, right).astype(np.uint64) - np.minimum(left, right).astype(np.uint64)
    found = np.minimum(steps, np.uint64(NOT_COMPARABLE)).astype(np.int64)
    return np.where(lost, np.where(left == right, 0, NOT_COMPARABLE), found)


def gamma(n: Any, unit: float) -> Any:
    """γₙ = n·u/(1 − n·u): no order of n roundings can exceed it. Infinite once n·u ≥ 1, where nothing can be said."""
    total = np.multiply(n, unit)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total < 1, total / (1 - total), np.inf)[()]


# Azuma's inequality bounds a sum of n centred roundings by λ·√n·u·Σ|terms| with probability 1 − 2·exp(−λ²/2) for each
# number looked at; λ = 9 keeps the chance of one false alarm below 1e-6 in a step of 10¹¹ numbers (2·exp(−40.5)·10¹¹ = 5e-7).
LIKELY_LAMBDA = 9.0


def likely(n: Any, unit: float, strength: float = LIKELY_LAMBDA) -> Any:
    """λ·√n·u, never more than γₙ: what n roundings do in practice."""
    return np.minimum(strength * np.sqrt(n) * unit, gamma(n, unit))[()]

"""One equation: what was claimed, what was derived, and what that says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.numerics import FORMATS, Format, gamma, likely


@dataclass(frozen=True, slots=True)
class Result:
    """One equation, judged."""

    equation: str
    """forward, gradient or seed."""
    place: str
    probe: str
    verdict: str
    """holds, noise or broken."""
    ratio: float
    """The largest |claimed − derived| over the certain bound."""
    likely: float
    """The same over the likely bound."""
    slope: float
    """⟨claimed, derived⟩/⟨derived, derived⟩ − 1."""
    claimed: float
    derived: float
    bound: float
    at: tuple[int, ...] = ()
    because: str = ""


@dataclass(frozen=True, slots=True)
class NotChecked:
    """What no equation spoke of, and why."""

    place: str
    why: str


class Total:
    """A sum of contributions in an order that is not known: any order is allowed for."""

    def __init__(self) -> None:
        self.parts: list[Bound] = []

    def add(self, part: Bound) -> None:
        """One more contribution."""
        self.parts.append(part)

    def bound(self, storage: Format) -> Bound:
        """The sum, with the errors of its terms and γₙ₋₁ of their magnitudes."""
        value = reduce(np.add, (part.value for part in self.parts))
        n = len(self.parts) - 1
        if n == 0:
            return self.parts[0]
        unit = storage.unit + FORMATS["float64"].unit

        def error(which: str, factor: float) -> Any:
            errors = [getattr(part, which) for part in self.parts]
            known = [np.zeros(value.shape) if e is None else e for e in errors]
            size = sum(abs(part.value) + e for part, e in zip(self.parts, known, strict=True))
            return sum(known) + factor * size + n * storage.underflow

        return Bound(value, error("certain", float(gamma(n, unit))), error("likely", float(likely(n, unit))))


def judged(claimed: Any, derived: Bound) -> tuple[Any, ...]:
    """(verdict, ratio to the certain bound, to the likely one, slope, claimed, derived and bound at the worst place, the place)."""
    y = derived.value
    certain = np.zeros(y.shape) if derived.certain is None else derived.certain
    near = np.zeros(y.shape) if derived.likely is None else derived.likely
    with np.errstate(all="ignore"):
        gap = np.where((claimed == y) | (np.isnan(claimed) & np.isnan(y)), 0.0, np.abs(claimed - y))
        gap = np.where(np.isnan(gap), np.inf, gap)
        ratio = np.where(gap == 0, 0.0, gap / certain)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        likely = float(np.max(np.where(gap == 0, 0.0, gap / near), initial=0.0))
        norm = float(np.sum(y * y))
        slope = float(np.sum(claimed * y)) / norm - 1 if norm > 0 and np.isfinite(norm) else 0.0
    worst = float(np.max(ratio, initial=0.0))
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape) if ratio.size else ()
    place = tuple(int(i) for i in at)
    numbers = (float(claimed[place]), float(y[place]), float(certain[place])) if y.size else (0.0, 0.0, 0.0)
    verdict = "broken" if worst > 1 else "noise" if likely > 1 else "holds"
    return verdict, worst, likely, slope, *numbers, place


def compared(claimed: Any, derived: Bound, dtype: str) -> tuple[Any, ...]:
    """The same for any format; whole numbers are derived with reals, which hold them up to 2⁵³."""
    if dtype in FORMATS:
        return judged(claimed.astype(np.float64), derived)
    wrong = np.asarray((claimed != derived.value) & (np.abs(claimed.astype(np.float64)) < 2.0**53))
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else (0,) * wrong.ndim
    numbers = (float(claimed[at]), float(derived.value[at]), 0.0) if claimed.size else (0.0, 0.0, 0.0)
    ratio = float("inf") if wrong.any() else 0.0
    return "broken" if wrong.any() else "holds", ratio, 0.0, 0.0, *numbers, at

"""One equation: what was claimed, what was derived, and what that says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from backproof.engine.bounded import Bound
from backproof.engine.fused import quickly
from backproof.numerics import FORMATS, Format, gamma, likely
from backproof.verify.origin import Origin

PHASES = {
    "forward": "fwd",
    "gradient": "agrad",
    "update": "w_after",
    "state": "opt_after",
    "chain": "w_before",
}
BLOCK = 1 << 15  # elements that are judged at a time: what stays in the cache


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an equation was judged by, for who looks for its cause."""

    claimed: Any
    derived: Bound
    origins: tuple[Origin, ...] = ()
    format: str = "float32"


@dataclass(frozen=True, slots=True)
class Result:
    """One equation, judged."""

    equation: str
    """forward, gradient, update, state, chain, or another of what a step is made of."""
    place: str
    probe: str
    """The recorded tensor: a value's number, or what of a parameter."""
    verdict: str
    """holds, noise, flip or broken."""
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
    slope_bound: float = 0.0
    """What rounding may make of the slope; 0 where that was not asked."""
    flips: int = 0
    """Elements that an honest decision the other way explains."""
    free: float = 0.0
    """The part of the elements about which nothing is known: honest numbers may overflow there, and the claim did not."""
    because: str = ""
    parameter: str = ""
    cause: str = ""
    """The mistake that explains it, where one is known."""
    made: tuple[int, ...] = ()
    """The outputs of the calls that it was derived by."""
    cascades_from: int | None = None
    """The place, among the findings of the step, of the one that explains this one."""
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def phase(self) -> str:
        """What of its place is spoken of, in the words of traces."""
        return "grad_raw" if self.equation == "gradient" and self.parameter else PHASES.get(self.equation, "")


@dataclass(frozen=True, slots=True)
class NotChecked:
    """What no equation spoke of, and why."""

    place: str
    why: str


class Judgement(NamedTuple):
    """What the numbers say; the fields of a result after its name."""

    verdict: str
    ratio: float
    likely: float
    slope: float
    claimed: float
    derived: float
    bound: float
    at: tuple[int, ...]
    slope_bound: float = 0.0
    flips: int = 0
    free: float = 0.0


def same_numbers(a: Any, b: Any) -> bool:
    """Whether two arrays of one format have the same numbers everywhere; those that lie in the same memory are not read."""
    alike = a.shape == b.shape and a.dtype == b.dtype
    if alike and a.strides == b.strides and a.__array_interface__["data"] == b.__array_interface__["data"]:
        return True
    return alike and np.array_equal(a, b)


def unknown(free: float) -> str:
    """Why a part of an equation's elements is not checked."""
    which = "them" if free == 1 else f"{free:.2%} of them"
    return f"rounding may overflow there, or leave no digit right: nothing is known of {which}"


class Total:
    """A sum of contributions in an order that is not known: any order is allowed for. What is large is derived when it is asked for."""

    def __init__(self) -> None:
        self.parts: list[Bound | None] = []
        """Each contribution; None where its origin is yet to be followed."""
        self.origins: list[Origin | None] = []

    def add(self, part: Bound | None, origin: Origin | None = None) -> None:
        """One more contribution."""
        self.parts.append(part)
        self.origins.append(origin)

    @property
    def known(self) -> tuple[Origin, ...]:
        """Where all of it comes from; nothing, if a part of it comes from elsewhere."""
        found = tuple(origin for origin in self.origins if origin is not None)
        return found if len(found) == len(self.origins) else ()

    def derived(self) -> list[Bound]:
        """The contributions, all of them derived."""
        for i, (part, origin) in enumerate(zip(self.parts, self.origins, strict=True)):
            if part is None:
                assert origin is not None  # it comes from somewhere
                self.parts[i] = origin.bound()
        return [part for part in self.parts if part is not None]

    def bound(self, storage: Format) -> Bound:
        """The sum, with the errors of its terms and γₙ₋₁ of their magnitudes."""
        return added(self.derived(), storage)


def added(parts: Sequence[Bound], storage: Format) -> Bound:
    """A sum in any order."""
    if len(parts) == 1:
        return parts[0]
    with np.errstate(invalid="ignore"):  # of infinities that meet nothing is left
        value = reduce(np.add, (part.value for part in parts))
    n = len(parts) - 1
    unit = storage.unit + FORMATS["float64"].unit

    def error(which: str, factor: float) -> Any:
        errors = [getattr(part, which) for part in parts]
        known = [np.zeros(value.shape) if e is None else e for e in errors]
        size = sum(abs(part.value) + e for part, e in zip(parts, known, strict=True))
        return sum(known) + factor * size + n * storage.underflow

    most, least = float(gamma(n, unit)), float(likely(n, unit))
    nearer = error("likely", least)
    same = most == least and all(part.certain is part.likely for part in parts)
    return Bound(value, nearer if same else error("certain", most), nearer)


@dataclass(frozen=True, slots=True)
class Measured:
    """The largest errors of a claim of reals, or of a part of it, and what its slope is made of."""

    ratio: float
    likely: float
    norm: float
    lean: float
    at: tuple[int, ...]
    numbers: tuple[float, float, float]
    size: int = 0
    free: int = 0
    """Elements whose bound is infinite, and that have another number than what was derived."""

    def moved(self, axis: int, by: int) -> Measured:
        """The same, of a part that begins so far along an axis."""
        at = tuple(i + by if a == axis else i for a, i in enumerate(self.at))
        return replace(self, at=at)

    def shaped(self, shape: tuple[int, ...]) -> Measured:
        """The same, of what was measured flat."""
        at = tuple(int(i) for i in np.unravel_index(self.at[0], shape)) if self.at and shape else ()
        return replace(self, at=at)

    def judgement(self) -> Judgement:
        """What that says."""
        verdict = "broken" if self.ratio > 1 else "noise" if self.likely > 1 else "holds"
        slope = self.lean / self.norm if self.norm > 0 and np.isfinite(self.norm) else 0.0
        free = self.free / self.size if self.free else 0.0
        return Judgement(verdict, self.ratio, self.likely, slope, *self.numbers, self.at, free=free)


def together(parts: Sequence[Measured]) -> Measured:
    """What was measured of the parts of a claim, as of the whole."""
    worst = max(parts, key=lambda part: part.ratio)  # the first of equals
    nearest = max(part.likely for part in parts)
    norm, lean, size, free = (sum(getattr(part, name) for part in parts) for name in ("norm", "lean", "size", "free"))
    return Measured(worst.ratio, nearest, norm, lean, worst.at, worst.numbers, size, free)


def judged(claimed: Any, derived: Bound) -> Judgement:
    """What the largest errors, and the slope, say of a claim of reals."""
    return measured(claimed, derived).judgement()


def measured(claimed: Any, derived: Bound) -> Measured:
    """The largest errors of a claim of reals."""
    y = derived.value
    shape = y.shape
    claims, values, certain = (_flat(a, shape) for a in (claimed, y, derived.certain))
    near = certain if derived.likely is derived.certain else _flat(derived.likely, shape)
    if near is certain and (quick := quickly(claims, values, near)) is not None:
        return _said(quick, claims, values, certain, shape)
    worst = likely = norm = lean = 0.0
    at = free = 0
    with np.errstate(all="ignore"):
        for begin in range(0, values.size, BLOCK):
            part = slice(begin, begin + BLOCK)
            v = values[part]
            off = claims[part].astype(np.float64) - v
            gap = np.abs(off)
            if not np.isfinite(gap.sum()):  # infinities that agree are no difference, and nothing else is alike
                gap = _apart(claims[part], v, gap)
                off = np.where(np.isfinite(off), off, 0.0)
                v = np.where(np.isfinite(v), v, 0.0)
            found, where = _largest(gap, certain, part)
            if found > worst or begin == 0:
                worst, at = found, begin + where
            if certain is not None and certain[part].max() == np.inf:
                apart = (gap > 0) & np.isfinite(claims[part])
                free += int(np.count_nonzero(apart & np.isinf(certain[part])))
            likely = max(likely, found if near is certain else _largest(gap, near, part)[0])
            norm += float(np.einsum("i,i->", v, v))  # a product by BLAS would wake its threads for every block
            lean += float(np.einsum("i,i->", off, v))
    return replace(_said((worst, norm, lean, at), claims, values, certain, shape), likely=likely, free=free)


def _said(found: tuple[float, float, float, int], claims: Any, values: Any, certain: Any, shape: Any) -> Measured:
    """What was measured, with the numbers where the largest error is."""
    worst, norm, lean, at = found
    if not values.size:
        return Measured(worst, worst, norm, lean, (), (0.0, 0.0, 0.0))
    numbers = (float(claims[at]), float(values[at]), float(certain[at]) if certain is not None else 0.0)
    place = tuple(int(i) for i in np.unravel_index(at, shape))
    return Measured(worst, worst, norm, lean, place, numbers, values.size)


def _flat(a: Any, shape: tuple[int, ...]) -> Any:
    return None if a is None else np.broadcast_to(a, shape).reshape(-1)


def _apart(claims: Any, values: Any, gap: Any) -> Any:
    same = (claims == values) | (np.isnan(claims) & np.isnan(values))
    return np.where(same, 0.0, np.where(np.isfinite(gap), gap, np.inf))


def _largest(gap: Any, bound: Any, part: slice) -> tuple[float, int]:
    """The largest gap over its bound, and where. No gap is within any bound, and any other exceeds a bound of 0.

    An infinite bound says that an honest execution may have overflowed there: whatever it gave is within it.
    """
    if bound is None:
        place = int(np.argmax(gap))
        return (np.inf if gap[place] > 0 else 0.0), place
    ratio = gap / bound[part]
    place = int(np.argmax(ratio))  # the first that is not a number, if any is not
    if np.isfinite(ratio[place]) and not np.isinf(bound[part][place]):
        return float(ratio[place]), place
    np.nan_to_num(ratio, copy=False, nan=np.inf, posinf=np.inf)
    ratio[(gap == 0) | np.isinf(bound[part])] = 0.0
    place = int(np.argmax(ratio))
    return float(ratio[place]), place


def compared(claimed: Any, derived: Bound, dtype: str) -> Judgement:
    """The same for any format; whole numbers are derived with reals, which hold them up to 2⁵³."""
    if dtype in FORMATS:
        return judged(claimed, derived)
    differs = np.asarray((claimed != derived.value) & (np.abs(claimed.astype(np.float64)) < 2.0**53))
    doubt = np.zeros(differs.shape, dtype=np.bool_) if derived.certain is None else np.asarray(derived.certain) > 0
    flips, wrong = int(np.count_nonzero(differs & doubt)), differs & ~doubt
    said = wrong if wrong.any() else differs
    at = tuple(int(i) for i in np.argwhere(said)[0]) if said.any() else (0,) * wrong.ndim
    numbers = (float(claimed[at]), float(derived.value[at]), 0.0) if claimed.size else (0.0, 0.0, 0.0)
    ratio = float("inf") if wrong.any() else 0.0
    verdict = "broken" if wrong.any() else "flip" if flips else "holds"
    return Judgement(verdict, ratio, 0.0, 0.0, *numbers, at, 0.0, flips)

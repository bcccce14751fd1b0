"""A step while it is verified: what was recorded, what has been derived so far, and the verdict that grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.numerics import FORMATS
from backproof.trace.folder import Recorded
from backproof.trace.step import Call, Value, gradient_key, handed_key
from backproof.verify.closer import looked_closer
from backproof.verify.equation import Evidence, Judgement, NotChecked, Result, Total, compared
from backproof.verify.origin import Origin
from backproof.verify.outcome import StepVerdict
from backproof.verify.piecewise import judged_piecewise, settled
from backproof.verify.region import label
from backproof.verify.screening import Screening

MOST_KEPT = 16


class Subject:
    """One recorded step, and everything that its checks share."""

    def __init__(self, recorded: Recorded, screening: Screening | None = None) -> None:
        self.screening = screening
        """Whether what is large is only looked at quickly."""
        self.step, self.tensors = recorded.step, recorded.tensors
        self.makers = {output: call for call in self.step.calls for output in call.outputs}
        self.verdict = StepVerdict(self.step.index)
        self.totals: dict[tuple[int, int], Total] = {}
        """Each value's gradient so far, by backward pass: the contributions of the calls that read it."""
        self.parts: dict[tuple[int, int, int], Total] = {}
        """The same for an input of a region that has a backward of its own: (region, value, pass)."""
        self.derived: dict[int, Bound] = {}
        """Values that were not recorded."""
        self.deferred: list[tuple[Call, Any]] = []
        """Calls that wait for a gradient which is derived, each with the mask that it may have."""
        self.undecided: Counter[int] = Counter()
        """How many masks of a value's readers wait for what comes back to it."""
        self.besides: dict[int, Value] = {}
        """Values that nobody recorded, and that were recovered: their numbers are below zero."""
        self.open: dict[int, str] = {}
        """Values with a reader whose contribution is unknown, and which."""
        self.open_regions: dict[int, str] = {}
        """Regions with something inside that is not lowered, and what."""
        self.kept = 0
        """Broken equations whose numbers are kept."""

    def array(self, key: str) -> np.ndarray[Any, Any]:
        """A recorded tensor."""
        return self.tensors[key]

    def value(self, number: int) -> Value:
        """What was recorded of a value."""
        return self.step.values[number] if number >= 0 else self.besides[number]

    def spoken(self, number: int) -> str:
        """A value as it is spoken of: by its name, or by what made it."""
        name, maker = self.value(number).name, self.makers.get(number)
        if name or maker is None:
            return name or f"value {number}"
        which = f" {maker.outputs.index(number)}" if len(maker.outputs) > 1 else ""
        return f"output{which} of {label(maker)}"

    def add(self, found: Bound, dtype: str) -> int:
        """A value that was recovered from others."""
        number = -1 - len(self.besides)
        self.besides[number] = Value(number, dtype, tuple(found.shape))
        self.derived[number] = found
        return number

    def stored(self, number: int) -> bool:
        """Whether a value was recorded."""
        return f"v{number}" in self.tensors

    def bearer(self, number: int) -> int:
        """The value that has this value's gradient."""
        shares = self.value(number).shares
        return number if shares is None else shares

    def gradient(self, number: int, passing: int) -> Any:
        """What came back to a value in a pass: as recorded (after the user's hooks), or derived, or None if nothing did."""
        number = self.bearer(number)
        for key in (handed_key(number, passing), gradient_key(number, passing)):
            if key in self.tensors:
                return self.array(key)
        total = self.totals.get((number, passing))
        return total.bound(domain(self.value(number).dtype).storage) if total and self.value(number).inner else None

    def reached(self, number: int, passing: int) -> bool:
        """Whether a pass came to a value."""
        return gradient_key(self.bearer(number), passing) in self.tensors

    def wants(self, number: int, passing: int, region: int | None = None) -> bool:
        """Whether a value has a gradient in a pass, seen or not; or is an input of a region that has to give it one."""
        given = region is not None and number in self.step.regions[region].inputs
        return given or self.value(number).inner or self.reached(number, passing)

    def contribute(
        self, value: int, part: Bound | None, origin: Origin | None = None, passing: int = 0, region: int | None = None
    ) -> None:
        """One more contribution to a value's gradient, and where it comes from."""
        bearer = self.bearer(value)
        owner = None if region is None else self.step.regions[region]
        if owner is None or value not in owner.inputs:
            if owner is None or owner.kind not in ("function", "backward hooks") or self.value(value).inner:
                self.totals.setdefault((bearer, passing), Total()).add(part, origin)
            return  # what a function reads besides its inputs is a constant to it
        assert region is not None  # it has an owner
        self.parts.setdefault((region, value, passing), Total()).add(part, origin)

    def leave(self, call: Call, reads: Sequence[int], place: str) -> None:
        """The gradients of what a call reads are not known, because of a place that no equation speaks of."""
        owner = None if call.region is None else self.step.regions[call.region]
        if call.region is not None:
            self.open_regions.setdefault(call.region, place)
        for value in reads:
            if owner is None or value not in owner.inputs:
                self.open[self.bearer(value)] = place

    def leave_unknown(self, call: Call, reads: Sequence[int], place: str, why: str) -> None:
        """A call that no equation speaks of."""
        self.verdict.add(NotChecked(place, why))
        self.leave(call, reads, place)

    def leave_open(self, values: Sequence[int], place: str, why: str) -> None:
        """A place that no equation speaks of: the gradients of what it reads are then not known either."""
        self.verdict.add(NotChecked(place, why))
        for value in values:
            self.open[self.bearer(value)] = place

    def compare(
        self,
        equation: str,
        place: str,
        value: int,
        key: str,
        derived: Bound | Total,
        origins: tuple[Origin, ...] = (),
        *,
        claimed: Any = None,
        because: str = "",
        computing: str = "",
    ) -> None:
        """What was recorded under a key, against what was derived for it; with where that comes from, to look closer."""
        dtype, name = self.value(value).dtype, self.value(value).name
        claimed = self.array(key) if claimed is None else claimed
        seen = self.screening.look(claimed, derived, dtype) if self.screening and isinstance(derived, Total) else None
        if seen is not None:
            self.verdict.add(Result(equation, place, f"{value}", *seen, parameter=name, made=_made(origins)))
            return
        if isinstance(derived, Total):
            found, doubtful = judged_piecewise(claimed, derived, dtype)
            origins = tuple(replace(origin, doubtful=True) for origin in origins) if doubtful else origins
        else:
            if dtype in FORMATS:
                derived = settled([derived], dtype)
            found = compared(claimed, derived, dtype)
        why = ""
        if dtype in FORMATS and found.verdict != "broken":
            found, why = looked_closer(
                found, claimed, derived, origins, dtype, computing or self._coarsest(dtype, origins)
            )
        because = "; ".join(filter(None, (because if found.verdict == "broken" else "", why)))
        evidence = None
        if self._keeps(found):
            whole = settled(derived.derived(), dtype) if isinstance(derived, Total) else derived
            evidence = Evidence(claimed, whole, origins, dtype)
        self.verdict.add(
            Result(
                equation,
                place,
                f"{value}",
                *found,
                because=because,
                parameter=name,
                evidence=evidence,
                made=_made(origins),
            )
        )

    def _coarsest(self, dtype: str, origins: tuple[Origin, ...]) -> str:
        """The format in which a gradient, or what was added to it, was computed."""
        formats = [self.value(origin.call.outputs[0]).dtype for origin in origins if origin.call is not None]
        return min((name for name in (dtype, *formats) if name in FORMATS), key=lambda name: FORMATS[name].precision)

    def _keeps(self, found: Judgement) -> bool:
        """Of the first broken equations the numbers are kept, so that their cause can be looked for."""
        if found.verdict != "broken" or self.kept >= MOST_KEPT:
            return False
        self.kept += 1
        return True


def _made(origins: tuple[Origin, ...]) -> tuple[int, ...]:
    return tuple(output for origin in origins if origin.call is not None for output in origin.call.outputs)


@cache
def domain(name: str, accumulation: str | None = None) -> Bounded:
    """Values with bounds for what computes in this format, and adds up in it or in another."""
    return Bounded(name, accumulation)


def computes_in(dtype: str) -> str:
    """The format that a kernel computes in: half formats are computed in float32 and rounded once."""
    return "float64" if dtype == "float64" else "float32"

"""A step while it is verified: what was recorded, what has been derived so far, and the verdict that grows."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.numerics import FORMATS
from backproof.trace.step import Recorded, Value
from backproof.verify.equation import Evidence, Judgement, NotChecked, Result, Total, compared
from backproof.verify.origin import Origin
from backproof.verify.outcome import StepVerdict
from backproof.verify.slope import SMALLEST, slope_bound

MOST_KEPT = 16


class Subject:
    """One recorded step, and everything that its checks share."""

    def __init__(self, recorded: Recorded) -> None:
        self.step, self.tensors = recorded.step, recorded.tensors
        self.verdict = StepVerdict(self.step.index)
        self.totals: dict[int, Total] = {}
        """Each value's gradient so far: the contributions of the calls that read it."""
        self.open: dict[int, str] = {}
        """Values with a reader whose contribution is unknown, and which."""
        self.kept = 0
        """Broken equations whose numbers are kept."""

    def array(self, key: str) -> np.ndarray[Any, Any]:
        """A recorded tensor."""
        return self.tensors[key]

    def value(self, number: int) -> Value:
        """What was recorded of a value."""
        return self.step.values[number]

    def contribute(self, value: int, part: Bound, origin: Origin | None = None) -> None:
        """One more contribution to a value's gradient, and where it comes from."""
        self.totals.setdefault(value, Total()).add(part, origin)

    def leave_open(self, values: list[int], place: str, why: str) -> None:
        """A place that no equation speaks of: the gradients of what it reads are then not known either."""
        self.verdict.add(NotChecked(place, why))
        for value in values:
            self.open[value] = place

    def compare(
        self, equation: str, place: str, value: int, key: str, derived: Bound, origins: tuple[Origin, ...] = ()
    ) -> None:
        """What was recorded under a key, against what was derived for it; with where that comes from, to look closer."""
        dtype, name = self.value(value).dtype, self.value(value).name
        if dtype in FORMATS and FORMATS[dtype].precision < domain(computes_in(dtype)).storage.precision:
            derived = domain("float32").cast(derived, to=dtype)
        claimed = self.array(key)
        found = compared(claimed, derived, dtype)
        because = ""
        if (
            found.verdict in ("holds", "noise")
            and dtype in FORMATS
            and abs(found.slope) > SMALLEST * FORMATS[dtype].unit
        ):
            found = found._replace(slope_bound=slope_bound(claimed, derived.value, origins, dtype, computes_in(dtype)))
            if abs(found.slope) > found.slope_bound:
                found, because = (
                    found._replace(verdict="broken"),
                    "a systematic error, within the bounds of its elements",
                )
        evidence = Evidence(claimed, derived, origins, dtype) if self._keeps(found) else None
        self.verdict.add(
            Result(equation, place, f"{value}", *found, because=because, parameter=name, evidence=evidence)
        )

    def _keeps(self, found: Judgement) -> bool:
        """Of the first broken equations the numbers are kept, so that their cause can be looked for."""
        if found.verdict != "broken" or self.kept >= MOST_KEPT:
            return False
        self.kept += 1
        return True


@cache
def domain(name: str) -> Bounded:
    """Values with bounds for what computes in this format."""
    return Bounded(name)


def computes_in(dtype: str) -> str:
    """The format that a kernel computes in: half formats are computed in float32 and rounded once."""
    return "float64" if dtype == "float64" else "float32"

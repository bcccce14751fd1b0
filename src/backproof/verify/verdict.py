"""What a verification found: findings, what was checked, and what was not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from backproof.receipt.validation import Deviation

MOST_FINDINGS = 1000  # kept in a verdict; the rest is counted


@dataclass(frozen=True)
class Finding:
    """One claim that does not hold."""

    rule: int
    record: int
    path: str
    because: str
    said: Any = None
    found: Any = None
    deviation: float | None = None
    bound: float | None = None
    id: str = ""
    cascade_of: int | None = None  # the place, in the verdict, of the finding that explains this one
    column: int = -1  # of the number that is said
    inputs: frozenset[int] = frozenset()  # of the numbers that it was derived from

    @property
    def is_equation(self) -> bool:
        """Whether two numbers were compared."""
        return self.deviation is not None

    def cascading(self, root: int) -> Finding:
        """The same finding, explained by another."""
        return replace(self, cascade_of=root)


class Unchecked(NamedTuple):
    """Something in the file that no rule could judge, and why."""

    path: str
    because: str


@dataclass(frozen=True)
class Verdict:
    """The outcome for a file: it holds if nothing was found and something was checked."""

    records: int
    findings: tuple[Finding, ...]
    deviations: tuple[tuple[int, Deviation], ...]
    evaluated: tuple[int, ...]
    gated_off: tuple[int, ...]
    checked: int
    unchecked: tuple[Unchecked, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    more: int = 0  # findings beyond the ones kept
    versions: tuple[str, ...] = field(default=())
    computed_in: str = "float64"

    @property
    def holds(self) -> bool:
        """Whether every claim holds. A verdict with nothing checked is not a pass."""
        return not self.findings and not self.deviations and self.checked > 0

    @property
    def causes(self) -> list[tuple[Finding, list[Finding]]]:
        """Each finding that nothing explains, first cause first, with the ones that cascade from it."""
        folded: dict[int, list[Finding]] = {}
        for finding in self.findings:
            if finding.cascade_of is not None:
                folded.setdefault(finding.cascade_of, []).append(finding)
        return [(finding, folded.get(i, [])) for i, finding in enumerate(self.findings) if finding.cascade_of is None]

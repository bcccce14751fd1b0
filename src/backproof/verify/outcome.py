"""What became of a recorded step: its equations judged, and what no equation spoke of."""

from __future__ import annotations

from dataclasses import dataclass, field

from backproof.verify.equation import NotChecked, Result


@dataclass
class StepVerdict:
    """What became of a step's equations."""

    step: int
    results: list[Result] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)

    def add(self, found: Result | NotChecked) -> None:
        """One more equation, or one more place that none speaks of."""
        if isinstance(found, Result):
            self.results.append(found)
        else:
            self.not_checked.append(found)

    @property
    def broken(self) -> list[Result]:
        """The equations that do not hold, first cause first."""
        return [result for result in self.results if result.verdict == "broken"]

    @property
    def verdict(self) -> str:
        """holds, broken, or nothing checked."""
        return "broken" if self.broken else "holds" if self.results else "nothing checked"

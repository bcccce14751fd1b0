"""What became of a recorded step: its equations judged, suspect practices, and what no equation spoke of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from backproof.verify.equation import NotChecked, Result, unknown
from backproof.verify.remarks import Scale, Suspect

VERDICTS = ("holds", "noise", "flip", "broken")
SAID = ("broken", "flip", "noise")
"""What is listed, worst first; what holds is counted."""


@dataclass
class StepVerdict:
    """What became of a step's equations."""

    step: int
    results: list[Result] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)
    suspect: list[Suspect] = field(default_factory=list)
    scales: list[Scale] = field(default_factory=list)
    """What scales its gradients, as found in the record."""
    drift: Any = None
    """How far the whole step is from its derivation in float64 (`verify.drift`), or why that is not known; None: not asked."""
    screen: dict[str, Any] | None = None
    """How many equations were only screened, and what that may miss; None: all were checked as a whole."""
    notes: list[str] = field(default_factory=list)
    """What is reported and not judged."""
    before: Counter[str] = field(default_factory=Counter)
    """Verdicts of equations that are no longer held."""
    kinds: Counter[str] = field(default_factory=Counter)
    """The same by kind of equation."""
    rank: int | None = None
    """Which rank of a data-parallel run recorded it."""

    def add(self, found: Result | NotChecked | Suspect | Scale) -> None:
        """One more equation, practice or scale, or one more place that nothing speaks of."""
        match found:
            case Result() if found.free:
                self.not_checked.append(NotChecked(f"{found.equation} at {found.place}", unknown(found.free)))
                if found.free < 1:
                    self.results.append(replace(found, free=0.0))
            case Result():
                self.results.append(found)
            case NotChecked():
                self.not_checked.append(found)
            case Suspect():
                self.suspect.append(found)
            case Scale():
                self.scales.append(found)

    @property
    def counts(self) -> dict[str, int]:
        """How many equations were checked, and what became of them."""
        found = self.before + Counter(result.verdict for result in self.results)
        return {
            "checked": found.total(),
            **{name: found[name] for name in VERDICTS},
            "not_checked": len(self.not_checked),
        }

    @property
    def equations(self) -> Counter[str]:
        """How many equations of each kind there were."""
        return self.kinds + Counter(result.equation for result in self.results)

    @property
    def broken(self) -> list[Result]:
        """The equations that do not hold, first cause first."""
        return [result for result in self.results if result.verdict == "broken"]

    @property
    def findings(self) -> list[Result]:
        """Everything that does not plainly hold: what is broken, first cause first, then flips, then noise; consequences folded."""
        return folded([result for said in SAID for result in self.results if result.verdict == said])

    @property
    def verdict(self) -> str:
        """holds, broken, or nothing checked."""
        return "broken" if self.broken else "holds" if self.counts["checked"] else "nothing checked"

    @property
    def suspicious(self) -> bool:
        """Whether a practice was found that is not declared to be meant."""
        return any(not found.intended for found in self.suspect)

    def settled(self) -> StepVerdict:
        """The same with only what is listed, so that many steps fit in memory."""
        kept = [replace(result, evidence=None) for result in self.results if result.verdict in SAID]
        held = Counter({"holds": len(self.results) - len(kept)})
        gone = Counter(result.equation for result in self.results if result.verdict not in SAID)
        return replace(self, results=kept, before=self.before + held, kinds=self.kinds + gone)


def joined(parts: Sequence[StepVerdict]) -> StepVerdict:
    """What was found of one step in several ways, as one verdict."""
    found = StepVerdict(parts[-1].step)
    for part in parts:
        for name in ("results", "not_checked", "suspect", "scales", "notes"):
            getattr(found, name).extend(getattr(part, name))
        found.drift = part.drift if part.drift is not None else found.drift
        found.screen = part.screen if part.screen is not None else found.screen
        found.before += part.before
        found.kinds += part.kinds
    return found


@dataclass(frozen=True)
class RunVerdict:
    """What became of a recorded run."""

    subject: str
    steps: tuple[StepVerdict, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def verdict(self) -> str:
        """broken if any step is; nothing checked if any step has nothing checked; else holds."""
        found = {step.verdict for step in self.steps}
        return next(
            (said for said in ("broken", "nothing checked") if said in found), "holds" if found else "nothing checked"
        )

    @property
    def holds(self) -> bool:
        """Whether every equation of every step holds. A step of which nothing was checked does not."""
        return self.verdict == "holds"

    @property
    def holds_strictly(self) -> bool:
        """Whether it holds, nothing is suspect, and nothing was left unchecked: what `--strict` demands."""
        return self.holds and not any(step.suspicious or step.not_checked for step in self.steps)

    def __str__(self) -> str:
        """All steps together, in a line."""
        counts: Counter[str] = Counter()
        for step in self.steps:
            counts.update(step.counts)
        first = next((step.step for step in self.steps if step.verdict != "holds"), None)
        said = {
            "holds": f"all {counts['checked']} equations of {_many(len(self.steps), 'step')}",
            "nothing checked": "no equation of a step could be derived, which is no pass",
            "broken": f"{counts['broken']} of {counts['checked']} equations do not hold, first in step {first}",
        }[self.verdict]
        rest = [
            (counts["not_checked"], "place", " not checked"),
            (sum(len(step.suspect) for step in self.steps), "suspect practice", ""),
        ]
        return ", ".join([f"{self.verdict}: {said}", *(f"{_many(n, name)}{more}" for n, name, more in rest if n)])

    def to_json(self) -> dict[str, object]:
        """As plain data, with the keys that docs/steps.md lists."""
        from backproof.verify.plain import run_json

        return run_json(self)


def _many(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def folded(findings: list[Result]) -> list[Result]:
    """Each finding with the place of the one that explains it.

    A call whose outputs are wrong has wrong derivatives too; a rule that is wrong about an optimizer's state is wrong about the update.
    """
    broken = [i for i, found in enumerate(findings) if found.verdict == "broken"]
    calls = {int(findings[i].probe): i for i in reversed(broken) if findings[i].equation == "forward"}
    states = {findings[i].place: i for i in reversed(broken) if findings[i].equation == "state"}
    found = list(findings)
    for i in broken:
        if findings[i].equation == "gradient":
            above = min((calls[made] for made in findings[i].made if made in calls), default=None)
        else:
            above = states.get(findings[i].place) if findings[i].equation == "update" else None
        found[i] = replace(found[i], cascades_from=above)
    return found

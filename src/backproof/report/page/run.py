"""A recorded run as a section of the page: every equation along the network, and every place through the steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from backproof.report.page.section import Curve, Detail, Grid, Line, Section, Table, Tone, number, place
from backproof.verify.equation import Result
from backproof.verify.outcome import StepVerdict

MOST_STEPS = 150  # columns of the heat map; of a longer run, the steps that do not hold and some of the others
MOST_FINDINGS = 200
KINDS = ("forward", "seed", "gradient", "handling", "schedule", "state", "update", "chain")
TONES: dict[str, Tone] = {"holds": "good", "noise": "warn", "flip": "warn", "broken": "bad", "suspect": "warn"}


@dataclass
class _Place:
    """What is kept of a place and kind of equation through all steps: the worst of it."""

    name: str
    ratio: float = 0.0
    likely: float = 0.0
    worst: Result | None = None
    step: int = 0
    by_step: dict[int, float] = field(default_factory=dict)

    def add(self, step: int, result: Result) -> None:
        """One more equation of this place."""
        self.by_step[step] = max(self.by_step.get(step, 0.0), result.ratio)
        self.likely = max(self.likely, result.likely)
        if self.worst is None or result.ratio > self.ratio:
            self.ratio, self.worst, self.step = result.ratio, result, step


class RunPage:
    """Takes a run's verdicts one at a time, and keeps no more of each than the page shows."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.places: dict[tuple[str, str], _Place] = {}
        self.steps: dict[int, str] = {}
        self.counts = dict.fromkeys(("holds", "noise", "flip", "broken"), 0)
        self.findings: list[tuple[int, Result]] = []
        self.more = 0
        self.unchecked: dict[tuple[str, str], int] = {}
        self.suspects: list[tuple[str, ...]] = []

    def add(self, verdict: StepVerdict) -> None:
        """One more step."""
        self.steps[verdict.step] = verdict.verdict
        for result in verdict.results:
            self.counts[result.verdict] = self.counts.get(result.verdict, 0) + 1
            key = result.equation, f"{result.place} {result.probe}" if result.equation == "state" else result.place
            self.places.setdefault(key, _Place(f"{key[1]} · {result.equation}")).add(verdict.step, result)
        for result in verdict.broken:
            if len(self.findings) < MOST_FINDINGS:
                self.findings.append((verdict.step, result))
            else:
                self.more += 1
        for entry in verdict.not_checked:
            key = entry.place, entry.why
            self.unchecked[key] = self.unchecked.get(key, 0) + 1

    def section(self) -> Section:
        """The run so far."""
        broken = [step for step, verdict in self.steps.items() if verdict == "broken"]
        checked = sum(self.counts.values())
        verdict, tone = ("broken", "bad") if broken else ("holds", "good") if checked else ("nothing checked", "bad")
        order = sorted(self.places.items(), key=_along)
        details = {f"p{i}": _detail(each) for i, (_, each) in enumerate(order)}
        keys = list(details)
        parts: list[Grid | Curve | Table] = []
        if self.findings:
            parts.append(self._found())
        if order:
            parts.append(_curve([each for _, each in order], keys))
            parts.append(self._grid([each for _, each in order], keys))
        if self.unchecked:
            parts.append(self._unchecked())
        facts = [
            ("steps", f"{len(self.steps)}" + (f", of which {len(broken)} do not hold" if broken else "")),
            ("equations checked", f"{checked:,}"),
            *((name, f"{count:,}") for name, count in self.counts.items() if count),
            ("not checked", f"{sum(self.unchecked.values()):,}"),
        ]
        return Section(self.title, verdict, tone, facts, self._cause(), parts, details)  # type: ignore[arg-type] # a Tone

    def _cause(self) -> list[tuple[str, str]]:
        return [] if not self.findings else [("step", str(self.findings[0][0])), *_facts(self.findings[0][1])]

    def _found(self) -> Table:
        rows = [
            [
                f"{result.equation} at {result.place}{place(result.at)}",
                str(step),
                number(result.ratio),
                number(result.slope),
                number(result.claimed),
                number(result.derived),
                result.because,
            ]
            for step, result in self.findings
        ]
        note = "In causal order: the first is the first cause." + (
            f" {self.more} more are not shown." if self.more else ""
        )
        columns = ["equation", "step", "error / bound", "slope", "claimed", "derived", "why"]
        return Table("What does not hold", note, columns, rows, ["bad"] * len(rows))

    def _unchecked(self) -> Table:
        rows = [[name, why, str(count)] for (name, why), count in self.unchecked.items()]
        note = "No equation spoke of these; nothing is known of them."
        return Table("Not checked", note, ["place", "why", "times"], rows)

    def _grid(self, places: list[_Place], keys: list[str]) -> Grid:
        steps = list(self.steps)
        if len(steps) > MOST_STEPS:
            every = -(-len(steps) // (MOST_STEPS // 2))
            broken = [step for step in steps if self.steps[step] == "broken"][: MOST_STEPS // 2]
            steps = sorted({*steps[::every], *broken})
        note = "The largest error of each place in each step, over its certain bound; more than 1 is broken."
        if len(steps) < len(self.steps):
            note += f" {len(steps)} of {len(self.steps)} steps are shown."
        return Grid(
            "Every place, step by step",
            note,
            [each.name for each in places],
            [f"step {step}" for step in steps],
            [[each.by_step.get(step) for step in steps] for each in places],
            "error / bound",
            1.0,
            [[key] * len(steps) for key in keys],
        )


def _along(entry: tuple[tuple[str, str], _Place]) -> int:
    """Kinds in the order of a step; within one, places in the order in which they were judged."""
    kind = entry[0][0]
    return KINDS.index(kind) if kind in KINDS else len(KINDS)


def _curve(places: list[_Place], keys: list[str]) -> Curve:
    lines = [
        Line("error / certain bound", [each.ratio for each in places]),
        Line("error / likely bound", [each.likely for each in places]),
        Line("the bound", [1.0] * len(places), bound=True),
    ]
    note = (
        "Each equation in the order of a step: forward, gradients from the last to the first, what is done to them, updates. "
        "The worst of all steps; an honest step stays below the line."
    )
    return Curve("Every equation along the network", note, [each.name for each in places], lines, "error / bound", keys)


def _facts(result: Result) -> list[tuple[str, str]]:
    return [
        ("equation", f"{result.equation} at {result.place}{place(result.at)}"),
        ("verdict", result.verdict),
        ("claimed", f"{result.claimed:.9g}"),
        ("derived", f"{result.derived:.9g}"),
        ("bound", number(result.bound)),
        ("error / certain bound", number(result.ratio)),
        ("error / likely bound", number(result.likely)),
        ("slope", f"{result.slope:+.3e}"),
        *([("why", result.because)] if result.because else []),
    ]


def _detail(each: _Place) -> Detail:
    facts = [("worst in step", str(each.step)), *_facts(each.worst)] if each.worst is not None else []
    return Detail(each.name, facts)


def run_section(title: str, verdicts: Iterable[StepVerdict]) -> Section:
    """A run's verdicts as a section."""
    page = RunPage(title)
    for verdict in verdicts:
        page.add(verdict)
    return page.section()

"""A recorded run as a section of the page: every equation along the network, and every place through the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from backproof.report.page.section import Curve, Detail, Grid, Line, Section, Table, Tone, number, place
from backproof.verify.equation import Result
from backproof.verify.outcome import VERDICTS, StepVerdict

MOST_STEPS = 150  # columns of the heat map; of a longer run, the steps that do not hold and some of the others
MOST_ROWS = 300
KINDS = ("forward", "seed", "gradient")
LAST = ("schedule", "state", "update", "chain")
"""Kinds of equations in the order of a step; what is in neither is what is done to gradients, between them."""
TONES: dict[str, Tone] = {"holds": "good", "noise": "warn", "flip": "warn", "broken": "bad", "nothing checked": "bad"}


@dataclass
class _Place:
    """What is kept of a place and kind of equation through all steps: the worst of it."""

    name: str
    ratio: float = 0.0
    likely: float = 0.0
    worst: Result | None = None
    step: str = ""
    by_step: dict[str, float] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """The steps in which it does not hold."""

    def add(self, step: str, result: Result) -> None:
        """One more equation of this place."""
        self.by_step[step] = max(self.by_step.get(step, 0.0), result.ratio)
        self.likely = max(self.likely, result.likely)
        if result.verdict == "broken":
            self.broken.add(step)
        if self.worst is None or result.ratio > self.ratio:
            self.ratio, self.worst, self.step = result.ratio, result, step


class RunPage:
    """Takes a run's verdicts one at a time, and keeps no more of each than the page shows."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.places: dict[tuple[str, str], _Place] = {}
        self.steps: dict[str, str] = {}
        """step → verdict."""
        self.counts: Counter[str] = Counter()
        self.found: list[list[str]] = []
        self.tones: list[Tone] = []
        self.first: tuple[str, Result] | None = None
        self.more = 0
        self.notes: dict[str, Counter[tuple[str, ...]]] = {
            "suspect": Counter(),
            "unchecked": Counter(),
            "scales": Counter(),
        }

    def add(self, verdict: StepVerdict) -> None:
        """One more step."""
        step = str(verdict.step) if verdict.rank is None else f"{verdict.step} of rank {verdict.rank}"
        self.steps[step] = verdict.verdict
        self.counts.update(verdict.counts)
        for result in verdict.results:
            name = f"{result.place} {result.probe}" if result.equation == "state" else result.place
            key = result.equation, name
            self.places.setdefault(key, _Place(f"{name} · {result.equation}")).add(step, result)
        if self.first is None and verdict.broken:
            self.first = step, verdict.broken[0]
        for result in verdict.findings:
            if len(self.found) < MOST_ROWS:
                self.found.append(_row(step, result))
                self.tones.append(TONES[result.verdict])
            else:
                self.more += 1
        self.notes["suspect"].update((one.practice, one.evidence, one.advice) for one in verdict.suspect)
        self.notes["unchecked"].update((one.place, one.why) for one in verdict.not_checked)
        self.notes["scales"].update((one.kind, one.place, number(one.factor), one.says) for one in verdict.scales)

    def section(self) -> Section:
        """The run so far."""
        said = set(self.steps.values())
        verdict = next(
            (one for one in ("broken", "nothing checked") if one in said), "holds" if said else "nothing checked"
        )
        broken = sum(one == "broken" for one in self.steps.values())
        suspects = self.notes["suspect"]
        order = sorted(self.places.items(), key=_along)
        places, keys = [each for _, each in order], [f"p{i}" for i in range(len(order))]
        details = {key: _detail(each) for key, each in zip(keys, places, strict=True)}
        parts: list[Grid | Curve | Table] = []
        if self.found:
            more = f" {self.more} more are not shown." if self.more else ""
            columns = ["equation", "step", "verdict", "error / bound", "slope", "claimed", "derived", "why"]
            note = f"What is broken comes first, in causal order, then honest flips and noise.{more}"
            parts.append(Table("What does not plainly hold", note, columns, self.found, self.tones))
        parts += self._table(
            "suspect",
            "Suspect practices",
            "Every equation may hold, and yet this is seldom meant.",
            "practice evidence advice",
        )
        if places:
            parts += [_curve(places, keys), self._grid(places, keys)]
        parts += self._table("scales", "What scales a gradient", "As found in the record.", "kind place factor says")
        parts += self._table(
            "unchecked", "Not checked", "No equation spoke of these; nothing is known of them.", "place why"
        )
        facts = [
            ("steps", f"{len(self.steps)}" + (f", of which {broken} do not hold" if broken else "")),
            ("equations checked", f"{self.counts['checked']:,}"),
            *((name, f"{self.counts[name]:,}") for name in VERDICTS if self.counts[name]),
            ("not checked", f"{self.counts['not_checked']:,}"),
            *([("suspect practices", str(len(suspects)))] if suspects else []),
        ]
        tone: Tone = "warn" if verdict == "holds" and suspects else TONES[verdict]
        cause = [("step", self.first[0]), *_facts(self.first[1])] if self.first else []
        return Section(self.title, verdict, tone, facts, cause, parts, details)

    def _table(self, what: str, title: str, note: str, columns: str) -> list[Table]:
        found = self.notes[what]
        if not found:
            return []
        if len(found) > MOST_ROWS:
            note += f" {len(found) - MOST_ROWS} more are not shown."
        rows = [[*entry, str(count)] for entry, count in found.most_common(MOST_ROWS)]
        tones: list[Tone] = ["warn"] * len(rows) if what == "suspect" else []
        return [Table(title, note, [*columns.split(), "times"], rows, tones)]

    def _grid(self, places: list[_Place], keys: list[str]) -> Grid:
        steps = list(self.steps)
        if len(steps) > MOST_STEPS:
            every = -(-len(steps) // (MOST_STEPS // 2))
            broken = [step for step in steps if self.steps[step] == "broken"][: MOST_STEPS // 2]
            steps = [step for i, step in enumerate(steps) if i % every == 0 or step in broken]
        note = "The largest error of each place in each step, over its certain bound. What does not hold is crossed."
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
            [[step in each.broken for step in steps] for each in places],
        )


def _along(entry: tuple[tuple[str, str], _Place]) -> int:
    """Kinds in the order of a step; within one, places in the order in which they were judged."""
    kind = entry[0][0]
    return KINDS.index(kind) if kind in KINDS else len(KINDS) + (1 + LAST.index(kind) if kind in LAST else 0)


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


def _row(step: str, result: Result) -> list[str]:
    return [
        ("↳ " if result.cascades_from is not None else "") + f"{result.equation} at {result.place}{place(result.at)}",
        step,
        result.verdict,
        number(result.ratio),
        number(result.slope),
        number(result.claimed),
        number(result.derived),
        "; ".join(said for said in (result.cause, result.because) if said),
    ]


def _facts(result: Result) -> list[tuple[str, str]]:
    return [
        ("equation", f"{result.equation} at {result.place}{place(result.at)}"),
        ("verdict", result.verdict),
        *([("cause", result.cause)] if result.cause else []),
        ("claimed", f"{result.claimed:.9g}"),
        ("derived", f"{result.derived:.9g}"),
        ("bound", number(result.bound)),
        ("error / certain bound", number(result.ratio)),
        ("error / likely bound", number(result.likely)),
        ("slope", f"{result.slope:+.3e}"),
        *([("why", result.because)] if result.because else []),
    ]


def _detail(each: _Place) -> Detail:
    facts = [("worst in step", each.step), *_facts(each.worst)] if each.worst is not None else []
    return Detail(each.name, facts)


def run_section(title: str, verdicts: Iterable[StepVerdict]) -> Section:
    """A run's verdicts as a section."""
    page = RunPage(title)
    for verdict in verdicts:
        page.add(verdict)
    return page.section()

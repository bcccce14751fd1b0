"""Does the tensor where a mistake begins get named? Ours beside the rule of the C framework's own tool, on the same traces.

The other rule, as its description has it: rows in seven tiers, in forward order within each; a row is the first drift where
max |a − b| > 1e-4 and max |a − b|/max(|b|, 1e-12) exceeds a thousand times a floor that starts at 1e-6 and is raised to the error of each
row that is no drift. Whatever it does not pair, it does not see.

    python bench/localize.py [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "trace"))

from mill import Run, grind  # noqa: E402 # where the tests' own traces are made
from mistakes import PLANTED  # noqa: E402
from odt import DUMPS, told  # noqa: E402
from test_compare_planted import RIGHT  # noqa: E402

from backproof.trace import Place, open_trace  # noqa: E402
from backproof.trace.store import TraceStep  # noqa: E402
from backproof.verify.traces.compare import Options, compare  # noqa: E402

TIERS = ("fwd", "lossgrad", "agrad", "grad_raw", "grad_scaled", "w_before", "w_after")
ABSOLUTE, TIMES, FLOOR = 1e-4, 1000.0, 1e-6


@dataclass(frozen=True)
class Subject:
    """Two traces, and what is known of them."""

    group: str
    name: str
    a: Path
    b: Path
    first: str
    """The tensor where the mistake begins; empty where there is none."""
    side: str = ""
    options: Options | None = None


@dataclass(frozen=True)
class Row:
    """What both rules said."""

    group: str
    name: str
    wanted: str
    ours: str
    our_side: str
    ours_right: bool
    theirs: str
    theirs_right: bool


def their_first(a: TraceStep, b: TraceStep, order: list[str]) -> str:
    """The first drift by the other rule; empty where all tiers agree."""
    depth = {name: i for i, name in enumerate(order)}
    for tier in TIERS:
        floor = FLOOR
        rows = sorted(
            (place for place in a.places if place.phase == tier and place in b.places),
            key=lambda place: (
                depth.get(place.probe, 99),
                -1 if place.sample is None else place.sample,
                place.parameter,
            ),
        )
        for place in rows:
            absolute, relative = _errors(a, b, place)
            if absolute > ABSOLUTE and relative > TIMES * floor:
                return place.column
            if relative < 1:
                floor = max(floor, relative)
    return ""


def _errors(a: TraceStep, b: TraceStep, place: Place) -> tuple[float, float]:
    x, y = (np.asarray(step.tensor(place), dtype=np.float64) for step in (a, b))
    if x.shape != y.shape:
        return np.inf, np.inf
    off = np.abs(x - y)
    return float(np.max(off, initial=0.0)), float(np.max(off / np.maximum(np.abs(y), 1e-12), initial=0.0))


def row_of(subject: Subject) -> Row:
    """Both rules on one pair of traces."""
    found = compare(subject.a, subject.b, subject.options)
    first = found.first if found.verdict == "differ" else None
    ours, side = (first.place.column if first.place else first.kind, first.side) if first else ("", "")
    traces = [open_trace(path) for path in (subject.a, subject.b)]
    last = min(max(trace.steps) for trace in traces)
    theirs = their_first(traces[0].steps[last], traces[1].steps[last], list(found.order))
    right = ours == subject.first and side == subject.side
    return Row(subject.group, subject.name, subject.first, ours, side, right, theirs, theirs == subject.first)


def planted(root: Path) -> Iterator[Subject]:
    """Mistakes in Python, in a small network."""
    for i, one in enumerate(PLANTED):
        run = Run(steps=one.steps)
        good = root / f"good{one.steps}"
        if not good.exists():
            grind(good, run)
        yield Subject("planted", one.name, good, grind(root / f"bad{i}", run, one.wrong), one.first, one.side)


def honest(root: Path) -> Iterator[Subject]:
    """Two right implementations that round, sum or break ties otherwise."""
    for i, (name, (a, b)) in enumerate(RIGHT.items()):
        for seed in range(1, 6):
            folder = root / f"honest{i}.{seed}"
            left, right = (grind(folder / side, replace(run, seed=seed)) for side, run in (("a", a), ("b", b)))
            yield Subject("honest", f"{name}, seed {seed}", left, right, "")


def dumps() -> Iterator[Subject]:
    """Real dumps of a C framework and its mirror."""
    for batch in ("batch00", "batch02") if DUMPS.is_dir() else ():
        yield Subject("dumps", batch, DUMPS / "c" / batch, DUMPS / "pt" / batch, "", options=told())


GROUPS = {"planted": planted, "honest": honest, "dumps": lambda root: dumps()}


def main() -> None:
    """Print the table, and how many of each group each rule has right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for group, make in GROUPS.items():
            found = [row_of(subject) for subject in make(Path(temporary))]
            rows += found
            if args.json or not found:
                continue
            print(f"\n{group}\n{'':46} {'begins at':40} {'ours':44} theirs")
            for row in found:
                marks = ["✓" if right else "✗" for right in (row.ours_right, row.theirs_right)]
                ours = f"{row.ours or 'agree'} {row.our_side}".strip()
                print(f"{row.name:46} {row.wanted or '-':40} {marks[0]} {ours:42} {marks[1]} {row.theirs or 'agree'}")
            right = [sum(getattr(row, name) for row in found) for name in ("ours_right", "theirs_right")]
            print(f"{group}: ours {right[0]} of {len(found)}, theirs {right[1]} of {len(found)}")
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()

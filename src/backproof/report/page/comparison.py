"""A comparison of two traces as a section of the page: where they part, which side is wrong, and what is rounding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.report.comparison import many
from backproof.report.page.section import Curve, Detail, Grid, Histogram, Line, Section, Table, Tone, number, place
from backproof.trace.event import Place
from backproof.trace.phases import PHASES
from backproof.verify.traces.outcome import DIFFERS, Comparison, Finding, Seen, StepOutcome
from backproof.verify.traces.side import Side

MOST_DETAILS = 600  # tensors whose elements are looked at; the worst of them
MOST_ROWS = 500
WORST = 10
TONES: dict[str, Tone] = {"agree": "good", "undecided": "warn", "differ": "bad", "incomplete": "bad"}
EXPLAINED = ("flip", "follows")
HONEST = ("equal", "agrees", "rounding")
STATES: dict[str, Tone] = {**dict.fromkeys(HONEST, "good"), "flip": "warn", "undecided": "warn", "finding": "bad"}

Key = tuple[int, Place]


@dataclass(frozen=True)
class Sides:
    """The tensors of a step on both sides, for who looks at elements."""

    a: Side
    b: Side


def comparison_section(title: str, found: Comparison, sides: Mapping[int, Sides]) -> Section:
    """A comparison; `sides` has the tensors of each step."""
    pairs = [((step.step, where), seen) for step in found.steps for where, seen in step.seen.items()]
    worst = sorted(pairs, key=lambda pair: _weight(pair[1]), reverse=True)[:MOST_DETAILS]
    keys = {key: f"t{i}" for i, (key, _) in enumerate(worst)}
    details = {keys[key]: _detail(key, seen, sides.get(key[0])) for key, seen in worst}
    first = found.first
    parts: list[Grid | Curve | Table] = [
        *_findings(found, keys),
        *_flips(found.steps),
        *_undecided(found.steps, keys),
        *_grid(found, pairs, keys),
        *_curves(found, pairs, keys),
        *_all(pairs, keys),
    ]
    facts = [
        ("a", found.names[0]),
        ("b", found.names[1]),
        ("pairs of tensors compared", f"{found.compared:,} in {many(len(found.steps), 'step')}"),
        ("decisions taken otherwise", f"{sum(flip.turned.count for flip in found.flips):,}"),
        *([("undecided", f"{len(found.undecided):,}")] if found.undecided else []),
        *([("guessed", found.guessed)] if found.guessed else []),
    ]
    return Section(title, found.verdict, TONES[found.verdict], facts, _cause(first), parts, details)


def _weight(seen: Seen) -> float:
    """What is looked at first: findings, then the largest differences."""
    return (1e9 if seen.state == "finding" else 0.0) + min(seen.gap.relative, 1e6)


def _side(side: str, names: tuple[str, str]) -> str:
    return {"a": f"a ({names[0]})", "b": f"b ({names[1]})"}.get(side, side or "not known")


def _cause(first: Finding | None) -> list[tuple[str, str]]:
    if first is None:
        return []
    facts = [("what", first.says), ("place", str(first.place) if first.place else ""), ("wrong side", first.side)]
    if first.by:
        facts.append(("made by", first.by))
    if first.gap is not None:
        facts += [("relative difference", number(first.gap.relative)), ("slope", f"{first.gap.slope:+.3e}")]
    if first.local is not None:
        facts += [
            ("recorded", f"{first.local.claimed:.9g}"),
            ("derived", f"{first.local.derived:.9g} {place(first.local.at)}"),
            ("error / bound", number(first.local.ratio)),
        ]
    if first.hints:
        facts.append(("hint", "; ".join(first.hints)))
    return [(name, value) for name, value in facts if value]


def _findings(found: Comparison, keys: Mapping[Key, str]) -> Iterable[Table]:
    rows = found.all_findings[:MOST_ROWS]
    if not rows:
        return
    yield Table(
        "Findings",
        "First cause first.",
        ["place", "step", "side", "what", "difference", "hint"],
        [
            [
                (str(one.place) if one.place else one.kind)
                + (f" and {len(one.samples) - 1} more samples" if len(one.samples) > 1 else ""),
                str(one.step) if one.step >= 0 else "",
                _side(one.side, found.names),
                ("known: " if one.allowed else "") + one.says,
                number(one.gap.relative if one.gap else None),
                "; ".join(one.hints),
            ]
            for one in rows
        ],
        ["bad" if one.effect == DIFFERS else "warn" for one in rows],
        [keys.get((one.step, one.place), "") if one.place else "" for one in rows],
    )


def _flips(steps: Iterable[StepOutcome]) -> Iterable[Table]:
    flips = sorted((flip for step in steps for flip in step.flips), key=lambda flip: flip.follows)
    if not flips:
        return
    rows, tones = [], []
    for flip in flips:
        for turn in flip.turned.turns[:WORST]:
            rows.append(
                [
                    f"{flip.turned.probe}{place(turn.at)}",
                    str(flip.step),
                    "" if flip.turned.sample is None else str(flip.turned.sample),
                    turn.op,
                    number(turn.margin[0]),
                    number(turn.margin[1]),
                    number(flip.noise),
                    "follows" if flip.follows else "honest" if flip.honest else "not honest",
                    flip.because,
                    ", ".join(flip.explains[:6]) + ("…" if len(flip.explains) > 6 else ""),
                ]
            )
            tones.append("warn" if flip.honest else "bad")
    yield Table(
        "Decisions that the sides took otherwise",
        "A margin within the noise is a near-tie: both sides are right, and what follows from it is explained by it. "
        "A decision that follows fell the other way for a difference before it.",
        ["where", "step", "sample", "kind", "margin on a", "margin on b", "noise", "verdict", "why", "explains"],
        rows[:MOST_ROWS],
        tones[:MOST_ROWS],  # type: ignore[arg-type] # tones
    )


def _undecided(steps: Iterable[StepOutcome], keys: Mapping[Key, str]) -> Iterable[Table]:
    rows = [one for step in steps for one in step.undecided][:MOST_ROWS]
    if rows:
        yield Table(
            "Undecided",
            "These differ, and what was recorded cannot tell whether honestly.",
            ["place", "step", "difference", "why"],
            [
                [str(one.place), str(one.step), number(one.gap.relative if one.gap else None), one.because]
                for one in rows
            ],
            ["warn"] * len(rows),
            [keys.get((one.step, one.place), "") for one in rows],
        )


def _grid(found: Comparison, pairs: list[tuple[Key, Seen]], keys: Mapping[Key, str]) -> Iterable[Grid]:
    """Probe by phase: the worst of all steps, samples and parameters."""
    cells: dict[tuple[str, str], tuple[Seen, str]] = {}
    for key, seen in pairs:
        cell = key[1].probe, key[1].phase
        if cell not in cells or _weight(seen) > _weight(cells[cell][0]):
            cells[cell] = seen, keys.get(key, "")
    if not cells:
        return
    probes = [name for name in found.order if any(name == cell[0] for cell in cells)]
    probes += [name for name in dict.fromkeys(cell[0] for cell in cells) if name not in probes]
    phases = [phase for phase in PHASES if any(phase == cell[1] for cell in cells)]
    line, note = _line(seen for _, seen in pairs)
    shown = [[cells.get((probe, phase)) for phase in phases] for probe in probes]
    yield Grid(
        "Every layer and phase",
        "The largest difference of each layer, relative to the tensor's scale; the network runs downwards. "
        f"What has a finding is crossed; violet is what follows from one, or from a decision that fell the other way. {note}",
        probes,
        phases,
        [[cell[0].gap.relative if cell else None for cell in row] for row in shown],
        "of scale",
        line,
        [[cell[1] if cell else "" for cell in row] for row in shown],
        [[cell is not None and cell[0].state == "finding" for cell in row] for row in shown],
        [[cell is not None and cell[0].state in EXPLAINED for cell in row] for row in shown],
    )


def _line(pairs: Iterable[Seen]) -> tuple[float, str]:
    """Where colours turn: at the largest difference that was put down to rounding."""
    largest = max((seen.gap.relative for seen in pairs if seen.state in HONEST), default=0.0)
    if not largest > 0:
        return 1e-7, "Colours turn at 1e-7."
    return 1.5 * largest, f"Colours turn above {largest:.2g}, the largest difference that rounding explains here."


def _curves(found: Comparison, pairs: list[tuple[Key, Seen]], keys: Mapping[Key, str]) -> Iterable[Curve]:
    """Each tensor of each side against its own derivation, in causal order."""
    best: dict[str, tuple[list[float | None], str]] = {}
    for key, seen in pairs:
        column = key[1].column
        ratios, name = best.setdefault(column, ([None, None], ""))
        for i, local in enumerate(seen.locals):
            if local is not None and (ratios[i] is None or local.ratio > ratios[i]):  # type: ignore[operator] # not None
                ratios[i] = local.ratio
                best[column] = ratios, keys.get(key, name)
    best = {column: entry for column, entry in best.items() if any(ratio is not None for ratio in entry[0])}
    if best:
        yield Curve(
            "Each side against its own mathematics",
            "Each tensor, derived from what the same side recorded at its inputs: the error over the bound of rounding, in causal order.",
            list(best),
            [
                Line(f"a: {found.names[0]}", [entry[0][0] for entry in best.values()]),
                Line(f"b: {found.names[1]}", [entry[0][1] for entry in best.values()]),
                Line("the bound", [1.0] * len(best), bound=True),
            ],
            "error / bound",
            [entry[1] for entry in best.values()],
        )


def _all(pairs: list[tuple[Key, Seen]], keys: Mapping[Key, str]) -> Iterable[Table]:
    if not pairs:
        return
    shown = sorted(pairs, key=lambda pair: _weight(pair[1]), reverse=True)[:MOST_ROWS]
    note = (
        f"The {len(shown)} largest differences of {len(pairs):,}."
        if len(shown) < len(pairs)
        else "Largest difference first."
    )
    yield Table(
        "Tensors",
        note,
        ["tensor", "step", "state", "difference", "L2", "slope", "cosine"],
        [
            [
                str(where),
                str(step),
                seen.state,
                number(seen.gap.relative),
                number(seen.gap.l2),
                f"{seen.gap.slope:+.2e}",
                f"{seen.gap.cosine:.9f}",
            ]
            for (step, where), seen in shown
        ],
        [STATES.get(seen.state, "none") for _, seen in shown],
        [keys.get(key, "") for key, _ in shown],
    )


def _detail(key: Key, seen: Seen, sides: Sides | None) -> Detail:
    step, where = key
    facts = [
        ("step", str(step)),
        ("state", seen.state),
        ("elements", f"{seen.gap.size:,}, of which {seen.gap.differing:,} differ"),
        (
            "largest difference",
            f"{number(seen.gap.largest)}, {number(seen.gap.relative)} of the scale {number(seen.gap.scale)}",
        ),
        ("slope, cosine", f"{seen.gap.slope:+.3e}, {seen.gap.cosine:.9f}"),
    ]
    for name, local in zip("ab", seen.locals, strict=True):
        if local is not None:
            said = f"{local.verdict}: error / bound {number(local.ratio)}, recorded {local.claimed:.9g}, derived {local.derived:.9g}"
            facts.append((f"{name} against its own mathematics", f"{said} {place(local.at)}"))
    if sides is None or not (sides.a.has(where) and sides.b.has(where)):
        return Detail(str(where), facts)
    a, b = sides.a.tensor(where), sides.b.tensor(where)
    if a.shape != b.shape or not a.size:
        return Detail(str(where), facts)
    rows, histogram = _elements(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    return Detail(str(where), facts, "", histogram, ["element", "a", "b", "difference"], rows)


def _elements(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[list[list[str]], Histogram | None]:
    """The elements that are furthest apart, and how differences are spread."""
    with np.errstate(all="ignore"):
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b)).reshape(-1)
        off = np.where(np.isnan(off), math.inf, off)
    most = min(WORST, off.size)
    order = np.argpartition(-off, most - 1)[:most]
    order = order[np.argsort(-off[order], kind="stable")]
    rows = []
    for i in order:
        at = tuple(int(n) for n in np.unravel_index(int(i), a.shape))
        rows.append([place(at), f"{a[at]:.9g}", f"{b[at]:.9g}", number(float(off[i]))])
    some = off[(off > 0) & np.isfinite(off)]
    if not some.size:
        return rows, None
    sizes = np.log10(some)
    low, high = math.floor(sizes.min() * 2) / 2, math.ceil(sizes.max() * 2) / 2
    edges = np.arange(low, max(high, low + 0.5) + 0.25, 0.5 if high - low > 4 else 0.125)
    counts, edges = np.histogram(sizes, bins=edges)
    return rows, Histogram([float(edge) for edge in edges], [int(n) for n in counts], int(np.sum(off == 0)))

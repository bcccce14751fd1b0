"""A sweep over many batches as a section of the page: what is wrong in every batch, and what comes and goes with the data."""

from __future__ import annotations

from collections import Counter
from typing import Any

from backproof.report.page.comparison import EXPLAINED
from backproof.report.page.section import Curve, Detail, Grid, Line, Section, Table, Tone, number
from backproof.report.sweep import RANK, SAYS
from backproof.trace.phases import PHASES
from backproof.verify.traces.aggregate import Column, columns_of, verdict_of

TONES: dict[str, Tone] = {"agree": "good", "undecided": "warn", "differ": "bad", "incomplete": "bad"}
BATCHES: dict[str, Tone] = {"agree": "good", "undecided": "warn"}
KINDS: dict[str, Tone] = {"wrong": "bad", "sometimes wrong": "bad", "noise": "good"}
HONEST = ("equal", "agrees", "rounding")


def sweep_section(title: str, results: list[dict[str, Any]], names: tuple[str, str]) -> Section:
    """The results of all batches."""
    columns = columns_of(results)
    keys = {column.name: f"c{i}" for i, column in enumerate(columns)}
    batches = [str(result["name"]) for result in results]
    counts = Counter(result["verdict"] for result in results)
    verdict = verdict_of(results)
    parts: list[Grid | Curve | Table] = [_batches(results)]
    if columns:
        line = 1.5 * max((_honest(column) for column in columns), default=0.0) or 1e-7
        parts += [
            _kinds(columns, keys),
            _by_batch(columns, batches, keys, line),
            _by_phase(columns, results, keys, line),
        ]
        parts += _bounds(columns, names, keys)
    facts = [
        ("a", names[0]),
        ("b", names[1]),
        ("batches", f"{len(results)}: " + ", ".join(f"{count} {name}" for name, count in counts.items())),
        ("tensors followed", f"{len(columns):,}"),
    ]
    details = {keys[column.name]: _detail(column, batches) for column in columns}
    return Section(title, verdict, TONES[verdict], facts, _cause(results), parts, details)


def _honest(column: Column) -> float:
    """The largest difference that was put down to rounding."""
    pairs = zip(column.per_batch, column.states, strict=True)
    return max((value for value, state in pairs if value is not None and state in HONEST), default=0.0)


def _cause(results: list[dict[str, Any]]) -> list[tuple[str, str]]:
    for result in results:
        first = result.get("first")
        if first:
            return [
                ("batch", str(result["name"])),
                ("place", first["place"]),
                ("wrong side", first["side"]),
                ("what", first["says"]),
            ]
        if result.get("failed"):
            return [("batch", str(result["name"])), ("failed", result["failed"]["why"])]
    return []


def _batches(results: list[dict[str, Any]]) -> Table:
    rows = []
    for result in results:
        loss, first = result.get("loss") or {}, result.get("first") or {}
        flips = sum(flip["count"] for flip in result.get("flips") or ())
        why = result["failed"]["why"] if result.get("failed") else ""
        said = f"{first['place']} {first['side']}: {first['says']}" if first else why
        rows.append(
            [
                str(result["name"]),
                result["verdict"],
                number(loss.get("a")),
                number(loss.get("b")),
                str(flips or ""),
                said,
            ]
        )
    tones: list[Tone] = [BATCHES.get(result["verdict"], "bad") for result in results]
    columns = ["batch", "verdict", "loss of a", "loss of b", "flips", "first"]
    return Table("Batches", "Each compared by itself.", columns, rows, tones)


def _kinds(columns: list[Column], keys: dict[str, str]) -> Table:
    shown = sorted(columns, key=lambda column: (RANK.index(column.kind), -column.relative[1]))
    rows = [
        [
            column.name,
            column.kind,
            f"{column.differs} of {column.batches}",
            number(column.largest[0]),
            number(column.largest[1]),
            number(column.relative[0]),
            number(column.relative[1]),
            number(column.slope[0]),
        ]
        for column in shown
    ]
    note = "; ".join(f"{kind}: {SAYS[kind]}" for kind in RANK if any(column.kind == kind for column in columns))
    heads = [
        "tensor",
        "kind",
        "findings in",
        "mean |a − b|",
        "max |a − b|",
        "mean of scale",
        "max of scale",
        "mean slope",
    ]
    tones: list[Tone] = [KINDS.get(column.kind, "warn") for column in shown]
    return Table("Tensors over all batches", f"{note}.", heads, rows, tones, [keys[column.name] for column in shown])


def _by_batch(columns: list[Column], batches: list[str], keys: dict[str, str], line: float) -> Grid:
    return Grid(
        "Every tensor in every batch",
        "The difference relative to the tensor's scale. Findings are crossed: a mistake is a row of them. Violet is what follows from one, "
        "or from a decision that fell the other way; it comes and goes with the data.",
        [column.name for column in columns],
        batches,
        [list(column.per_batch) for column in columns],
        "of scale",
        line,
        [[keys[column.name]] * len(batches) for column in columns],
        [[state == "finding" for state in column.states] for column in columns],
        [[state in EXPLAINED for state in column.states] for column in columns],
    )


def _by_phase(columns: list[Column], results: list[dict[str, Any]], keys: dict[str, str], line: float) -> Grid:
    cells: dict[tuple[str, str], Column] = {}
    for column in columns:
        cell = column.probe, column.phase
        if cell not in cells or _weight(column) > _weight(cells[cell]):
            cells[cell] = column
    order: list[str] = next((result["order"] for result in results if result.get("order")), [])
    probes = [
        name for name in dict.fromkeys([*order, *(cell[0] for cell in cells)]) if any(name == cell[0] for cell in cells)
    ]
    phases = [phase for phase in PHASES if any(phase == cell[1] for cell in cells)]
    found = [[cells.get((probe, phase)) for phase in phases] for probe in probes]
    return Grid(
        "Every layer and phase",
        "The largest difference of all batches; the network runs downwards. What has a finding in any of them is crossed.",
        probes,
        phases,
        [[None if column is None else column.relative[1] for column in row] for row in found],
        "of scale",
        line,
        [["" if column is None else keys[column.name] for column in row] for row in found],
        [[column is not None and column.differs > 0 for column in row] for row in found],
        [[column is not None and column.kind in ("flips", "follows") for column in row] for row in found],
    )


def _weight(column: Column) -> tuple[bool, float]:
    """What stands for a layer and phase: findings first, then the largest difference."""
    return column.differs > 0, column.relative[1]


def _bounds(columns: list[Column], names: tuple[str, str], keys: dict[str, str]) -> list[Curve]:
    derived = [column for column in columns if max(column.bound) > 0]
    if not derived:
        return []
    lines = [
        Line(f"a: {names[0]}", [column.bound[0] for column in derived]),
        Line(f"b: {names[1]}", [column.bound[1] for column in derived]),
        Line("the bound", [1.0] * len(derived), bound=True),
    ]
    note = "Each tensor, derived from what the same side recorded at its inputs: the worst error over the bound of rounding."
    labels = [column.name for column in derived]
    return [
        Curve(
            "Each side against its own mathematics",
            note,
            labels,
            lines,
            "error / bound",
            [keys[name] for name in labels],
        )
    ]


def _detail(column: Column, batches: list[str]) -> Detail:
    facts = [
        ("kind", f"{column.kind}: {SAYS[column.kind]}"),
        ("findings in", f"{column.differs} of {column.batches} batches"),
        ("largest |a − b|, mean and most", f"{number(column.largest[0])}, {number(column.largest[1])}"),
        ("of scale, mean and most", f"{number(column.relative[0])}, {number(column.relative[1])}"),
        ("slope, mean and farthest", f"{column.slope[0]:+.3e}, {column.slope[1]:+.3e}"),
        ("error / bound of a and b", f"{number(column.bound[0])}, {number(column.bound[1])}"),
    ]
    pairs = zip(batches, column.per_batch, column.states, strict=True)
    rows = [[batch, number(value), state or "not compared"] for batch, value, state in pairs]
    return Detail(column.name, facts, columns=["batch", "of scale", "state"], rows=rows)

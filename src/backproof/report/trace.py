"""What is in a trace: a listing, and single tensors with their statistics and a histogram."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from backproof.errors import UsageError
from backproof.report.comparison import finite
from backproof.trace.event import Place
from backproof.trace.statistics import Statistics, histogram_of, statistics_of
from backproof.trace.store import Trace
from backproof.verify.traces.network import network_of

BARS = "▁▂▃▄▅▆▇█"
MOST_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One probe and phase of a step: what is the same but for the sample."""

    step: int
    column: str
    shape: tuple[int, ...]
    dtype: str
    samples: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Shown:
    """One tensor."""

    step: int
    place: Place
    dtype: str
    statistics: Statistics
    counts: list[int]
    edges: list[float]


def _steps(trace: Trace, step: int | None) -> list[int]:
    if step is None:
        return list(trace.steps)
    if step not in trace.steps:
        raise UsageError(f"{trace.path}: there is no step {step}; there are {', '.join(map(str, trace.steps))}")
    return [step]


def listing(trace: Trace, step: int | None = None) -> list[Row]:
    """Everything that was recorded, in causal order."""
    seen = {place.probe for one in trace.steps.values() for place in one.keys.values()}
    network = network_of((trace.manifest,), (), seen)
    rows = []
    for index in _steps(trace, step):
        found = trace.steps[index]
        groups: dict[str, list[Place]] = {}
        for place in sorted(found.keys.values(), key=network.causal):
            groups.setdefault(place.column, []).append(place)
        for column, places in groups.items():
            first = found.raw(places[0])
            samples = tuple(place.sample for place in places if place.sample is not None)
            size = sum(found.raw(place).nbytes for place in places)
            rows.append(Row(index, column, tuple(first.shape), found.dtype(places[0]), samples, size))
    return rows


def listing_json(trace: Trace, rows: Iterable[Row]) -> dict[str, Any]:
    """A listing as plain data."""
    told = trace.told
    return {
        "path": str(trace.path),
        "manifest": trace.manifest is not None,
        "framework": told.framework,
        "batch": told.batch,
        "scale": dict(told.scale),
        "steps": list(trace.steps),
        "tensors": [{**asdict(row), "shape": list(row.shape), "samples": list(row.samples)} for row in rows],
        "unnamed": [name for step in trace.steps.values() for name in step.unnamed],
    }


def print_listing(trace: Trace, rows: list[Row], console: Console) -> None:
    """A listing as a table."""
    told = trace.told
    facts = [told.framework or ("no manifest" if trace.manifest is None else "")]
    facts += [f"batch {told.batch}"] if told.batch else []
    facts += [f"{phase} × {factor:g}" for phase, factor in told.scale.items() if factor != 1]
    console.print(Text(f"{trace.path}  {', '.join(fact for fact in facts if fact)}"))
    table = Table(box=None, pad_edge=False)
    for name in ("step", "tensor", "shape", "format", "samples", "bytes"):
        table.add_column(name, justify="right" if name in ("step", "bytes") else "left", overflow="fold")
    for row in rows:
        table.add_row(
            str(row.step),
            row.column,
            " × ".join(map(str, row.shape)) or "one number",
            row.dtype,
            _ranges(row.samples),
            f"{row.bytes:,}",
        )
    console.print(table)
    console.print(
        Text(f"{sum(max(len(row.samples), 1) for row in rows):,} tensors, {sum(row.bytes for row in rows):,} bytes")
    )
    for step in trace.steps.values():
        for name in step.unnamed:
            console.print(Text(f"not a tensor: {step.path.name}/{name}"))


def _ranges(samples: tuple[int, ...]) -> str:
    if not samples:
        return "whole batch"
    straight = samples == tuple(range(samples[0], samples[-1] + 1))
    return f"{samples[0]}-{samples[-1]}" if straight and len(samples) > 1 else ", ".join(map(str, samples))


def shown(trace: Trace, name: str, step: int | None = None) -> list[Shown]:
    """Every tensor of this name."""
    found = []
    for index in _steps(trace, step):
        one = trace.steps[index]
        for key, place in sorted(one.keys.items()):
            if name in (key, str(place), place.column, f"{place.probe}.{place.phase}"):
                tensor = one.tensor(place)
                counts, edges = histogram_of(tensor)
                found.append(Shown(index, place, one.dtype(place), statistics_of(tensor), counts, edges))
    if not found:
        names = sorted({f"{place.probe}.{place.phase}" for one in trace.steps.values() for place in one.keys.values()})
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "`bp trace ls` lists what there is"
        raise UsageError(f"{trace.path}: no tensor is named {name!r}; {hint}")
    return found


def shown_json(tensors: Iterable[Shown]) -> list[dict[str, Any]]:
    """Tensors as plain data."""
    return [
        {
            "step": one.step,
            "tensor": str(one.place),
            "format": one.dtype,
            **{
                key: finite(value) if isinstance(value, float) else value
                for key, value in asdict(one.statistics).items()
            },
            "shape": list(one.statistics.shape),
            "histogram": {"counts": one.counts, "edges": one.edges},
        }
        for one in tensors
    ]


def print_tensors(tensors: list[Shown], console: Console) -> None:
    """Tensors one after the other."""
    for one in tensors[:MOST_SHOWN]:
        numbers = one.statistics
        console.print(Text(f"step {one.step}  {one.place}", style="bold"))
        console.print(Text(f"  {' × '.join(map(str, numbers.shape)) or 'one number'} {one.dtype}"))
        console.print(
            Text(
                f"  least {numbers.least:.6g}  largest {numbers.largest:.6g}  mean {numbers.mean:.6g}  "
                f"deviation {numbers.deviation:.6g}  norm {numbers.norm:.6g}"
            )
        )
        strange = [f"{numbers.zeros:,} zeros"] if numbers.zeros else []
        strange += [f"{numbers.nans:,} NaN"] if numbers.nans else []
        strange += [f"{numbers.infinities:,} infinite"] if numbers.infinities else []
        if strange:
            console.print(Text(f"  {', '.join(strange)}", style="yellow" if numbers.nans or numbers.infinities else ""))
        if one.counts:
            console.print(Text(f"  {one.edges[0]:.3g} {bars(one.counts)} {one.edges[-1]:.3g}"))
    if len(tensors) > MOST_SHOWN:
        console.print(Text(f"and {len(tensors) - MOST_SHOWN} more; name one sample as {tensors[0].place}"))


def bars(counts: list[int]) -> str:
    """A histogram in one line; a stretch that holds anything shows."""
    top = max(counts, default=0)
    return "".join(BARS[-(-count * (len(BARS) - 1) // top)] if count else " " for count in counts) if top else ""

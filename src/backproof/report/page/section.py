"""What a page is made of: sections of summaries, tables, heat maps and curves, each entry with details to open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Tone = Literal["good", "bad", "warn", "none"]
"""What a reader should feel: holds, does not hold, worth a look, nothing to say."""


@dataclass(frozen=True)
class Histogram:
    """How often an error is of which size: counts between neighbouring edges, the edges as powers of ten."""

    edges: list[float]
    counts: list[int]
    exact: int = 0
    """How many are no error at all, which has no place on a logarithmic axis."""


@dataclass(frozen=True)
class Detail:
    """What opens when an entry is chosen."""

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    note: str = ""
    histogram: Histogram | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    """A small table: the worst elements, or the equations of a place."""


@dataclass(frozen=True)
class Grid:
    """A heat map: rows by columns, each a number on a logarithmic scale, or nothing."""

    title: str
    note: str
    rows: list[str]
    columns: list[str]
    values: list[list[float | None]]
    unit: str
    """What the numbers are, for the scale: "error / bound"."""
    line: float
    """The number from which on an entry is worth a look; colours turn there."""
    keys: list[list[str]] = field(default_factory=list)
    """Of the details, by entry; an empty one has none."""
    wrong: list[list[bool]] = field(default_factory=list)
    """Which entries have something that does not hold, however small it is: they are crossed."""
    explained: list[list[bool]] = field(default_factory=list)
    """Whether an entry differs for a reason that is known and its own no fault: it is drawn in another colour."""


@dataclass(frozen=True)
class Line:
    """One line of a curve."""

    name: str
    values: list[float | None]
    bound: bool = False
    """Whether it is a limit, which is drawn as one."""


@dataclass(frozen=True)
class Curve:
    """Numbers along the network, on a logarithmic axis."""

    title: str
    note: str
    labels: list[str]
    lines: list[Line]
    unit: str
    keys: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """A table; a row whose key has a detail opens it."""

    title: str
    note: str
    columns: list[str]
    rows: list[list[str]]
    tones: list[Tone] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Section:
    """One subject of the page: a recorded run, a comparison, a sweep."""

    title: str
    verdict: str
    tone: Tone
    facts: list[tuple[str, str]]
    cause: list[tuple[str, str]] = field(default_factory=list)
    """The first cause with its numbers, where there is one."""
    parts: list[Grid | Curve | Table] = field(default_factory=list)
    details: dict[str, Detail] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As plain data; each part says what it is."""
        found = _finite(asdict(self))
        for part, data in zip(self.parts, found["parts"], strict=True):
            data["kind"] = type(part).__name__.lower()
        return found


LARGEST = 1e30  # what is not finite is drawn at the edge of the scale


def _finite(item: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(item, float):
        return item if math.isfinite(item) else LARGEST
    if isinstance(item, dict):
        return {key: _finite(inner) for key, inner in item.items()}
    if isinstance(item, (list, tuple)):
        return [_finite(inner) for inner in item]
    return item


def number(x: float | None) -> str:
    """A number for a reader: four digits."""
    return "" if x is None else f"{x:.4g}"


def place(at: Sequence[int]) -> str:
    """An element's place."""
    return f"[{', '.join(map(str, at))}]" if at else ""

"""What many batches say together: which differences are in all of them, and which come and go with the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

Result = dict[str, Any]
STEADY = 4.0
"""A slope is steady where its mean is this many standard errors from 0."""
LEAST = 8 * 2.0**-24
"""Below it a slope is a rounding that all batches share, such as that of a constant."""


@dataclass(frozen=True)
class Column:
    """One probe, phase and parameter over all batches."""

    name: str
    probe: str
    phase: str
    parameter: str | None
    kind: str
    """wrong: a finding in every batch · sometimes wrong · leans: a steady difference in size · flips · undecided · noise."""
    batches: int
    differs: int
    """In how many of them there is a finding here."""
    flips: int
    largest: tuple[float, float]
    """Mean and maximum over the batches of max |a − b|."""
    relative: tuple[float, float]
    l2: tuple[float, float]
    slope: tuple[float, float]
    """The mean slope, and the one that is farthest from 0."""
    bound: tuple[float, float]
    """The largest error over the bound, of a and of b."""
    per_batch: tuple[float | None, ...]
    """The relative difference in each batch; None where it was not compared."""
    states: tuple[str | None, ...]


def columns_of(results: Sequence[Result]) -> list[Column]:
    """Every column, in the order of the first batch that has it."""
    names = dict.fromkeys(name for result in results for name in result.get("columns", {}))
    return [_column(name, [result.get("columns", {}).get(name) for result in results]) for name in names]


def _column(name: str, cells: list[Result | None]) -> Column:
    found = [cell for cell in cells if cell is not None]
    states = [cell["state"] for cell in found]
    slopes = [float(cell["slope"]) for cell in found]
    differs = states.count("finding")
    first = found[0]
    return Column(
        name,
        first["probe"],
        first["phase"],
        first["parameter"],
        _kind(states, slopes),
        len(found),
        differs,
        states.count("flip"),
        _spread(found, "largest"),
        _spread(found, "relative"),
        _spread(found, "l2"),
        (fmean(slopes), max(slopes, key=abs)),
        (max(float(cell["bound"][0]) for cell in found), max(float(cell["bound"][1]) for cell in found)),
        tuple(None if cell is None else cell["relative"] for cell in cells),
        tuple(None if cell is None else cell["state"] for cell in cells),
    )


def _spread(found: list[Result], name: str) -> tuple[float, float]:
    values = [float(cell[name]) for cell in found]
    return fmean(values), max(values)


def _kind(states: list[str], slopes: list[float]) -> str:
    if "finding" in states:
        return "wrong" if states.count("finding") == len(states) else "sometimes wrong"
    if "follows" in states:
        return "follows"
    if "undecided" in states:
        return "undecided"
    if "flip" in states:
        return "flips"
    if len(slopes) >= 3 and all(map(math.isfinite, slopes)):
        mean, spread = fmean(slopes), stdev(slopes)
        if abs(mean) > LEAST and abs(mean) > STEADY * spread / math.sqrt(len(slopes)):
            return "leans"
    return "noise"


def verdict_of(results: Sequence[Result]) -> str:
    """differ where any batch does; incomplete where any failed, or nothing was compared."""
    verdicts = {result["verdict"] for result in results}
    if "differ" in verdicts or any(_lost(result) for result in results):
        return "differ"
    if not results or verdicts & {"failed", "incomplete"}:
        return "incomplete"
    return "undecided" if "undecided" in verdicts else "agree"


def _lost(result: Result) -> bool:
    """Whether a loss is not a number on one side only."""
    losses = [value for value in (result.get("loss") or {}).values() if value is not None]
    return len(losses) == 2 and math.isnan(losses[0]) != math.isnan(losses[1])


def exit_code(results: Sequence[Result], *, strict: bool) -> int:
    """0 agree, 1 differ, 2 incomplete; strictly, what is undecided or explained by flips is 1 too."""
    verdict = verdict_of(results)
    if verdict in ("differ", "incomplete"):
        return 1 if verdict == "differ" else 2
    return 1 if strict and any(result.get("undecided") or result.get("flips") for result in results) else 0

"""A sweep over many batches: as JSON with stable keys, and as tables."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from backproof.report.comparison import COLOURS
from backproof.verify.traces.aggregate import Column, columns_of, exit_code, verdict_of

MOST_SHOWN = 16
RANK = ("wrong", "sometimes wrong", "follows", "undecided", "leans", "flips", "noise")


def sweep_json(results: list[dict[str, Any]], names: tuple[str, str], *, strict: bool = False) -> dict[str, Any]:
    """Everything that was found; per_batch and states are in the order of `batches`. A number that is not finite is null."""
    kept = ("index", "name", "start", "verdict", "failed", "first", "findings", "flips", "undecided", "loss", "seconds")
    return _plain(
        {
            "verdict": verdict_of(results),
            "exit_code": exit_code(results, strict=strict),
            "a": names[0],
            "b": names[1],
            "batches": [{key: result.get(key) for key in kept} for result in results],
            "columns": [asdict(column) for column in columns_of(results)],
            "order": next((result["order"] for result in results if "order" in result), []),
        }
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_sweep(results: list[dict[str, Any]], console: Console, *, verbose: bool = False) -> None:
    """The verdict, each batch, and what the batches say together."""
    verdict, counts = verdict_of(results), Counter(result["verdict"] for result in results)
    said = ", ".join(f"{count} {name}" for name, count in counts.items())
    console.print(Text.assemble((verdict.upper(), COLOURS[verdict]), f"  {len(results)} batches: {said}"))
    console.print(_batches(results))
    columns = columns_of(results)
    for kind in RANK:
        _kind(kind, [column for column in columns if column.kind == kind], console, verbose)


def _batches(results: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("batch", "verdict", "loss a", "loss b", "flips", "first"):
        table.add_column(name, justify="right" if name in ("loss a", "loss b", "flips") else "left", overflow="fold")
    for result in results:
        loss, first = result.get("loss") or {}, result.get("first")
        why = result["failed"]["why"] if result.get("failed") else ""
        flips = sum(flip["count"] for flip in result.get("flips", ()))
        said = f"{first['place']} {first['side']}: {first['says']}" if first else why
        table.add_row(
            result["name"], result["verdict"], _number(loss.get("a")), _number(loss.get("b")), str(flips or ""), said,
            style={"differ": "red", "failed": "red", "incomplete": "yellow", "undecided": "yellow"}.get(result["verdict"], ""),
        )  # fmt: skip
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _kind(kind: str, columns: list[Column], console: Console, verbose: bool) -> None:
    if not columns:
        return
    console.print()
    if kind == "noise" and not verbose:
        worst = max(columns, key=lambda column: column.relative[1])
        said = f"noise: {len(columns)} more, none above {worst.relative[1]:.2g} of scale ({worst.name})"
        console.print(Text(said))
        return
    table = Table(title=f"{kind}: {SAYS[kind]}", title_justify="left", box=None, pad_edge=False)
    heads = (
        "tensor",
        "in",
        "mean |a − b|",
        "max |a − b|",
        "mean of scale",
        "max of scale",
        "mean slope",
        "× bound a",
        "× bound b",
    )
    for name in heads:
        table.add_column(name, justify="left" if name == "tensor" else "right", overflow="fold")
    shown = columns if verbose else columns[:MOST_SHOWN]
    for column in shown:
        count = column.differs or column.flips or sum(state == kind for state in column.states)
        table.add_row(
            column.name,
            f"{count or column.batches}/{column.batches}",
            *(f"{number:.2e}" for number in (*column.largest, *column.relative, column.slope[0])),
            *(f"{number:.2g}" for number in column.bound),
        )
    console.print(table)
    if len(shown) < len(columns):
        console.print(Text(f"  and {len(columns) - len(shown)} more (--verbose lists them)"))


SAYS = {
    "wrong": "a finding in every batch",
    "sometimes wrong": "a finding in some batches: it depends on the data",
    "follows": "differs because of a finding before it",
    "undecided": "what was recorded cannot tell",
    "leans": "within rounding, but by the same part of its size in every batch: worth a look",
    "flips": "near-ties in some batches, and what they explain",
    "noise": "rounding",
}

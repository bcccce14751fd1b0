"""A picture in the terminal: a column of panels for each layer, what flows into a unit inside it, and what fails in red."""

from __future__ import annotations

import os
import sys
from io import StringIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from backproof.errors import printable
from backproof.report.picture import Edge, Picture, Unit, is_cause, sentence

WIDTH = 120  # of what is no terminal
MOST_WEIGHTS = 6  # in one panel, beside those that are wrong
MOST_CAUSES = 12


def as_text(picture: Picture, *, color: bool | None = None, width: int | None = None) -> str:
    """The picture as lines of text; colours where standard output is a terminal, unless it is said otherwise."""
    terminal = sys.stdout.isatty()
    colored = terminal and "NO_COLOR" not in os.environ if color is None else color
    out = StringIO()
    console = Console(
        file=out,
        width=width or (None if terminal else WIDTH),
        force_terminal=colored,
        no_color=not colored,
        highlight=False,
        markup=False,
    )
    grid = Table.grid(padding=(0, 1))
    for _ in picture.layers:
        grid.add_column(vertical="middle")
    columns: list[RenderableType] = [
        Group(Text(printable(name), "dim", justify="center"), *(_panel(picture, unit) for unit in picture.of_layer(k)))
        for k, name in enumerate(picture.layers)
    ]
    grid.add_row(*columns)
    console.print(grid)
    console.print("  ".join(printable(f"{name} {value}") for name, value in picture.facts))
    for cause, folded in picture.causes[:MOST_CAUSES]:
        console.print(Text(printable(f"✗ {sentence(cause)}"), "red"))
        if folded:
            console.print(Text(f"  {len(folded)} follow from it", "dim"))
    if (left := len(picture.causes) - MOST_CAUSES) > 0:
        console.print(f"and {left} more causes")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _panel(picture: Picture, unit: Unit) -> Panel:
    weights = picture.into(unit)
    shown = [
        edge for i, edge in enumerate(weights) if edge.wrong or len(weights) <= MOST_WEIGHTS or i < MOST_WEIGHTS - 1
    ]
    inside = Table.grid(padding=(0, 1))
    inside.add_column()
    inside.add_column(justify="right")
    for edge in shown:
        inside.add_row(*_weight(edge))
    if len(weights) > len(shown):
        inside.add_row(Text(f"and {len(weights) - len(shown)} more", "dim"), "")
    for label, number in unit.numbers:
        inside.add_row(Text(printable(label), "dim"), printable(number))
    style = "none" if not unit.wrong else "red" if is_cause(unit.wrong) else "yellow"
    mark = "" if not unit.wrong else "✗ " if is_cause(unit.wrong) else "· "
    return Panel(inside, title=Text(f"{mark}{printable(unit.name)}"), box=box.ROUNDED, border_style=style, expand=False)


def _weight(edge: Edge) -> tuple[Text, Text]:
    """What flows in, and how the weight moved; below it the factors of its gradient."""
    style = "" if not edge.wrong else "bold red" if is_cause(edge.wrong) else "yellow"
    mark = "" if not edge.wrong else "✗ " if is_cause(edge.wrong) else "· "
    name = Text(printable(f"{mark}{edge.start.name} ─{edge.name}▸"), style)
    moved = edge.before if edge.before == edge.after else f"{edge.before} → {edge.after}"
    number = Text(printable(moved), style)
    if edge.factors:
        name.append(printable("\n  " + " × ".join(number for _, number in edge.factors)), "dim")
    return name, number

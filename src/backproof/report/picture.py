"""A step as a picture: every unit and weight with its numbers, and whatever does not hold in red."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from backproof.receipt.topology import Topology
from backproof.receipt.topology_reading import topology_of
from backproof.verify.verdict import Finding, Verdict

COLUMN, ROW, RADIUS, MARGIN = 300, 130, 34, 70
MOST_LABELLED = 40  # edges; a denser network has its numbers in the tooltips alone
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.small{font-size:10px;fill:#555}"
    ".edge{stroke:#9aa4b2;stroke-width:1.3}.unit{fill:#eef2f7;stroke:#5b6b80;stroke-width:1.5}"
    ".bad{stroke:#c81e1e;stroke-width:3}.badtext{fill:#c81e1e;font-weight:600}"
)


class Unit(NamedTuple):
    """A unit in the picture: where it is, what it says, and what is wrong with it."""

    name: str
    x: float
    y: float
    lines: tuple[str, ...]
    wrong: tuple[Finding, ...]


class Edge(NamedTuple):
    """A weight in the picture."""

    name: str
    start: Unit
    end: Unit
    label: str
    lines: tuple[str, ...]
    wrong: tuple[Finding, ...]


class Picture(NamedTuple):
    """Units and weights with their numbers, and the biases beside them."""

    units: tuple[Unit, ...]
    edges: tuple[Edge, ...]
    elsewhere: tuple[Finding, ...]  # findings that belong to no unit and no weight
    width: int
    height: int


def picture_of(document: Mapping[str, Any], verdict: Verdict, record: int = 0) -> Picture:
    """The picture of one record of a verdict."""
    topology = topology_of(document)
    findings = [finding for finding in verdict.findings if finding.record == record]
    placed: set[int] = set()
    place = _update_places(document)
    units = {unit.name: unit for unit in _units(document, topology, findings, placed, place)}
    edges = tuple(_edges(document, topology, units, findings, placed))
    tallest = max((len(topology.units[layer]) for layer in topology.layers), default=1)
    width = MARGIN * 2 + COLUMN * (len(topology.layers) - 1)
    elsewhere = tuple(finding for i, finding in enumerate(findings) if i not in placed)
    return Picture(tuple(units.values()), edges, elsewhere, width + 60, MARGIN * 2 + ROW * tallest)


def _units(
    document: Mapping[str, Any],
    topology: Topology,
    findings: list[Finding],
    placed: set[int],
    place: Mapping[str, int],
) -> Iterator[Unit]:
    tallest = max((len(topology.units[layer]) for layer in topology.layers), default=1)
    for k, layer in enumerate(topology.layers):
        names = topology.units[layer]
        for i, name in enumerate(names):
            y = MARGIN + ROW * (i + (tallest - len(names)) / 2) + ROW / 2
            wrong = _mine(findings, placed, _unit_places(topology, name, place))
            yield Unit(name, MARGIN + 30 + COLUMN * k, y, tuple(_unit_lines(document, topology, name, k)), wrong)


def _unit_places(topology: Topology, name: str, updates: Mapping[str, int]) -> tuple[str, ...]:
    places = [f"inputs.{name}", f"targets.{name}", f"forward.{name}", f"loss.per_output.{name}"]
    places += [f"post_update_forward.{name}", f"post_update_loss.per_output.{name}"]
    places += [f"backward.{side}_error_signals.{name}" for side in ("hidden", "output")]
    bias = topology.bias_of.get(name)
    if bias:
        places += [f"parameters_after.{bias}", f"parameters_before.{bias}", f"updates[{updates.get(bias, -1)}]"]
    return tuple(places)


def _update_places(document: Mapping[str, Any]) -> dict[str, int]:
    said = document.get("updates")
    entries = said if isinstance(said, list) else []
    return {str(e.get("parameter_id")): i for i, e in enumerate(entries) if isinstance(e, Mapping)}


def _unit_lines(document: Mapping[str, Any], topology: Topology, name: str, layer: int) -> Iterator[str]:
    if layer == 0:
        yield f"x = {_number(document, 'inputs', name)}"
        return
    yield f"net {_number(document, 'forward', name, 'net')}"
    yield f"out {_number(document, 'forward', name, 'out')}"
    side = "output" if layer == len(topology.layers) - 1 else "hidden"
    yield f"δ {_number(document, 'backward', f'{side}_error_signals', name, 'signal_value')}"
    bias = topology.bias_of.get(name)
    if bias:
        yield f"bias {_number(document, 'parameters_before', bias)}"
    if side == "output":
        yield f"target {_number(document, 'targets', name)}"
        yield f"loss {_number(document, 'loss', 'per_output', name)}"


def _edges(
    document: Mapping[str, Any],
    topology: Topology,
    units: Mapping[str, Unit],
    findings: list[Finding],
    placed: set[int],
) -> Iterator[Edge]:
    entries = document.get("updates")
    place = _update_places(document)
    for below, above in pairwise(topology.layers):
        for a in topology.units[below]:
            for b in topology.units[above]:
                name = topology.edges.get((a, b))
                if name is None:
                    continue
                i = place.get(name, -1)
                places = (f"updates[{i}]", f"updates[{name}]", f"parameters_before.{name}", f"parameters_after.{name}")
                wrong = _mine(findings, placed, places)
                entry = entries[i] if isinstance(entries, list) and i >= 0 else {}
                label = f"{_number(document, 'parameters_before', name)} {_signed(entry.get('update'))}"
                yield Edge(name, units[a], units[b], label, tuple(_update_lines(entry)), wrong)


def _update_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    optimizer = entry.get("optimizer")
    factors = optimizer.get("factors") if isinstance(optimizer, Mapping) else None
    for factor in factors if isinstance(factors, list) else []:
        if isinstance(factor, Mapping):
            yield f"{factor.get('name')} = {_shown(factor.get('value'))}"
    for key in ("gradient", "update", "weight_before", "weight_after"):
        yield f"{key} = {_shown(entry.get(key))}"


def _mine(findings: list[Finding], placed: set[int], places: tuple[str, ...]) -> tuple[Finding, ...]:
    """The findings at or below some places."""
    mine = []
    for i, finding in enumerate(findings):
        at = finding.path
        if any(at == place or at.startswith((f"{place}.", f"{place}[")) for place in places):
            placed.add(i)
            mine.append(finding)
    return tuple(mine)


def as_svg(picture: Picture) -> str:
    """The picture as one self-contained SVG."""
    labelled = len(picture.edges) <= MOST_LABELLED
    size = f'viewBox="0 0 {picture.width} {picture.height}" width="{picture.width}" height="{picture.height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>']
    parts += [_edge_svg(edge, labelled=labelled) for edge in picture.edges]
    parts += [_unit_svg(unit) for unit in picture.units]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _edge_svg(edge: Edge, *, labelled: bool) -> str:
    a, b = edge.start, edge.end
    bad = " bad" if edge.wrong else ""
    share = 0.3  # beside its own start, a label covers no other
    x, y = a.x + share * (b.x - a.x), a.y + share * (b.y - a.y) - 4
    text = "badtext" if edge.wrong else "small"
    label = f'<text class="{text}" x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{escape(edge.label)}</text>'
    title = _title((edge.name, *edge.lines), edge.wrong)
    line = f'<line class="edge{bad}" x1="{a.x:.0f}" y1="{a.y:.0f}" x2="{b.x:.0f}" y2="{b.y:.0f}"/>'
    return f"<g>{title}{line}{label if labelled or edge.wrong else ''}</g>"


def _unit_svg(unit: Unit) -> str:
    bad = " bad" if unit.wrong else ""
    rows = [f'<circle class="unit{bad}" cx="{unit.x:.0f}" cy="{unit.y:.0f}" r="{RADIUS}"/>']
    named = ' class="badtext"' if unit.wrong else ""
    rows.append(f'<text{named} x="{unit.x:.0f}" y="{unit.y + 4:.0f}" text-anchor="middle">{escape(unit.name)}</text>')
    for i, line in enumerate(unit.lines):
        y = unit.y + RADIUS + 12 + 11 * i
        rows.append(f'<text class="small" x="{unit.x:.0f}" y="{y:.0f}" text-anchor="middle">{escape(line)}</text>')
    return f"<g>{_title((unit.name, *unit.lines), unit.wrong)}{''.join(rows)}</g>"


def _title(lines: tuple[str, ...], wrong: tuple[Finding, ...]) -> str:
    return f"<title>{escape(chr(10).join([*lines, *map(sentence, wrong)]))}</title>"


def sentence(finding: Finding) -> str:
    """A finding in one line."""
    said, found = _exact(finding.said), _exact(finding.found)
    return f"rule {finding.rule}: {finding.path} says {said}, should be {found} ({finding.because})"


def as_html(picture: Picture, title: str, outcome: str) -> str:
    """The picture and the findings as one self-contained page."""
    every = [f for unit in picture.units for f in unit.wrong] + [f for edge in picture.edges for f in edge.wrong]
    rows = "".join(f"<li>{escape(sentence(finding))}</li>" for finding in dict.fromkeys([*every, *picture.elsewhere]))
    style = "body{font:15px system-ui,sans-serif;margin:2rem;max-width:75rem}li{margin:.3rem 0}svg{max-width:100%;height:auto}"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
    return f"{head}<h1>{escape(title)}</h1><p>{escape(outcome)}</p>{as_svg(picture)}<ul>{rows}</ul></html>\n"


def as_text(picture: Picture) -> str:
    """The picture as lines of text: each unit with what flows into it; `!` marks what does not hold."""
    lines = []
    for unit in picture.units:
        lines.append(f"{'!' if unit.wrong else ' '} {unit.name}: {', '.join(unit.lines)}")
        lines += [f"  ! {sentence(finding)}" for finding in unit.wrong]
        for edge in (edge for edge in picture.edges if edge.end.name == unit.name):
            lines.append(f"{'!' if edge.wrong else ' '}   {edge.start.name} --{edge.name}--> {unit.name}  {edge.label}")
            lines += [f"    ! {sentence(finding)}" for finding in edge.wrong]
    lines += [f"! {sentence(finding)}" for finding in picture.elsewhere]
    return "\n".join(lines) + "\n"


def _number(document: Mapping[str, Any], *path: str) -> str:
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return _shown(found)


def _shown(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.6g}"
    return "nothing" if value is None else str(value)


def _exact(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else _shown(value)


def _signed(value: Any) -> str:
    return f"{value:+.3g}" if isinstance(value, int | float) and not isinstance(value, bool) else ""

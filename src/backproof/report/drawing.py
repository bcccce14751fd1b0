"""A picture as SVG, and as a page: cards for units, weights with the factors of their gradients on them, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise
from typing import NamedTuple

from backproof.errors import printable
from backproof.report.picture import Edge, Picture, Unit, is_cause, sentence
from backproof.verify.verdict import Finding

CARD, HEAD, LINE, FOOT = 176, 28, 17, 9  # a card's width; the heights of its head, of a line, of its foot
BETWEEN = 300  # two layers, where a label fits
LABEL, LABEL_HEIGHT = 152, 34
MARGIN, TOP, LEGEND = 24, 46, 40
MOST_LABELLED = 16  # weights between two layers; a denser network has its numbers in the tooltips alone
LONG_COLUMN = 8  # units, beyond which cards are short
MOST_SHOWN = 30  # causes on a page
COLUMNS = ("said", "derived", "off by", "bound")  # what is told of a cause, in this order

STYLE = """
.bp{--page:#fff;--ink:#1d2430;--soft:#667085;--card:#f8fafc;--line:#cbd5e1;--up:#2563eb;--down:#9333ea;--bad:#d92d20}
@media(prefers-color-scheme:dark){.bp{--page:#10151d;--ink:#e6eaf0;--soft:#94a3b8;--card:#1a222d;--line:#3b4858;
--up:#6ea8fe;--down:#c792f5;--bad:#ff6b5e}}
.bp text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:var(--ink)}
.bp .n{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:11px}
.bp .s{fill:var(--soft)}.bp .h{font-weight:600;font-size:13px}.bp .layer{fill:var(--soft);letter-spacing:.04em}
.bp .card{fill:var(--card);stroke:var(--line)}.bp .plate{fill:var(--page);opacity:.88}
.bp .edge{fill:none;stroke:var(--line)}.bp .up{stroke:var(--up)}.bp .down{stroke:var(--down)}
.bp .edge.dense{opacity:.45}.bp g.w:hover .edge{stroke-width:5;opacity:1}
.bp .bad{stroke:var(--bad);stroke-width:2.5;opacity:1}.bp .after{stroke-dasharray:6 4;stroke-width:1.8}
.bp .badtext{fill:var(--bad);font-weight:600}
""".replace("\n", "")

PAGE = """
:root{color-scheme:light dark}body{margin:0;background:#fff;color:#1d2430;font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:76rem;margin:2rem auto;padding:0 1.5rem}h1{font-size:1.35rem;margin:0 0 .3rem;overflow-wrap:anywhere}
.verdict{font-weight:600;border-radius:1rem;padding:.1rem .7rem;margin-right:.6rem}
.holds{background:#dcfce7;color:#166534}.fails{background:#fee4e2;color:#b42318}
dl{display:flex;flex-wrap:wrap;gap:.2rem 1.6rem;margin:.8rem 0 1.2rem;color:#667085}dl div{display:flex;gap:.45rem}
dd{margin:0;color:#1d2430;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto;display:block}
table{border-collapse:collapse;width:100%;margin-top:1.2rem;font-size:.9rem}
th{text-align:left;font-weight:600;color:#667085}th,td{padding:.35rem .7rem .35rem 0;vertical-align:top;border-bottom:1px solid #e4e7ec}
td.n{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:.82rem;white-space:nowrap}td.r{font-weight:600;color:#d92d20}
td{overflow-wrap:anywhere}details{color:#667085}summary{cursor:pointer}.picture{overflow-x:auto}
@media(max-width:40rem){main{padding:0 1rem}.picture svg{max-width:none}thead{display:none}tr{display:block;border-bottom:1px solid #e4e7ec}
td{display:block;border:0;padding:.15rem 0}td::before{content:attr(data-name) " ";color:#667085;font-weight:400}}
@media(prefers-color-scheme:dark){body{background:#10151d;color:#e6eaf0}dl,th,details{color:#94a3b8}dd{color:#e6eaf0}
th,td{border-color:#2b3645}.holds{background:#12351f;color:#86efac}.fails{background:#451a16;color:#ffa198}td.r{color:#ff6b5e}}
""".replace("\n", "")


class Box(NamedTuple):
    """Where a unit's card lies."""

    x: float
    y: float
    height: float

    @property
    def middle(self) -> float:
        """The height at which weights arrive and leave."""
        return self.y + self.height / 2


def as_svg(picture: Picture) -> str:
    """The picture as one self-contained SVG."""
    boxes, width, height = _placed(picture)
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    largest = max((abs(edge.update) for edge in picture.edges), default=0.0) or 1.0
    parts = [f'<svg class="bp" xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{STYLE}</style>']
    parts.append(f'<rect width="{width:.0f}" height="{height:.0f}" style="fill:var(--page)"/>')
    for k, name in enumerate(picture.layers):
        x = MARGIN + k * (CARD + BETWEEN) + CARD / 2
        parts.append(f'<text class="layer" x="{x:.0f}" y="{TOP - 18}" text-anchor="middle">{_text(name)}</text>')
    ordered = sorted(
        picture.edges, key=lambda edge: (bool(edge.wrong), is_cause(edge.wrong))
    )  # what is wrong lies above
    parts += [_line(edge, boxes, largest, dense=_dense(picture, edge)) for edge in ordered]
    parts += [_label(picture, edge, boxes) for edge in ordered if edge.wrong or not _dense(picture, edge)]
    parts += [_card(picture, unit, boxes[unit.name]) for unit in picture.units]
    parts.append(_legend(height))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _dense(picture: Picture, edge: Edge) -> bool:
    return len(picture.of_layer(edge.start.layer)) * len(picture.of_layer(edge.end.layer)) > MOST_LABELLED


def _placed(picture: Picture) -> tuple[dict[str, Box], float, float]:
    """Every card's place. Labelled rows lie as far apart as the labels between two layers need."""
    columns = [picture.of_layer(k) for k in range(len(picture.layers))]
    pitches = [max((_height(picture, unit) for unit in units), default=0) + 16.0 for units in columns]
    labelled = [(below, above) for below, above in pairwise(columns) if 0 < len(below) * len(above) <= MOST_LABELLED]
    if len(labelled) == len(columns) - 1:  # then all rows are equally far apart, and so are the labels between them
        pitches = [max([*pitches, *((LABEL_HEIGHT + 4.0) * (len(above) + 1) for _, above in labelled)])] * len(columns)
    tallest = max((len(units) * pitch for units, pitch in zip(columns, pitches, strict=True)), default=0.0)
    boxes = {}
    for k, (units, pitch) in enumerate(zip(columns, pitches, strict=True)):
        for unit in units:
            height = _height(picture, unit)
            middle = TOP + (tallest - len(units) * pitch) / 2 + (unit.row + 0.5) * pitch
            boxes[unit.name] = Box(MARGIN + k * (CARD + BETWEEN), middle - height / 2, height)
    width = 2 * MARGIN + len(columns) * CARD + max(len(columns) - 1, 0) * BETWEEN
    return boxes, max(width, 2 * MARGIN + CARD), TOP + tallest + LEGEND


def _height(picture: Picture, unit: Unit) -> float:
    return HEAD + LINE * len(_shown(picture, unit)) + FOOT


def _shown(picture: Picture, unit: Unit) -> tuple[tuple[str, str], ...]:
    """The numbers on a card; in a long column those that the weights are made of, and the others in the tooltip."""
    if unit.wrong or len(picture.of_layer(unit.layer)) <= LONG_COLUMN:
        return unit.numbers
    return tuple((label, number) for label, number in unit.numbers if label in {"x", "out", "δ"})


def _line(edge: Edge, boxes: dict[str, Box], largest: float, *, dense: bool) -> str:
    a, b = boxes[edge.start.name], boxes[edge.end.name]
    x, y, u, v = a.x + CARD, a.middle, b.x, b.middle
    kind = "up" if edge.update > 0 else "down" if edge.update < 0 else ""
    wrong = _wrong(edge.wrong)
    thick = "" if edge.wrong else f' stroke-width="{1 + 2.5 * abs(edge.update) / largest:.2f}"'
    line = f'<path class="edge {kind}{" dense" * dense}{wrong}"{thick} d="M{x:.0f} {y:.1f}L{u:.0f} {v:.1f}"/>'
    return f'<g class="w">{_title(_told(edge), edge.wrong)}{line}</g>'


def _label(picture: Picture, edge: Edge, boxes: dict[str, Box]) -> str:
    """Where lines from units side by side to units side by side are evenly apart: at one part in m + 1 of the way."""
    a, b = boxes[edge.start.name], boxes[edge.end.name]
    share = 1.0 / (len(picture.of_layer(edge.end.layer)) + 1)
    x = a.x + CARD + max(share * BETWEEN, LABEL / 2)
    y = a.middle + (b.middle - a.middle) * share
    product = " × ".join(number for _, number in edge.factors)
    kind = "badtext" if edge.wrong else ""
    move = f"{edge.before} → {edge.after}" if edge.before != edge.after else edge.before
    wide = max(len(move) * 6.7, len(product) * 6.1) + 8
    plate = f'<rect class="plate" x="{x - wide / 2:.0f}" y="{y - 17:.0f}" width="{wide:.0f}" height="{LABEL_HEIGHT}" rx="6"/>'
    first = f'<text class="n {kind}" x="{x:.0f}" y="{y - 3:.0f}" text-anchor="middle">{_text(move)}</text>'
    second = f'<text class="n s" x="{x:.0f}" y="{y + 11:.0f}" text-anchor="middle" style="font-size:10px">{_text(product)}</text>'
    return f"<g>{_title(_told(edge), edge.wrong)}{plate}{first}{second}</g>"


def _card(picture: Picture, unit: Unit, box: Box) -> str:
    kind = _wrong(unit.wrong)
    named = "h badtext" if unit.wrong else "h"
    rows = [
        f'<rect class="card{kind}" x="{box.x:.0f}" y="{box.y:.1f}" width="{CARD}" height="{box.height:.0f}" rx="9"/>',
        f'<text class="{named}" x="{box.x + 12:.0f}" y="{box.y + 19:.1f}">{_text(unit.name)}</text>',
    ]
    for i, (label, number) in enumerate(_shown(picture, unit)):
        y = box.y + HEAD + LINE * i + 12
        rows.append(f'<text class="s" x="{box.x + 12:.0f}" y="{y:.1f}">{_text(label)}</text>')
        rows.append(f'<text class="n" x="{box.x + CARD - 12:.0f}" y="{y:.1f}" text-anchor="end">{_text(number)}</text>')
    title = _title([unit.name, *(f"{label} {number}" for label, number in unit.numbers)], unit.wrong)
    return f"<g>{title}{''.join(rows)}</g>"


def _legend(height: float) -> str:
    y = height - 15
    marks = (
        ("up", "the weight grows"),
        ("down", "it shrinks"),
        ("bad", "does not hold"),
        ("bad after", "follows from that"),
    )
    parts, x = [], float(MARGIN)
    for kind, says in marks:
        parts.append(f'<path class="edge {kind}" stroke-width="2.5" d="M{x:.0f} {y - 4:.0f}h26"/>')
        parts.append(f'<text class="s" x="{x + 33:.0f}" y="{y:.0f}">{says}</text>')
        x += 33 + 7.2 * len(says) + 16
    return f"<g>{''.join(parts)}</g>"


def _wrong(wrong: tuple[Finding, ...]) -> str:
    return "" if not wrong else " bad" if is_cause(wrong) else " bad after"


def _told(edge: Edge) -> list[str]:
    """A weight in a tooltip."""
    factors = [f"{name} = {number}" for name, number in edge.factors]
    rest = [f"gradient = {edge.gradient}", f"update = {edge.update:.9g}", f"{edge.before} → {edge.after}"]
    return [f"{edge.name}: {edge.start.name} → {edge.end.name}", *factors, *rest]


def _title(lines: list[str], wrong: tuple[Finding, ...]) -> str:
    return f"<title>{_text(chr(10).join([*lines, *map(sentence, wrong)]))}</title>"


def _text(text: str) -> str:
    """A text as it may stand in XML, which has no place for control characters."""
    return escape(printable(text))


def as_html(picture: Picture, title: str, outcome: str, *, holds: bool) -> str:
    """The picture and the causes as one self-contained page."""
    badge = '<span class="verdict holds">holds</span>' if holds else '<span class="verdict fails">does not hold</span>'
    facts = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in picture.facts)
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{PAGE}</style>"
    )
    told = outcome.partition(": ")[2] or outcome
    body = f"<h1>{_text(title)}</h1><p>{badge}{_text(told)}</p><dl>{facts}</dl>"
    body += f'<div class="picture" tabindex="0">{as_svg(picture)}</div>{_table(picture)}'
    return f"{head}<main>{body}</main></html>\n"


def _table(picture: Picture) -> str:
    if not picture.causes:
        return ""
    rows = "".join(_row(*cause) for cause in picture.causes[:MOST_SHOWN])
    left = len(picture.causes) - MOST_SHOWN
    more = f"<p>and {left} more causes</p>" if left > 0 else ""
    names = "".join(f"<th>{name}</th>" for name in ("rule", "where", *COLUMNS))
    return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>{more}"


def _row(cause: Finding, folded: tuple[Finding, ...]) -> str:
    follow = "".join(f"<div>{_text(sentence(finding))}</div>" for finding in folded)
    details = f"<details><summary>{len(folded)} follow</summary>{follow}</details>" if folded else ""
    where = f"<b>{_text(cause.path)}</b><br>{_text(cause.because)}{details}"
    said = zip(COLUMNS, _numbers(cause), strict=True)
    numbers = "".join(f'<td class="n" data-name="{name}">{_text(text)}</td>' for name, text in said)
    return f'<tr><td class="r" data-name="rule">{cause.rule}</td><td>{where}</td>{numbers}</tr>'


def _numbers(cause: Finding) -> Iterator[str]:
    for value, digits in ((cause.said, 9), (cause.found, 9), (cause.deviation, 3), (cause.bound, 3)):
        text = f"{value:.{digits}g}" if isinstance(value, float) else "" if value is None else str(value)
        yield text if len(text) < 40 else f"{text[:24]}…{text[-8:]}"

"""The verdict on a recorded run as text: the first cause first, what cascades from it folded, like findings told together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rich.markup import escape

from backproof.verify.equation import Result
from backproof.verify.outcome import RunVerdict, StepVerdict
from backproof.verify.plain import step_json

__all__ = ["run_text", "step_json", "step_text"]

MOST_SHOWN = 8
STYLES = {"holds": "green", "broken": "bold red", "flip": "yellow", "noise": "yellow", "nothing checked": "bold red"}


def step_text(verdict: StepVerdict) -> str:
    """One step in a few lines, as rich markup."""
    return "\n".join(_lines(verdict))


def _lines(verdict: StepVerdict) -> Iterator[str]:
    counts = verdict.counts
    kinds = ", ".join(f"{count} {equation}" for equation, count in verdict.equations.items())
    others = ", ".join(f"{counts[name]} {name}" for name in ("noise", "flip") if counts[name])
    rank = "" if verdict.rank is None else f" of rank {verdict.rank}"
    yield (
        f"step {verdict.step}{rank}: [{STYLES[verdict.verdict]}]{verdict.verdict}[/]: {counts['checked']} equations"
        f" ({kinds or 'none'}){f', of which {others}' if others else ''}"
    )
    findings = [result for result in verdict.findings if result.verdict == "broken"]
    groups = _grouped(findings)
    for group in groups[:MOST_SHOWN]:
        yield from _finding(group, findings)
    if len(groups) > MOST_SHOWN:
        yield f"  and {sum(map(len, groups[MOST_SHOWN:]))} more that do not hold"
    for scale in verdict.scales:
        yield f"  [dim]scaled at {escape(scale.place)} by {scale.factor:.6g}: {escape(scale.says)}[/]"
    for practice in verdict.suspect:
        said = "declared to be meant" if practice.intended else "suspect"
        yield f"  [yellow]? {said}: {escape(practice.practice)}[/]: {escape(practice.evidence)}"
        if not practice.intended:
            yield f"      {escape(practice.advice)}"
    yield from _unchecked(verdict)
    if verdict.screen is not None:
        yield f"  [dim]{escape(_screen(verdict.screen))}[/]"
    if verdict.drift is not None:
        yield f"  [dim]{escape(_drift(verdict.drift))}[/]"
    for note in verdict.notes:
        yield f"  [dim]{escape(note)}[/]"


def _screen(found: dict[str, Any]) -> str:
    """What was only screened, and what that may miss."""
    places = ", ".join(f"{count} at {k}" for k, count in found["places"].items())
    return (
        f"screened: {found['projected']} by {found['probes']} random projections, {found['sampled']} by samples"
        f"{f' ({places} places)' if places else ''}; {found['in_full']} checked in full. May miss: {found['missed']}"
    )


def _drift(found: Any) -> str:
    """The drift in a line: it is reported, and not judged."""
    if isinstance(found, str):
        return found
    return (
        f"drift from float64: the loss {found.loss:.3g} (single equations explain {found.explained:.3g}), "
        f"gradients up to {found.gradients:.3g} of their norm ({found.worst})"
    )


def _grouped(findings: list[Result]) -> list[list[Result]]:
    """Findings that nothing explains, in order; those of one kind with one cause together."""
    groups: dict[object, list[Result]] = {}
    for i, found in enumerate(findings):
        if found.cascades_from is None:
            alike = (
                found.equation,
                found.place.rsplit(": ")[-1] if ": " in found.place else "",
                found.probe if found.cause else found.place,
                found.cause or found.because,
            )
            groups.setdefault(alike if found.cause or found.because else i, []).append(found)
    return list(groups.values())


def _finding(group: list[Result], findings: list[Result]) -> Iterator[str]:
    result = group[0]
    exact = not math.isfinite(result.ratio)
    size = f"{result.ratio:.3g} × its bound"
    if result.ratio <= 1 and result.slope_bound:
        size = f"slope {result.slope:+.2e}, of which rounding explains {result.slope_bound:.1e}"
    at = escape(str(list(result.at))) if result.at else ""
    what = f" ({result.probe})" if result.equation == "state" else ""
    if exact and result.because:
        yield f"  [bold red]✗ {result.equation} at {escape(result.place)}{what}[/]{at}: {escape(result.because)}"
    elif exact:
        yield f"  [bold red]✗ {result.equation} at {escape(result.place)}{what}[/]{at}: another number, where nothing is rounded"
    else:
        yield f"  [bold red]✗ {result.equation} at {escape(result.place)}{what}[/]{at}: off by {size}"
    if result.cause:
        yield f"      [bold]{escape(result.cause)}[/]"
    numbers = f"claimed {result.claimed:.9g}, derived {result.derived:.9g}"
    if not exact:
        because = f"; {escape(result.because)}" if result.because else ""
        yield f"      {numbers}, bound {result.bound:.2g}, slope {result.slope:+.2e}{because}"
    elif result.claimed != result.derived:
        yield f"      {numbers}"
    if len(group) > 1:
        yield f"      and at {', '.join(escape(other.place) for other in group[1:4])}" + (
            f" and {len(group) - 4} more" if len(group) > 4 else ""
        )
    below = sum(other.cascades_from is not None and findings[other.cascades_from] in group for other in findings)
    if below:
        yield f"      {below} more {'follow' if below > 1 else 'follows'} from it"


def _unchecked(verdict: StepVerdict) -> Iterator[str]:
    reasons = Counter(entry.why for entry in verdict.not_checked)
    for why, count in reasons.most_common(MOST_SHOWN):
        place = next(entry.place for entry in verdict.not_checked if entry.why == why)
        yield f"  not checked: {escape(place)}{f' and {count - 1} more' if count > 1 else ''} ({escape(why)})"
    if len(reasons) > MOST_SHOWN:
        yield f"  not checked: {sum(reasons.values()) - sum(n for _, n in reasons.most_common(MOST_SHOWN))} more, for other reasons"


def run_text(verdict: RunVerdict) -> str:
    """The last line: of all steps together."""
    word, rest = str(verdict).split(":", 1)
    style = "bold green" if verdict.holds else "bold red"
    return f"[{style}]{word}[/]:{rest}"

"""A comparison of two traces: as JSON with stable keys, as tables in the terminal, and as JUnit XML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table
from rich.text import Text

from backproof.numerics import FORMATS
from backproof.trace.event import Place
from backproof.trace.phases import PHASES
from backproof.verify.traces.gap import Gap
from backproof.verify.traces.local import Local
from backproof.verify.traces.outcome import DIFFERS, REMARK, Comparison, Finding, Flip, Seen, StepOutcome, Undecided

MOST_SHOWN = 12
COLOURS = {"agree": "bold green", "undecided": "bold yellow", "differ": "bold red", "incomplete": "bold red"}
STATES = ("equal", "agrees", "rounding", "flip", "follows", "undecided", "finding")


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def comparison_json(found: Comparison, *, strict: bool = False) -> dict[str, Any]:
    """Everything that was found. A number that is not finite is null."""
    first = found.first
    return {
        "verdict": found.verdict,
        "exit_code": found.exit_code(strict),
        "a": found.names[0],
        "b": found.names[1],
        "first": None if first is None else {**_where(first.place), "step": first.step, "side": first.side or None},
        "findings": [_finding(one) for one in found.all_findings if one.kind not in ABSENT],
        "flips": [_flip(one) for one in found.flips],
        "undecided": [_undecided(one) for one in found.undecided],
        "missing": [_finding(one) for one in found.all_findings if one.kind in ABSENT],
        "coverage": _coverage(found),
        "order": list(found.order),
        "tensors": [_seen(step, place, seen) for step in found.steps for place, seen in step.seen.items()],
    }


ABSENT = ("missing", "unlisted")


def _where(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {"probe": None, "phase": None, "parameter": None, "sample": None}
    return {"probe": place.probe, "phase": place.phase, "parameter": place.parameter or None, "sample": place.sample}


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "effect": one.effect,
        "step": one.step,
        **_where(one.place),
        "samples": list(one.samples),
        "side": one.side or None,
        "by": one.by or None,
        "says": one.says,
        "hints": list(one.hints),
        "allowed": one.allowed,
        "gap": _gap(one.gap),
        "local": _local(one.local),
    }


def _flip(one: Flip) -> dict[str, Any]:
    turned = one.turned
    return {
        "step": one.step,
        "probe": turned.probe,
        "sample": turned.sample,
        "count": turned.count,
        "honest": one.honest,
        "because": one.because,
        "follows": one.follows,
        "noise": finite(one.noise),
        "scale": finite(turned.scale),
        "decisions": [
            {"op": turn.op, "at": list(turn.at), "taken": list(turn.taken), "margin": [finite(m) for m in turn.margin]}
            for turn in turned.turns
        ],
        "explains": list(one.explains),
        "left_after_replay": finite(one.replayed),
    }


def _undecided(one: Undecided) -> dict[str, Any]:
    return {"step": one.step, **_where(one.place), "because": one.because, "gap": _gap(one.gap)}


def _gap(gap: Gap | None) -> dict[str, Any] | None:
    if gap is None:
        return None
    return {
        "largest": finite(gap.largest),
        "scale": finite(gap.scale),
        "relative": finite(gap.relative),
        "l2": finite(gap.l2),
        "ulp": finite(ulps(gap)),
        "cosine": finite(gap.cosine),
        "slope": finite(gap.slope),
        "size": gap.size,
        "differing": gap.differing,
        "at": gap.at,
    }


def ulps(gap: Gap, fmt: str = "float32") -> float:
    """The largest difference in units in the last place of the tensor's largest number."""
    return gap.largest / float(FORMATS[fmt].ulp(gap.scale)) if gap.largest else 0.0


def _local(local: Local | None) -> dict[str, Any] | None:
    if local is None:
        return None
    return {
        "side": local.side,
        "verdict": local.verdict,
        "ratio": finite(local.ratio),
        "likely": finite(local.likely),
        "slope": finite(local.slope),
        "claimed": finite(local.claimed),
        "derived": finite(local.derived),
        "bound": finite(local.bound),
        "at": list(local.at),
        "by": local.by,
        "remark": local.remark or None,
    }


def _seen(step: StepOutcome, place: Place, seen: Seen) -> dict[str, Any]:
    return {
        "step": step.step,
        **_where(place),
        "state": seen.state,
        "allowed": finite(seen.allowed),
        **(_gap(seen.gap) or {}),
        "sides": [_local(local) for local in seen.locals],
    }


def _coverage(found: Comparison) -> dict[str, Any]:
    phases: dict[str, Counter[str]] = {name: Counter() for name in PHASES}
    derived = [0, 0]
    for step in found.steps:
        for place, seen in step.seen.items():
            phases[place.phase][seen.state] += 1
            for i, local in enumerate(seen.locals):
                derived[i] += local is not None
    reasons: Counter[str] = Counter()
    places: dict[str, str] = {}
    for side, place, why in _unchecked(found):
        reasons[f"{side}: {why}"] += 1
        places.setdefault(f"{side}: {why}", str(place))
    return {
        "compared": found.compared,
        "steps": len(found.steps),
        "derived": {"a": derived[0], "b": derived[1]},
        "phases": {name: {"compared": sum(states.values()), **states} for name, states in phases.items() if states},
        "not_derived": [{"why": why, "count": count, "first": places[why]} for why, count in reasons.most_common()],
        "assumed": sorted({note for step in found.steps for note in step.assumed}),
        "guessed": found.guessed or None,
    }


def _unchecked(found: Comparison) -> Iterator[tuple[str, Place, str]]:
    for step in found.steps:
        for side, places in step.unchecked.items():
            for place, why in places.items():
                yield side, place, why


def finite(number: float) -> float | None:
    """A number as JSON has it."""
    return float(number) if math.isfinite(number) else None


# ── the terminal ────────────────────────────────────────────────────────────────────────────────────────────────────


def print_comparison(found: Comparison, console: Console, *, verbose: bool = False) -> None:
    """The verdict, the first cause, then what else was found."""
    most = 10**9 if verbose else MOST_SHOWN
    line = Text.assemble(
        (found.verdict.upper(), COLOURS[found.verdict]),
        f"  {found.compared:,} pairs of tensors in {many(len(found.steps), 'step')}",
    )
    console.print(line)
    for i, name in enumerate(found.names):
        console.print(Text(f"  {'ab'[i]}  {name}"))
    causes = [one for one in found.all_findings if one.effect != REMARK]
    if causes:
        _first(causes[0] if found.first is None else found.first, console)
        _findings(causes, console, most)
    _flips(found.flips, console, most)
    _undecideds(found.undecided, console, most)
    _covered(found, console, most)


def many(count: int, name: str) -> str:
    """So many of a thing."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _first(one: Finding, console: Console) -> None:
    console.print()
    head = Text("first cause: ", style="bold")
    head.append(one.says)
    console.print(head)
    facts = []
    if one.side:
        facts.append(f"wrong side: {one.side}" if one.effect == DIFFERS else f"side: {one.side}")
    if one.by:
        facts.append(f"made by: {one.by}")
    if one.local is not None and one.local.verdict == "broken":
        size = (
            f"{one.local.ratio:.3g} × the bound of rounding"
            if math.isfinite(one.local.ratio)
            else "no bound allows for it"
        )
        facts.append(f"{one.local.claimed:.9g} where {one.local.derived:.9g} follows, at {list(one.local.at)}: {size}")
    if one.gap is not None:
        facts.append(f"the sides differ by {one.gap.relative:.3g} of scale, slope {one.gap.slope:+.2e}")
    if one.hints:
        facts.append(f"hint: {'; '.join(one.hints)}")
    for fact in facts:
        console.print(Text(f"  {fact}"))


def _findings(causes: list[Finding], console: Console, most: int) -> None:
    table = Table(
        title=f"{many(len(causes), 'finding')}, first cause first", title_justify="left", box=None, pad_edge=False
    )
    for name in ("step", "tensor", "kind", "side", "of scale", "× bound", "hint"):
        table.add_column(name, justify="right" if name in ("step", "of scale", "× bound") else "left", overflow="fold")
    for one in causes[:most]:
        samples = f" +{len(one.samples) - 1} samples" if len(one.samples) > 1 else ""
        ratio = one.local.ratio if one.local is not None else math.nan
        table.add_row(
            str(one.step),
            (str(one.place) if one.place else one.says) + samples,
            one.kind,
            one.side,
            f"{one.gap.relative:.2e}" if one.gap else "",
            "" if math.isnan(ratio) else f"{ratio:.3g}",
            "; ".join(one.hints),
            style="red" if one.effect == DIFFERS else "yellow",
        )
    console.print()
    console.print(table)
    _rest(len(causes), most, console)


def _rest(count: int, most: int, console: Console) -> None:
    if count > most:
        console.print(Text(f"  and {count - most:,} more (--verbose lists them, --json has them)"))


def _flips(flips: list[Flip], console: Console, most: int) -> None:
    if not flips:
        return
    count = sum(flip.turned.count for flip in flips)
    console.print()
    console.print(Text(f"{many(count, 'decision')} taken otherwise", style="bold"))
    own = [flip for flip in flips if not flip.follows]
    for flip in own[:most]:
        turned = flip.turned
        turn = turned.turns[0]
        sample = "" if turned.sample is None else f", sample {turned.sample}"
        more = f" and {turned.count - 1} more" if turned.count > 1 else ""
        console.print(
            Text(
                f"  {turned.probe}{sample}, {turn.op} at {list(turn.at[1:] if turned.sample is not None else turn.at)}{more}: "
                f"a takes {turn.taken[0]} by {turn.margin[0]:.3g}, b takes {turn.taken[1]} by {turn.margin[1]:.3g}; "
                f"the sides are up to {flip.noise:.2g} apart there"
            )
        )
        explained = f"; it explains {many(len(flip.explains), 'difference')}" if flip.explains else ""
        left = f", of which {flip.replayed:.2g} of scale is left once it is replayed" if flip.explains else ""
        console.print(Text(f"    {flip.because}{explained}{left}"))
    _rest(len(own), most, console)
    caused = [flip for flip in flips if flip.follows]
    for because in dict.fromkeys(flip.because for flip in caused):
        these = [flip for flip in caused if flip.because == because]
        probes = ", ".join(dict.fromkeys(flip.turned.probe for flip in these))
        said = many(sum(flip.turned.count for flip in these), "decision")
        console.print(Text(f"  {said} of {probes}: {because}"))


def _undecideds(undecided: list[Undecided], console: Console, most: int) -> None:
    if not undecided:
        return
    console.print()
    console.print(Text(f"{len(undecided):,} undecided", style="bold yellow"))
    for because in dict.fromkeys(one.because for one in undecided):
        places = [str(one.place) for one in undecided if one.because == because]
        console.print(Text(f"  {', '.join(places[:most])}{' …' if len(places) > most else ''}: {because}"))


def _covered(found: Comparison, console: Console, most: int) -> None:
    coverage = _coverage(found)
    table = Table(title="what was compared", title_justify="left", box=None, pad_edge=False)
    table.add_column("phase")
    states = [state for state in STATES if any(state in counts for counts in coverage["phases"].values())]
    for name in ("pairs", *states):
        table.add_column(name, justify="right")
    for phase, counts in coverage["phases"].items():
        table.add_row(phase, str(counts["compared"]), *(str(counts.get(state, "")) for state in states))
    console.print()
    console.print(table)
    a, b = coverage["derived"]["a"], coverage["derived"]["b"]
    if a or b:
        console.print(Text(f"derived from their own inputs: {a:,} of a, {b:,} of b"))
    elif not found.told:
        console.print(Text("no layer's mathematics was told (--layers), so neither side could be derived"))
    for entry in coverage["not_derived"][: most // 2]:
        more = f" and {entry['count'] - 1} more" if entry["count"] > 1 else ""
        console.print(Text(f"not derived: {entry['first']}{more} ({entry['why']})"))
    for remark in _remarks(found, coverage):
        console.print(Text(remark))


def _remarks(found: Comparison, coverage: dict[str, Any]) -> Iterator[str]:
    for one in found.all_findings:
        if one.effect == REMARK:
            yield f"{'known' if one.allowed else 'remark'}: {one.says}" + (
                f" (and {len(one.samples) - 1} more samples)" if len(one.samples) > 1 else ""
            )
    yield from (f"assumed of {note}" for note in coverage["assumed"])
    if found.guessed:
        yield f"guessed: {found.guessed}"


# ── JUnit ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def junit(found: Comparison, *, strict: bool = False) -> bytes:
    """One test case for each probe and phase, and one for whatever has no place."""
    cases: dict[str, list[str]] = {place.column: [] for step in found.steps for place in step.seen}
    for name, message in _messages(found, strict):
        cases.setdefault(name, []).append(message)
    failures = sum(bool(messages) for messages in cases.values())
    suite = ET.Element("testsuite", name="bp compare", tests=str(len(cases)), failures=str(failures), errors="0")
    for name, messages in cases.items():
        case = ET.SubElement(suite, "testcase", classname="bp.compare", name=_clean(name))
        if messages:
            failure = ET.SubElement(case, "failure", message=_clean(messages[0]))
            failure.text = _clean("\n".join(messages))
    return ET.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n"


def _messages(found: Comparison, strict: bool) -> Iterator[tuple[str, str]]:
    for one in found.all_findings:
        if one.effect != REMARK:
            yield one.place.column if one.place else one.kind, f"step {one.step}: {one.says}"
    for undecided in found.undecided if strict else ():
        yield undecided.place.column, f"step {undecided.step}: undecided: {undecided.because}"
    for flip in found.flips if strict else ():
        yield f"{flip.turned.probe}.decisions", f"step {flip.step}: {flip.because}"


def _clean(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(c if c in "\t\n" or (ord(c) >= 32 and not 0xD800 <= ord(c) <= 0xDFFF) else "�" for c in text)

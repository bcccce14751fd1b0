"""Compare two traces: where they part, and, where the mathematics is told, which side does not follow it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from backproof.errors import UsageError
from backproof.trace.event import Place
from backproof.trace.manifest import Manifest
from backproof.trace.store import Trace, open_trace
from backproof.verify.traces.gap import Gap, gap
from backproof.verify.traces.judge import Judge
from backproof.verify.traces.local import Locals
from backproof.verify.traces.network import Network, network_of
from backproof.verify.traces.outcome import Comparison, Finding, StepOutcome
from backproof.verify.traces.pairs import grouped, pair, told_differently
from backproof.verify.traces.side import Side
from backproof.verify.traces.steps import check_chain, check_scaling, check_updates
from backproof.verify.traces.walk import Walk, Walked

SIDES = ("a", "b")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Options:
    """How to compare."""

    layers: Manifest | None = None
    """What is told of the network, whatever the traces tell."""
    order: tuple[str, ...] = ()
    """The probes in network order, where nothing else tells it."""
    allow_missing: tuple[str, ...] = ()
    """Patterns of places that are known to be absent on one side."""
    derive: bool = True
    """Whether each side is derived by itself where its mathematics is told."""
    names: tuple[str, str] = ("a", "b")
    """What the sides are called where they are shown; in findings they are a and b."""


def compare(
    a: Path | str, b: Path | str, options: Options | None = None, progress: Progress | None = None
) -> Comparison:
    """Compare two folders."""
    return compare_traces(open_trace(a), open_trace(b), options, progress)


def compare_traces(a: Trace, b: Trace, options: Options | None = None, progress: Progress | None = None) -> Comparison:
    """Compare two traces, step by step."""
    options = options or Options()
    told = told_of(a, b, options)
    seen = {place.probe for trace in (a, b) for step in trace.steps.values() for place in step.keys.values()}
    network = network_of((options.layers, a.manifest, b.manifest), options.order, seen)
    _known(options.order, seen)
    found = Comparison(options.names, tuple(probe.name for probe in network.probes))
    found.told = options.derive and any(probe.kind for one in told for probe in one.probes)
    found.guessed = _guessed(network)
    if options.layers is None and a.manifest and b.manifest:
        found.findings.extend(told_differently(a.manifest, b.manifest, SIDES))
    steps = sorted({*a.steps, *b.steps})
    counts = {index: sum(len(t.steps[index].keys) for t in (a, b) if index in t.steps) for index in steps}
    total, done = sum(counts.values()), 0
    earlier: list[Side | None] = [None, None]
    for index in steps:
        lacking = [name for name, trace in zip(SIDES, (a, b), strict=True) if index not in trace.steps]
        if lacking:
            says = f"step {index} was not recorded by {lacking[0]}"
            found.findings.append(Finding("missing", index, None, lacking[0], says))
            continue
        computing = options.layers.dtype if options.layers else ""
        given = zip(SIDES, (a, b), told, strict=True)
        sides = [Side(name, trace.steps[index], one, computing) for name, trace, one in given]
        tick = _ticker(progress, done, total)
        before = found.steps[-1] if found.steps else None
        found.steps.append(_step(network, sides, earlier, before, options, found.told, tick))
        earlier, done = list(sides), done + counts[index]
    _once(found)
    if not found.compared:
        found.findings.append(Finding("nothing", 0, None, "", "no tensor of one side has a counterpart on the other"))
    return found


def told_of(a: Trace, b: Trace, options: Options) -> tuple[Manifest, Manifest]:
    """What is told of each side: by the user, else by itself, else by the other."""

    def of(own: Manifest, other: Manifest) -> Manifest:
        layers = options.layers
        if layers is not None:
            own = replace(
                own,
                probes=layers.probes or own.probes,
                optimizer=layers.optimizer or own.optimizer,
                batch=layers.batch or own.batch,
                scale={**own.scale, **layers.scale},
            )
        if not any(probe.kind for probe in own.probes):
            own = replace(own, probes=other.probes)
        return replace(own, optimizer=own.optimizer or other.optimizer, batch=own.batch or other.batch)

    return of(a.told, b.told), of(b.told, a.told)


def _once(found: Comparison) -> None:
    """What the sides tell otherwise is said where its numbers part, if they do."""
    shown = {one.by for step in found.steps for one in step.findings if one.kind == "told"}
    found.findings = [one for one in found.findings if one.kind != "told" or one.by not in shown]


def _known(order: Sequence[str], seen: set[str]) -> None:
    unknown = [name for name in order if name not in seen]
    if order and len(unknown) == len(order):
        raise UsageError(f"--order names {', '.join(unknown[:5])}, and the traces have {', '.join(sorted(seen)[:20])}")


def _guessed(network: Network) -> str:
    if not network.ordered:
        return "the order of the probes is not told: names are in their natural order (tell it by --order or --layers)"
    return "who reads whom is not told: each probe is taken to read the one before it" if network.guessed else ""


def _ticker(progress: Progress | None, done: int, total: int) -> Callable[[], None]:
    count = done

    def tick() -> None:
        nonlocal count
        count += 2
        if progress is not None:
            progress(min(count, total), total)

    return tick


def _step(
    network: Network,
    sides: list[Side],
    earlier: list[Side | None],
    before: StepOutcome | None,
    options: Options,
    told: bool,
    tick: Callable[[], None],
) -> StepOutcome:
    a, b = sides
    first = before is None
    paired = pair(a, b, options.allow_missing, tick, first=first)
    gaps = {**paired.gaps, **_updates(a, b, paired.gaps)}
    walked = _walk(network, sides, earlier, first, (options.derive, told))
    outcome = Judge(network, a, b, gaps, walked, before).run(first)
    unfit = {finding.place for finding in paired.findings if finding.kind in ("nonfinite", "shape", "layout", "dtype")}
    kept = [one for one in outcome.findings if one.place not in unfit or one.kind == "bug"]
    lone = _alone(walked, gaps, outcome.step)
    findings = [*paired.findings, *kept, *lone]
    findings.sort(key=lambda one: network.causal(one.place) if one.place else (-1, 0, 0, ""))
    outcome.findings = grouped(findings)
    for local in walked.locals:
        outcome.unchecked[local.side.name] = local.unchecked
        outcome.assumed += [f"{local.side.name}: {note}" for note in local.assumed]
    return outcome


def _walk(
    network: Network, sides: list[Side], earlier: list[Side | None], first: bool, how: tuple[bool, bool]
) -> Walked:
    """Each side by itself: its layers, where any is told; what becomes of gradients and parameters; and the step before in any case."""
    derive, told = how
    walked = Walk(network, sides).run() if told else Walked(tuple(Locals(side) for side in sides))
    for local, before in zip(walked.locals, earlier, strict=True):
        check_chain(local, before)
        if derive:
            check_scaling(local)
            check_updates(local, first)
    return walked


def _alone(walked: Walked, gaps: dict[Place, Gap], step: int) -> list[Finding]:
    """What does not hold, of what has no counterpart to be compared with."""
    found = []
    for locals_ in walked.locals:
        for place, local in locals_.found.items():
            if local.verdict == "broken" and place not in gaps:
                says = f"{place} of {local.side} does not follow from what was recorded at its inputs" + (
                    f" ({local.remark})" if local.remark else ""
                )
                found.append(Finding("bug", step, place, local.side, says, local.by, (), None, local, local.hints))
    return found


def _updates(a: Side, b: Side, gaps: dict[Place, Gap]) -> dict[Place, Gap]:
    """Parameters after the step are compared by what they moved: a parameter hides its update."""
    found = {}
    for place in gaps:
        before = Place(place.probe, "w_before", place.parameter)
        if place.phase == "w_after" and before in gaps:
            pairs = [(side.tensor(place), side.tensor(before)) for side in (a, b)]
            if len({one.shape for two in pairs for one in two}) == 1:
                found[place] = gap(*(after - start for after, start in pairs))
    return found

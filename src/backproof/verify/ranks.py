"""Ranks of a data-parallel run, side by side: reduced gradients are the mean of the ranks' own, and all ranks train one model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.numerics import FORMATS
from backproof.trace.folder import Recorded
from backproof.trace.handling import Moment
from backproof.trace.step import Step, gradient_key, handed_key
from backproof.verify.chain import first_parameters, last_parameters
from backproof.verify.equation import NotChecked, Result, Total, judged
from backproof.verify.handling import stated
from backproof.verify.losses import loss_terms
from backproof.verify.practices import practice_named
from backproof.verify.remarks import Scale, Suspect
from backproof.verify.subject import Subject

Found = Iterator[Result | NotChecked | Scale | Suspect]


@dataclass(frozen=True)
class Rank:
    """One rank's record of a step."""

    number: int
    step: Step
    tensors: Mapping[str, Any]


def check_ranks(mine: int, records: Sequence[Recorded | None]) -> Found:
    """One rank's step against the same step of all ranks, in their order."""
    own = records[mine]
    assert own is not None  # it is being verified
    world = int(own.step.facts.get("world", 1))
    ranks = [Rank(i, each.step, each.tensors) for i, each in enumerate(records) if each is not None]
    if len(ranks) != world:
        why = f"the run has {world} ranks, and this step was recorded by {len(ranks)} of them"
        yield NotChecked("reduction over ranks", why)
        return
    me = ranks[mine]
    yield from _reductions(me, ranks)
    yield from _parameters(me, ranks)
    yield from _counts(me, ranks)


# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _reductions(me: Rank, ranks: Sequence[Rank]) -> Found:
    """Each reduced backward pass, and each reduction by the program itself."""
    for kind in ("backward", "reduce"):
        events = [list(_events(rank, kind)) for rank in ranks]
        for place, mine in enumerate(events[me.number]):
            same = [found[place] for found in events if place < len(found)]
            if len(same) < len(ranks):
                yield NotChecked("reduction over ranks", "the ranks did not reduce as often as each other")
                return
            yield from _reduced(me, ranks, mine[0], [parts for _, parts in same])
    counts = [len(list(_events(rank, "reduce"))) for rank in ranks]
    if counts[me.number] < max(counts):
        because = f"it made {counts[me.number]} reductions, and another rank {max(counts)}"
        yield stated(
            "reduction", "(gradients)", "", holds=False, because=because, numbers=(counts[me.number], max(counts))
        )


def _events(rank: Rank, kind: str) -> Iterator[tuple[Moment, dict[str, list[Any]]]]:
    """The moments at which gradients were reduced, with what each parameter's gradient was made of on this rank."""
    now: dict[str, int | None] = {}
    for moment in rank.step.moments:
        if moment.kind == kind and (kind == "reduce" or moment.given.get("reduced")):
            parts = {}
            for name in moment.grads:
                held = now.get(name)
                mine = [] if held is None else [rank.tensors[f"v{held}"]]
                if kind == "backward":
                    mine += _brought(rank, name, int(moment.given["passing"]))
                parts[name] = mine
            yield moment, parts
        now.update(moment.grads)


def _brought(rank: Rank, name: str, passing: int) -> list[Any]:
    """What a backward pass brought to a parameter on this rank, before it was reduced."""
    for number, value in rank.step.values.items():
        if value.name == name and value.origin == "parameter":
            for key in (handed_key(number, passing), gradient_key(number, passing)):
                if key in rank.tensors:
                    return [rank.tensors[key]]
    return []


def _reduced(me: Rank, ranks: Sequence[Rank], moment: Moment, parts: list[dict[str, list[Any]]]) -> Found:
    way = str(moment.given.get("reduced") or moment.given.get("op"))
    if way not in ("mean", "sum", "avg"):
        yield NotChecked("reduction over ranks", f"it was done by {way}, which has no equation here")
        return
    factor = 1.0 if way == "sum" else 1.0 / len(ranks)
    if factor != 1.0:
        yield Scale(
            "mean over ranks", f"rank {me.number}", factor, f"gradients are the mean of {len(ranks)} ranks' own"
        )
    for name, after in moment.grads.items():
        if after is None:
            continue
        own = [each.get(name, []) for each in parts]
        if not all(own):
            yield NotChecked(f"reduction of {name}", "what a rank brought to it was not seen")
            continue
        claimed = me.tensors[f"v{after}"]
        found = judged(claimed, _mean(own, factor, me.step.values[after].dtype))
        cause = (
            _cause(claimed, own, me.number, factor, me.step.values[after].dtype) if found.verdict == "broken" else ""
        )
        yield Result("reduction", name, f"{after}", *found, parameter=name, cause=cause)


def _mean(parts: Sequence[list[Any]], factor: float, dtype: str) -> Bound:
    """The parts of all ranks together, in any order, divided before or after they are added."""
    fmt, total = FORMATS[dtype], Total()
    for part in (each for rank in parts for each in rank):
        value = part.astype(np.float64) * factor
        room = 2 * fmt.unit * np.abs(value) + fmt.underflow
        total.add(Bound(value, room, room))
    return total.bound(fmt)


def _cause(claimed: Any, own: list[list[Any]], mine: int, factor: float, dtype: str) -> str:
    """What else the ranks' gradients may have been made to."""
    world = len(own)
    hypotheses = [
        ("this rank's gradients were not reduced", [own[mine]], 1.0),
        ("the ranks' gradients were summed, not averaged", own, 1.0),
        ("this rank's gradients were divided, and not reduced", [own[mine]], 1.0 / world),
        *(
            (f"rank {k} is missing in the reduction", [each for i, each in enumerate(own) if i != k], share)
            for k in range(world)
            for share in (1.0 / world, 1.0 / max(1, world - 1))
        ),
    ]
    for says, parts, by in hypotheses:
        if (parts is not own or by != factor) and judged(claimed, _mean(parts, by, dtype)).verdict != "broken":
            return says
    return ""


# ── one model ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _parameters(me: Rank, ranks: Sequence[Rank]) -> Found:
    """All ranks have the same parameters, before the step and after it."""
    if me.number == 0:
        return
    for when, keys in (("before", first_parameters), ("after", last_parameters)):
        mine, first = keys(me.step, me.tensors), keys(ranks[0].step, ranks[0].tensors)
        other = [
            name
            for name, key in mine.items()
            if name in first and not np.array_equal(me.tensors[key], ranks[0].tensors[first[name]], equal_nan=True)
        ]
        if other:
            shown = f"{', '.join(other[:3])}{f' and {len(other) - 3} more' if len(other) > 3 else ''}"
            yield _suspect("ranks-differ", f"{when} the step, {shown} of rank {me.number} are not rank 0's", me.step)
            return


def _counts(me: Rank, ranks: Sequence[Rank]) -> Found:
    """Means over unequal counts, averaged over ranks."""
    if me.number != 0 or not any(moment.given.get("reduced") for moment in me.step.moments):
        return
    counts = []
    for rank in ranks:
        terms = loss_terms(Subject(Recorded(rank.step, rank.tensors)))  # type: ignore[arg-type] # any tensors by name
        counts.append([term.count for term in terms if term.reduction == "mean"])
    if len({len(each) for each in counts}) == 1 and any(len(set(same)) > 1 for same in zip(*counts, strict=True)):
        said = "; ".join(f"rank {i}: {', '.join(f'{count:g}' for count in each)}" for i, each in enumerate(counts))
        yield _suspect("unequal-ranks", f"the ranks' losses are means over unequal counts: {said}", me.step)


def _suspect(practice: str, evidence: str, step: Step) -> Suspect:
    row = practice_named(practice)
    return Suspect(row.name, evidence, row.advice, row.name in step.facts.get("intended", ()))

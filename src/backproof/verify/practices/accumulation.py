"""Practices of micro-batches: what each weighs in the gradient that they make together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.numerics import FORMATS
from backproof.verify.losses import Term
from backproof.verify.practices.record import Practice, Seen

# Weights are products of a few numbers of the program in float32.
CLOSE = 64 * FORMATS["float32"].unit
MOST_STEPS = 4096


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * max(abs(a), abs(b))


def windows(seen: Seen) -> Iterator[list[Term]]:
    """The micro-batches of each update: several backward passes, each from the one loss of its own forward pass."""
    window: list[tuple[int, set[str]]] = []
    for moment in seen.subject.step.moments:
        if moment.kind == "backward":
            window.append((int(moment.given["passing"]), set(moment.grads)))
        elif moment.kind == "clear":  # of what a pass left nothing may be left
            window = [(passing, names) for passing, names in window if not names <= set(moment.grads)]
        elif moment.kind == "update":
            yield from _micro_batches(seen, [passing for passing, _ in window])
            window = []


def _micro_batches(seen: Seen, passes: list[int]) -> Iterator[list[Term]]:
    if len(passes) < 2:
        return
    terms = [[term for term in seen.terms if term.passing == passing] for passing in passes]
    if any(len(each) != 1 for each in terms):
        return
    found = [each[0] for each in terms]
    if len({(term.op, term.place, term.reduction, term.unit.partition(" ")[0]) for term in found}) != 1:
        return
    if len({term.call for term in found}) == len(found) and not _one_forward(seen, found):
        yield found


def _one_forward(seen: Seen, terms: list[Term]) -> bool:
    """Whether the losses belong to one forward pass: between two micro-batches the whole model runs again."""
    calls = seen.subject.step.calls
    starts = [0, *(term.after for term in terms[:-1])]
    runs = [[call.op for call in calls[start : term.call + 1]] for start, term in zip(starts, terms, strict=True)]
    return min(map(len, runs)) * 2 < max(map(len, runs))


def scaled(seen: Seen) -> float:
    """What gradients were multiplied by after they were accumulated, clipping apart."""
    factor = 1.0
    for kind in ("unscale", "edit"):
        of_kind = [scale for scale in seen.subject.verdict.scales if scale.kind == kind]
        if of_kind:
            factor *= of_kind[0].factor if kind == "unscale" else float(np.median([scale.factor for scale in of_kind]))
    return factor


def _weights(seen: Seen, terms: list[Term]) -> tuple[float, list[float]]:
    """The weight of each micro-batch's mean, and all together."""
    by = scaled(seen)
    each = [by * term.each * term.count for term in terms]
    return sum(each), each


def _evidence(terms: list[Term], total: float, each: list[float]) -> str:
    counts = ", ".join(f"{term.count:g}" for term in terms)
    weights = ", ".join(f"{weight:.6g}" for weight in each)
    return f"{len(terms)} micro-batches of {counts} {terms[0].unit.partition(' ')[0]} weigh {weights}: together {total:.6g}"


def _means(terms: list[Term]) -> bool:
    return all(term.count for term in terms)


def _not_divided(seen: Seen) -> Iterator[str]:
    for terms in windows(seen):
        total, each = _weights(seen, terms)
        if _means(terms) and all(_close(weight, 1.0) for weight in each):
            yield _evidence(terms, total, each)


def _mean_of_means(seen: Seen) -> Iterator[str]:
    for terms in windows(seen):
        total, each = _weights(seen, terms)
        counts = {term.count for term in terms}
        if _means(terms) and len(counts) > 1 and all(_close(weight, each[0]) for weight in each):
            yield _evidence(terms, total, each)


def _short_window(seen: Seen) -> Iterator[str]:
    for terms in windows(seen):
        total, each = _weights(seen, terms)
        n = len(terms)
        same = all(_close(weight, each[0]) for weight in each)
        full = round(1.0 / each[0]) if each[0] > 1.0 / MOST_STEPS else 0
        if _means(terms) and same and full > n and _close(each[0] * full, 1.0):
            yield f"{_evidence(terms, total, each)}; each was divided by {full}, and there are {n}"


ACCUMULATION = (
    Practice(
        "accumulation-not-divided",
        "the means of several micro-batches are added up: the gradient is as many times larger as there are micro-batches",
        "divide each loss by the number of micro-batches, or all of them by the number of tokens that they have together",
        _not_divided,
    ),
    Practice(
        "mean-of-means",
        "micro-batches that count different numbers of targets have the same weight: each target of a small one counts for more",
        "sum the losses, and divide by the number of targets of the whole window",
        _mean_of_means,
    ),
    Practice(
        "short-window",
        "the last window has fewer micro-batches than it is divided by: its gradient is too small",
        "divide by the number of micro-batches that the window really has",
        _short_window,
    ),
)

"""Connectionist temporal classification: −ln of the probability of a sequence of labels, over all of its alignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.lowering.arithmetic import as_real
from backproof.lowering.lowering import Lowering

_choose = COMPOSITIONS["where"].function
NEVER = -(2.0**100)
"""The logarithm of no probability; far below any other, exact in every format, and with a derivative."""
INFINITE = 2.0**99


def _ctc(
    log_probs: Ref,
    targets: Ref,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Ref:
    """Its derivative is the framework's: of what comes out of a softmax, whose part it has already."""
    D, single = log_probs.builder, len(log_probs.shape) == 2
    x = D.reshape(log_probs, shape=(log_probs.shape[0], 1, log_probs.shape[1])) if single else log_probs
    time, count, _ = x.shape
    given, wanted = (_lengths(lengths, x, count) for lengths in (input_lengths, target_lengths))
    labels = _labels(targets, wanted, count)
    loss = -_forward(x, labels, given, wanted, blank)
    inside = D.broadcast(D.cast(D.iota(size=time), to="real"), shape=x.shape, axes=(0,)) < D.broadcast(
        given, shape=x.shape, axes=(1,)
    )
    free = (x - D.stop_gradient(x)) * D.stop_gradient(D.exp(x))
    loss = loss + D.sum(_choose(inside, free, 0.0), axes=(0, 2))
    endless = loss > INFINITE
    loss = _choose(endless, 0.0 if zero_infinity else np.inf, loss)
    if reduction == "none":
        return D.reshape(loss, shape=()) if single else loss
    total = D.sum(loss, axes=(0,))
    if reduction == "sum":
        return total
    return D.sum(loss / _choose(wanted > 1.0, wanted, 1.0), axes=(0,)) / float(count)


def _lengths(given: Any, x: Ref, count: int) -> Ref:
    if isinstance(given, Ref):
        return x.builder.reshape(as_real(given, x), shape=(count,))
    listed = list(given) if isinstance(given, Sequence) else [given]
    return x.constant(np.array(listed, dtype=np.float64))


def _labels(targets: Ref, wanted: Ref, count: int) -> Ref:
    """One row of labels for each sequence; what is beyond its length says nothing."""
    D = targets.builder
    if len(targets.shape) == 2:
        return targets
    if count == 1:
        return D.reshape(targets, shape=(1, targets.type.size))
    most = targets.type.size
    start = D.cumsum(wanted, axis=0, reverse=False) - wanted
    shape = (count, most)
    place = D.broadcast(start, shape=shape, axes=(0,)) + D.broadcast(
        D.cast(D.iota(size=most), to="real"), shape=shape, axes=(1,)
    )
    inside = D.minimum(place, place.constant(float(max(most - 1, 0))))
    return D.gather(targets, D.cast(inside + 0.5, to="int"), axis=0)


def _forward(x: Ref, labels: Ref, given: Ref, wanted: Ref, blank: int) -> Ref:
    """ln of the probability, by the paths that end at each place of the labels with blanks between them."""
    D, (time, count, _) = x.builder, x.shape
    if not time:
        raise GraphError("ctc_loss of an empty sequence is not lowered")
    size = labels.shape[1]
    states = 2 * size + 1
    between = labels.constant(blank, (count, size, 1))
    pairs = D.concat(between, D.reshape(labels, shape=(count, size, 1)), axis=2)
    states_of = D.concat(D.reshape(pairs, shape=(count, 2 * size)), labels.constant(blank, (count, 1)), axis=1)
    place = D.broadcast(D.cast(D.iota(size=states), to="real"), shape=(count, states), axes=(1,))
    end = D.broadcast(wanted * 2.0, shape=(count, states), axes=(0,))
    other = D.ne(states_of, _shifted(states_of, 2, states_of.constant(blank, (count, 2))))
    skips = D.logical_and(D.ne(states_of, states_of.constant(blank)), D.logical_and(other, place > 1.5))
    never = place.constant(NEVER)
    reached = D.logical_and(place < 1.5, place < end + 0.5)
    paths = _choose(reached, _said(x, states_of, 0), never)
    found = [paths]
    for t in range(1, time):
        one, two = (_shifted(paths, by, place.constant(NEVER, (count, by))) for by in (1, 2))
        ways = [D.reshape(way, shape=(1, count, states)) for way in (paths, one, _choose(skips, two, never))]
        from_one, from_two = (_shifted(reached, by, reached.constant(False, (count, by))) for by in (1, 2))
        reached = D.logical_or(reached, D.logical_or(from_one, D.logical_and(skips, from_two)))
        paths = D.logsumexp(D.concat(*ways, axis=0), axes=(0,)) + _said(x, states_of, t)
        paths = _choose(reached, paths, never)
        found.append(paths)
    all_ = D.concat(*(D.reshape(one, shape=(1, count, states)) for one in found), axis=0)
    last = D.cast(D.broadcast(given - 0.5, shape=(1, count, states), axes=(1,)), to="int")
    ends = D.reshape(D.gather_along(all_, last, axis=0), shape=(count, states))
    complete = D.logical_and(place > end - 1.5, place < end + 0.5)
    return D.logsumexp(_choose(complete, ends, never), axes=(1,))


def _said(x: Ref, states: Ref, t: int) -> Ref:
    """What a moment says of each state."""
    return x.builder.gather_along(x[t], states, axis=1)


def _shifted(x: Ref, by: int, before: Ref) -> Ref:
    """Along the states, by some places."""
    kept = x[:, : max(x.shape[1] - by, 0)]
    return x.builder.concat(before[:, : min(by, x.shape[1])], kept, axis=1)


ALIGNMENT = (Lowering("ctc_loss", _ctc),)

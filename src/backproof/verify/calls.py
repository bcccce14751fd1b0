"""A call, derived forward and backward from what was recorded at its inputs.

What was recorded is taken as it is, since it is judged itself; what was not (inside of a region, or by a coarser record) is derived,
with its bounds, from what was recorded before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.engine.slabs import SLAB, survey_of
from backproof.lowering.structure import KIND_OF
from backproof.numerics import FORMATS
from backproof.session.tape import compile_tape, run_backward
from backproof.trace.step import Call
from backproof.verify.equation import Total
from backproof.verify.kernels import backward_in, forward_in, reads_in
from backproof.verify.masks import decide, drops, undecided, with_mask
from backproof.verify.origin import Origin, gradient_graph
from backproof.verify.region import Region, Unlowered, label, region_of, values_in, with_witnesses
from backproof.verify.subject import Subject, computes_in, domain

ONLY_ROUNDS = {"to", "half", "bfloat16", "float", "double", "type"}


def check_call(subject: Subject, call: Call) -> None:
    """The call's outputs from its inputs; and from its outputs' gradients, what it adds to the gradients of its inputs."""
    call = with_witnesses(call, subject.stored)
    place = label(call)
    reads = reads_of(call)
    mask = None
    try:
        if drops(call):
            mask = with_mask(subject, call)
            call = mask.call
            reads = reads_of(call)
        region = region_of(call, reads, subject.value)
        reads = region.leaves_of(reads)
        leaves = _read(call, _leaves(subject, reads))
    except Unlowered as reason:
        subject.leave_unknown(call, reads, place, str(reason))
        return
    form = forward_in(call.op, subject.value(call.outputs[0]).dtype, call.autocast)
    if _piecewise(subject, call, region, mask):
        _check_piecewise(subject, call, region, place, form)
        return
    D = domain(*form)
    doubts = D.doubts
    values = evaluate(region.graph, D, leaves)
    origin = _origin(subject, call, region, reads)
    origin = None if origin is None else replace(origin, doubtful=D.doubts > doubts)
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        if subject.stored(output):
            origins = () if origin is None else (replace(origin, output=found),)
            subject.compare("forward", place, output, f"v{output}", values[found], origins, computing=form[0])
        else:
            subject.derived[output] = _settled(subject, call, output, values[found])
    if call.grad and (any(subject.value(output).inner for output in call.outputs) or undecided(subject, mask)):
        subject.deferred.append((call, mask))
    elif call.grad:
        D, values = _again(subject, call, region, leaves, D, values)
        for passing in range(subject.step.passes):
            _backward(subject, call, region, D, values, passing)


def _piecewise(subject: Subject, call: Call, region: Region, mask: Any) -> bool:
    """Whether a call is of large values, all of them known, and has a format in which each equation can be derived by itself."""
    if survey_of(region.graph).heaviest[max(region.graph.outputs)] <= SLAB or reads_in(call.op, call.autocast):
        return False
    recorded = all(_known(subject, value) for value in reads_of(call)) and all(map(subject.stored, call.outputs))
    plain = len(set(region.graph.outputs)) == len(call.outputs) and (mask is None or not mask.unsure.any())
    own = all(subject.value(y).dtype in FORMATS and not subject.value(y).inner for y in call.outputs)
    return recorded and plain and own


def _check_piecewise(subject: Subject, call: Call, region: Region, place: str, form: tuple[str, str | None]) -> None:
    """The same equations, each to be derived when it is compared."""
    reads = region.leaves_of(reads_of(call))
    origin = Origin(region.graph, partial(_leaves, subject, reads), call=call, reads=reads, form=form)
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        total, own = Total(), replace(origin, output=found)
        total.add(None, own)
        subject.compare("forward", place, output, f"v{output}", total, (own,), computing=form[0])
    if not call.grad:
        return
    back = replace(origin, form=backward_in(call.op, subject.value(call.outputs[0]).dtype, call.autocast))
    for passing in range(subject.step.passes):
        seeds = {
            found: partial(subject.gradient, output, passing)
            for output, found in zip(call.outputs, region.graph.outputs, strict=True)
            if subject.value(output).shares is None and subject.gradient(output, passing) is not None
        }
        for leaf, value in enumerate(reads):
            if not seeds or not subject.wants(value, passing, call.region):
                continue
            if gradient_graph(region.graph, leaf, tuple(seeds)) is None:
                continue
            dtype = subject.value(value).dtype
            coarser = FORMATS[dtype].precision < domain(*back.form).storage.precision
            part = replace(back, leaf=leaf, seeds=seeds, stored=dtype if coarser else "")
            subject.contribute(value, None, part, passing, call.region)


def _again(
    subject: Subject, call: Call, region: Region, leaves: list[Any], D: Bounded, values: list[Bound] | None
) -> tuple[Bounded, list[Bound]]:
    """The values of a region where its derivative rounds otherwise than its forward."""
    back = domain(*backward_in(call.op, subject.value(call.outputs[0]).dtype, call.autocast))
    if back is D and values is not None:
        return D, values
    return back, evaluate(region.graph, back, leaves)


def check_deferred(subject: Subject) -> None:
    """The calls with an output whose gradient is derived, last first: all that read it have been derived by then."""
    for call, mask in reversed(subject.deferred):
        reads = reads_of(call)
        region = region_of(call, reads, subject.value)
        reads = region.leaves_of(reads)
        D, values = domain("float32"), None
        closed = next((subject.open[value] for value in call.outputs if value in subject.open), None)
        if closed is not None:
            subject.leave(call, reads, closed)
            continue
        for passing in range(subject.step.passes):
            if all(subject.gradient(output, passing) is None for output in call.outputs):
                continue
            if mask is not None and not decide(subject, mask, passing):
                subject.leave(call, reads[:1], label(call))
                continue
            if values is None or mask is not None:
                D, values = _again(subject, call, region, _read(call, _leaves(subject, reads)), D, None)
            _backward(subject, call, region, D, values, passing)


def reads_of(call: Call) -> tuple[int, ...]:
    """The values that a call reads, each as often as it is given: what comes back to it comes as often, and may be added in any order."""
    return tuple(values_in(call.given))


def _leaves(subject: Subject, reads: tuple[int, ...]) -> list[Any]:
    missing = next((value for value in reads if not subject.stored(value) and value not in subject.derived), None)
    if missing is not None:
        dtype = subject.value(missing).dtype
        why = (
            "which was not recorded and cannot be derived"
            if dtype in KIND_OF
            else f"which is {dtype}: such numbers are not checked"
        )
        raise Unlowered(f"it reads {subject.spoken(missing)}, {why}")
    return [
        subject.array(f"v{value}") if subject.stored(value) else _plainly(subject.derived[value]) for value in reads
    ]


def _read(call: Call, leaves: list[Any]) -> list[Any]:
    """What a call reads, rounded where autocast rounds it inside of the call."""
    to = reads_in(call.op, call.autocast)
    if not to:
        return leaves
    D = domain(to, "float32")
    known = [leaf if isinstance(leaf, Bound) else Bound(np.asarray(leaf)) for leaf in leaves]
    return [
        D.cast(Bound(x.value.astype(np.float64), x.certain, x.likely), to=to) if x.value.dtype.kind == "f" else x
        for x in known
    ]


def _plainly(found: Bound) -> Any:
    """What is known exactly is a number like any that was recorded."""
    return found.value if found.certain is None else found


def _known(subject: Subject, value: int) -> bool:
    return subject.stored(value) or subject.derived[value].certain is None


def _origin(subject: Subject, call: Call, region: Region, reads: tuple[int, ...]) -> Origin | None:
    """Where to look again; only for what was derived from recorded numbers alone."""
    if not all(_known(subject, value) for value in reads):
        return None
    return Origin(region.graph, partial(_leaves, subject, reads), call=call, reads=reads)


def _settled(subject: Subject, call: Call, output: int, found: Bound) -> Bound:
    """A derived value in the format that it has: an exact number is rounded as it must be, any other within a bound."""
    dtype = subject.value(output).dtype
    if dtype not in FORMATS or FORMATS[dtype].precision >= domain(computes_in(dtype)).storage.precision:
        return found
    if call.op in ONLY_ROUNDS and found.certain is None:
        return Bound(FORMATS[dtype].round(found.value))
    return domain("float32").cast(found, to=dtype)


def _backward(subject: Subject, call: Call, region: Region, D: Bounded, values: list[Bound], passing: int) -> None:
    reads = region.leaves_of(reads_of(call))
    seeds: list[Bound | None] = [None] * len(region.graph)
    given: dict[int, Callable[[], Any]] = {}
    exact = True
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        arrived = subject.gradient(output, passing)
        if arrived is not None and subject.value(output).shares is None:
            seed = D.value(arrived, region.graph.types[found])
            known = seeds[found]
            seeds[found] = seed if known is None else D.add(known, seed)
            exact = exact and not isinstance(arrived, Bound) and known is None
            given[found] = partial(subject.gradient, output, passing)
    if not given:
        return
    frozen = {leaf for leaf, value in enumerate(reads) if not subject.wants(value, passing, call.region)}
    if len(frozen) == len(reads):
        return
    origin = _origin(subject, call, region, reads) if exact else None
    doubts = D.doubts
    gradients = run_backward(compile_tape(region.graph, D, values, frozen), seeds)
    doubtful = D.doubts > doubts or any(v.certain is not None for v in values if v.value.dtype.kind != "f")
    for leaf, value in enumerate(reads):
        part = gradients[leaf]
        if leaf in frozen or part is None:
            continue
        dtype = subject.value(value).dtype
        if FORMATS[dtype].precision < D.storage.precision:
            part = D.cast(part, to=dtype)
        found_at = None if origin is None else replace(origin, leaf=leaf, seeds=given, doubtful=doubtful)
        subject.contribute(value, part, found_at, passing, call.region)

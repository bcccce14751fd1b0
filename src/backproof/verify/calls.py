"""A call, derived forward and backward from what was recorded at its inputs.

What was recorded is taken as it is, since it is judged itself; what was not (inside of a region, or by a coarser record) is derived,
with its bounds, from what was recorded before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.numerics import FORMATS
from backproof.session.tape import compile_tape, run_backward
from backproof.trace.step import Call
from backproof.verify.origin import Origin
from backproof.verify.region import Region, Unlowered, label, region_of, values_in
from backproof.verify.subject import Subject, computes_in, domain

ONLY_ROUNDS = {"to", "half", "bfloat16", "float", "double", "type"}


def check_call(subject: Subject, call: Call) -> None:
    """The call's outputs from its inputs; and from its outputs' gradients, what it adds to the gradients of its inputs."""
    reads = reads_of(call)
    try:
        region = region_of(call, reads, subject.value)
        leaves = _leaves(subject, reads)
    except Unlowered as reason:
        subject.leave_unknown(call, reads, str(reason))
        return
    D = domain(computes_in(subject.value(call.outputs[0]).dtype))
    doubts = D.doubts
    values = evaluate(region.graph, D, leaves)
    origin = _origin(subject, call, region, reads)
    origin = None if origin is None else replace(origin, doubtful=D.doubts > doubts)
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        if subject.stored(output):
            origins = () if origin is None else (replace(origin, output=found),)
            subject.compare("forward", label(call), output, f"v{output}", values[found], origins)
        else:
            subject.derived[output] = _settled(subject, call, output, values[found])
    if call.grad and any(subject.value(output).inner for output in call.outputs):
        subject.deferred.append(call)
    elif call.grad:
        for passing in range(subject.step.passes):
            _backward(subject, call, region, D, values, passing)


def check_deferred(subject: Subject) -> None:
    """The calls with an output whose gradient is derived, last first: all that read it have been derived by then."""
    for call in reversed(subject.deferred):
        reads = reads_of(call)
        region = region_of(call, reads, subject.value)
        D = domain(computes_in(subject.value(call.outputs[0]).dtype))
        values = None
        closed = next((subject.open[value] for value in call.outputs if value in subject.open), None)
        if closed is not None:
            subject.leave(call, reads, closed)
            continue
        for passing in range(subject.step.passes):
            if all(subject.gradient(output, passing) is None for output in call.outputs):
                continue
            if values is None:
                values = evaluate(region.graph, D, _leaves(subject, reads))
            _backward(subject, call, region, D, values, passing)


def reads_of(call: Call) -> tuple[int, ...]:
    """The values that a call reads, each once."""
    return tuple(dict.fromkeys(values_in((call.args, call.kwargs))))


def _leaves(subject: Subject, reads: tuple[int, ...]) -> list[Any]:
    missing = next((value for value in reads if not subject.stored(value) and value not in subject.derived), None)
    if missing is not None:
        raise Unlowered(f"it reads value {missing}, which was not recorded and cannot be derived")
    return [subject.array(f"v{value}") if subject.stored(value) else subject.derived[value] for value in reads]


def _origin(subject: Subject, call: Call, region: Region, reads: tuple[int, ...]) -> Origin | None:
    """Where to look again; only for what was derived from recorded numbers alone."""
    if not all(subject.stored(value) for value in reads):
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
    reads = reads_of(call)
    seeds: list[Bound | None] = [None] * len(region.graph)
    given: dict[int, Callable[[], Any]] = {}
    exact = True
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        arrived = subject.gradient(output, passing)
        if arrived is not None:
            seed = D.value(arrived, region.graph.types[found])
            known = seeds[found]
            seeds[found] = seed if known is None else D.add(known, seed)
            exact = exact and not isinstance(arrived, Bound) and known is None
            given[found] = partial(subject.gradient, output, passing)
    if not given:
        return
    frozen = {leaf for leaf, value in enumerate(reads) if not subject.wants(value, passing)}
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

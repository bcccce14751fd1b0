"""A call, derived forward and backward from what was recorded at its inputs."""

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


def check_call(subject: Subject, call: Call) -> None:
    """The call's outputs from its inputs; and from its outputs' gradients, what it adds to the gradients of its inputs."""
    reads = list(dict.fromkeys(values_in((call.args, call.kwargs))))
    try:
        region = region_of(call, tuple(reads), subject.value)
    except Unlowered as reason:
        subject.leave_open(reads, label(call), str(reason))
        return
    D = domain(computes_in(subject.value(call.outputs[0]).dtype))

    def inputs() -> list[Any]:
        return [subject.array(f"v{value}") for value in reads]

    values = evaluate(region.graph, D, inputs())
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        origin = Origin(region.graph, inputs, found, call=call, reads=tuple(reads))
        subject.compare("forward", label(call), output, f"v{output}", values[found], (origin,))
    if call.grad:
        _backward(subject, Origin(region.graph, inputs, call=call, reads=tuple(reads)), region, D, values)


def _backward(subject: Subject, origin: Origin, region: Region, D: Bounded, values: list[Bound]) -> None:
    call, reads = origin.call, origin.reads
    assert call is not None  # it is what the origin is made of
    seeds: list[Bound | None] = [None] * len(region.graph)
    given: dict[int, Callable[[], Any]] = {}
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        if f"g{output}" in subject.tensors:
            seed = D.value(subject.array(f"g{output}"), region.graph.types[found])
            known = seeds[found]
            seeds[found] = seed if known is None else D.add(known, seed)
            given[found] = partial(subject.array, f"g{output}")
    if not given:
        return
    frozen = {leaf for leaf, value in enumerate(reads) if f"g{value}" not in subject.tensors}
    gradients = run_backward(compile_tape(region.graph, D, values, frozen), seeds)
    for leaf, value in enumerate(reads):
        part = gradients[leaf]
        if leaf in frozen or part is None:
            continue
        dtype = subject.value(value).dtype
        if FORMATS[dtype].precision < D.storage.precision:
            part = D.cast(part, to=dtype)
        subject.contribute(value, part, replace(origin, leaf=leaf, seeds=given))

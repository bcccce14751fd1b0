"""A call, derived forward and backward from what was recorded at its inputs."""

from __future__ import annotations

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.numerics import FORMATS
from backproof.session.tape import compile_tape, run_backward
from backproof.trace.step import Call
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
    values = evaluate(region.graph, D, [subject.array(f"v{value}") for value in reads])
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        subject.compare("forward", label(call), output, f"v{output}", values[found])
    if call.grad:
        _backward(subject, call, region, D, values, reads)


def _backward(subject: Subject, call: Call, region: Region, D: Bounded, values: list[Bound], reads: list[int]) -> None:
    seeds: list[Bound | None] = [None] * len(region.graph)
    for output, found in zip(call.outputs, region.graph.outputs, strict=True):
        if f"g{output}" in subject.tensors:
            seed = D.value(subject.array(f"g{output}"), region.graph.types[found])
            known = seeds[found]
            seeds[found] = seed if known is None else D.add(known, seed)
    if all(seed is None for seed in seeds):
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
        subject.contribute(value, part)

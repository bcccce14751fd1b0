"""How much of a step is written: of coarser records the verifier derives what lies between, with the bounds that grow on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from backproof.errors import UsageError
from backproof.lowering import LOWERINGS, canonical
from backproof.numerics import FORMATS
from backproof.trace.step import Call, Step, Value, gradient_key, handed_key
from backproof.verify.calls import reads_of
from backproof.verify.masks import drops

Crosses = Callable[[str, set[str]], bool]

GRANULARITIES: dict[str, Crosses] = {
    "op": lambda _maker, _readers: True,
    "module": lambda maker, readers: readers != {maker},
    "ends": lambda _maker, readers: not readers,
}
"""Whether a value that was made in one module and is read in others is written."""


def granularity_named(name: str) -> str:
    """The name, if it is one."""
    if name not in GRANULARITIES:
        raise UsageError(f"granularity={name!r}: what there is: {', '.join(GRANULARITIES)}")
    return name


def coarser(step: Step, numbers: dict[str, Any], name: str) -> Step:
    """The step without the numbers that lie between; they are taken out of `numbers`, too.

    Kept are leaves and results, what a decision, a mask, a region or the handling of a gradient is told by, and what is no real number.
    """
    if name == "op":
        return step
    crosses, kept, readers = GRANULARITIES[name], set(_needed(step)), _readers(step)
    values = dict(step.values)
    for call in step.calls:
        for number in call.outputs:
            value = step.values[number]
            if number in kept or not _is_between(value) or crosses(call.place, readers.get(number, set())):
                continue
            gradients = [gradient_key(number, passing) for passing in range(step.passes)]
            if any(handed_key(number, passing) in numbers for passing in range(step.passes)):
                continue  # a hook of the user's changed it
            values[number] = replace(value, inner=value.inner or any(key in numbers for key in gradients))
            for key in (f"v{number}", *gradients):
                numbers.pop(key, None)
    return replace(step, values=values, facts={**step.facts, "granularity": name})


def _is_between(value: Value) -> bool:
    return value.origin == "call" and value.dtype in FORMATS and not value.name


def _readers(step: Step) -> dict[int, set[str]]:
    """For each value, the modules that read it."""
    found: dict[int, set[str]] = {}
    for call in step.calls:
        for number in reads_of(call):
            found.setdefault(number, set()).add(call.place)
    return found


def _needed(step: Step) -> Iterator[int]:
    """The values that more than one equation's numbers hang on."""
    for backward in step.backwards:
        yield backward.value
        yield from (number for pair in backward.handed_out for number in pair)
    for region in step.regions:
        yield from (*region.inputs, *region.outputs)
    for value in step.values.values():
        if value.shares is not None:
            yield from (value.id, value.shares)
    for stranger in step.unseen:
        yield from stranger["reads"]
    for call in step.calls:
        if drops(call) or _is_witnessed(call):
            yield from (*reads_of(call), *call.outputs)
    for moment in step.moments:
        yield from (number for number in moment.grads.values() if number is not None)
        for call in step.calls[slice(*moment.given.get("calls", (0, 0)))]:
            yield from (*reads_of(call), *call.outputs)


def _is_witnessed(call: Call) -> bool:
    lowering = LOWERINGS.get(canonical(call.op).removesuffix("_"))
    return lowering is None or lowering.witnessed

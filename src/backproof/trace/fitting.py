"""Whether the parts of a recorded step fit together: what it refers to is there, in the shape and format that it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from backproof.errors import InputError
from backproof.trace.folder import Recorded
from backproof.trace.step import Step, Update, Value, contribution_key, gradient_key, handed_key

STORED = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


def require_fitting(recorded: Recorded, place: str) -> None:
    """An error that names the first part that does not fit."""
    for wrong in _misfits(recorded):
        raise InputError(f"{place}: {wrong}")


def _misfits(recorded: Recorded) -> Iterator[str]:
    step = recorded.step
    for backward in step.backwards:
        if not 0 <= backward.passing <= len(step.backwards) + len(step.moments):
            yield f"a backward pass has the number {backward.passing}, and there are not as many"
    for number, value in step.values.items():
        yield from _of_value(recorded, number, value)
    for what, numbers in _references(step):
        for named in numbers:
            if type(named) is not int or named not in step.values:
                yield f"{what} speaks of value {str(named)[:40]}, which there is not"
    yield from _of_calls(step)
    for i, region in enumerate(step.regions):
        for read in region.inputs:
            yield from _of_tensor(recorded, contribution_key(i, read), step.values[read])
    for i, update in enumerate(step.updates):
        yield from _of_update(i, update)


def _of_calls(step: Step) -> Iterator[str]:
    for i, call in enumerate(step.calls):
        if not call.op or not call.outputs:
            yield f"call {i} has no name or no output"
        if call.region is not None and not 0 <= call.region < len(step.regions):
            yield f"call {i} is in region {call.region}, which there is not"


def _of_value(recorded: Recorded, number: int, value: Value) -> Iterator[str]:
    if any(size < 0 for size in value.shape):
        yield f"value {number}: {list(value.shape)} is not a shape"
    keys = [f"v{number}", *(key(number, i) for key in (gradient_key, handed_key) for i in range(recorded.step.passes))]
    for key in keys:
        yield from _of_tensor(recorded, key, value)


def _of_tensor(recorded: Recorded, key: str, value: Value) -> Iterator[str]:
    tensors = recorded.tensors
    if key not in tensors:
        return
    if tensors.shape(key) != value.shape:
        yield f"value {value.id} has shape {list(value.shape)}, and tensor {key} has {list(tensors.shape(key))}"
    if tensors.dtype(key) != STORED.get(value.dtype, tensors.dtype(key)):
        yield f"value {value.id} is {value.dtype}, and tensor {key} is stored as {tensors.dtype(key)}"


def _of_update(number: int, update: Update) -> Iterator[str]:
    """A parameter is updated once, and each part of its state is one."""
    params: list[str] = []
    for group in update.groups:
        names = group.get("params")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            yield f"update {number}: a group's params are {str(names)[:60]}, which are not names"
            return
        params += names
    state = {f"state of {name}": names for name, names in update.state.items()}
    for what, names in {"params of its groups": params, **state}.items():
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            yield f"update {number}: the {what} have {twice} twice"


def _references(step: Step) -> Iterator[tuple[str, list[Any]]]:
    """All that speaks of values, with the numbers that it says."""
    for i, call in enumerate(step.calls):
        yield f"call {i} ({call.op[:60]})", [*_values_in(call.given), *call.outputs]
    for backward in step.backwards:
        given = [number for pair in backward.handed_out for number in pair]
        yield "a backward pass", [backward.value, *([] if backward.seed is None else [backward.seed]), *given]
    for i, region in enumerate(step.regions):
        yield f"region {i}", [*region.inputs, *region.outputs]
    for found in step.unseen:
        yield "what was made unseen", [found["value"], *found["reads"]]
    yield "what was changed unseen", [found["value"] for found in step.altered]
    yield "what shares a gradient", [each.shares for each in step.values.values() if each.shares is not None]
    for grads in (*(update.grads for update in step.updates), *(moment.grads for moment in step.moments)):
        yield "a gradient's record", [number for number in grads.values() if number is not None]


def _values_in(item: Any) -> Iterator[Any]:
    if isinstance(item, dict):
        if set(item) == {"value"}:
            yield item["value"]
        else:
            for inner in item.values():
                yield from _values_in(inner)
    elif isinstance(item, (list, tuple)):
        for inner in item:
            yield from _values_in(inner)

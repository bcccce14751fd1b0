"""Whether the parts of a recorded step fit together: what it refers to is there, in the shape and format that it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backproof.errors import InputError
from backproof.trace.folder import Recorded
from backproof.trace.step import Value, contribution_key, gradient_key, handed_key

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
        if not isinstance(backward.passing, int) or not 0 <= backward.passing <= len(step.backwards) + len(
            step.moments
        ):
            yield f"a backward pass has the number {str(backward.passing)[:40]}, and there are not as many"
    for number, value in step.values.items():
        yield from _of_value(recorded, number, value)
    for what, numbers in _references(recorded):
        for named in numbers:
            if not isinstance(named, int) or named not in step.values:
                yield f"{what} speaks of value {str(named)[:40]}, which there is not"
    for i, region in enumerate(step.regions):
        for read in region.inputs:
            yield from _of_tensor(recorded, contribution_key(i, read), step.values[read])


def _of_value(recorded: Recorded, number: int, value: Value) -> Iterator[str]:
    if not isinstance(number, int) or not isinstance(value.dtype, str) or not isinstance(value.name, str):
        yield f"value {number}: its number, format and name are not what they should be"
    elif any(not isinstance(size, int) or size < 0 for size in value.shape):
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


def _references(recorded: Recorded) -> Iterator[tuple[str, list[Any]]]:
    step = recorded.step
    for i, call in enumerate(step.calls):
        yield f"call {i} ({str(call.op)[:60]})", [*_values_in(call.given), *call.outputs]
        if not isinstance(call.op, str) or not isinstance(call.place, str) or not call.outputs:
            yield f"call {i}: it has no name, place or output, and", [None]
        if call.region is not None and not (isinstance(call.region, int) and 0 <= call.region < len(step.regions)):
            yield f"call {i} is in region {str(call.region)[:40]}, which there is not, and", [None]
    for backward in step.backwards:
        given = [number for pair in backward.handed_out for number in pair]
        yield "a backward pass", [backward.value, *([] if backward.seed is None else [backward.seed]), *given]
    for i, region in enumerate(step.regions):
        yield f"region {i}", [*region.inputs, *region.outputs]


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

"""Sinks: what becomes of events. A sink is any callable of one event; it may keep the tensor only by copying it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backproof.errors import InputError
from backproof.trace import safetensors
from backproof.trace.event import Event
from backproof.trace.manifest import Stored
from backproof.trace.statistics import Statistics, statistics_of

Sink = Callable[[Event], None]

SAFE_NAMES = {
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


@dataclass(frozen=True, slots=True)
class Taken:
    """An event's tensor as it is stored: its numbers, and what is said of them."""

    numbers: np.ndarray[Any, Any]
    stored: Stored


def taken(event: Event) -> Taken:
    """The tensor of an event, in C order and in a format that both stores have."""
    numbers = np.asarray(event.tensor)
    dtype = event.dtype or numbers.dtype.name
    if dtype == "bfloat16":  # as the bits, for NumPy has no such format of its own
        if numbers.dtype.itemsize != 2:
            raise InputError(f"{event.key}: said bfloat16, and each number has {numbers.dtype.itemsize} bytes")
        numbers = numbers.view(np.uint16)
    elif dtype not in SAFE_NAMES or numbers.dtype.name != dtype:
        raise InputError(
            f"{event.key}: the tensor is {numbers.dtype}{f', said to be {dtype}' if event.dtype else ''}; "
            f"there are {', '.join(SAFE_NAMES)}"
        )
    numbers = np.asarray(numbers, dtype=numbers.dtype.newbyteorder("<"), order="C")
    return Taken(numbers, Stored(dtype, tuple(numbers.shape), event.scale, event.zero_point))


class NpySink:
    """Every tensor as a `.npy` file of its own, in one folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stored: dict[str, Stored] = {}

    def __call__(self, event: Event) -> None:
        """Write one file; it appears whole or not at all."""
        key, found = event.key, taken(event)
        _once(key, self.stored)
        path = self.folder / f"{key}.npy"
        partial = path.with_name(path.name + ".part")
        with partial.open("wb") as file:
            np.lib.format.write_array(file, found.numbers, allow_pickle=False)
        partial.replace(path)
        self.stored[key] = found.stored

    def close(self) -> None:
        """Nothing is left to do."""


class SafetensorsSink:
    """All tensors of a step in one safetensors file, written when it is closed."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.stored: dict[str, Stored] = {}
        self._tensors: dict[str, tuple[str, tuple[int, ...], bytes]] = {}

    def __call__(self, event: Event) -> None:
        """Keep one tensor until the file is written."""
        key, found = event.key, taken(event)
        _once(key, self.stored)
        self._tensors[key] = (SAFE_NAMES[found.stored.dtype], found.stored.shape, found.numbers.tobytes())
        self.stored[key] = found.stored

    def close(self) -> None:
        """Write the file; it appears whole or not at all."""
        safetensors.write(self.path, self._tensors)
        self._tensors = {}


class MemorySink:
    """Every tensor by its key, as a copy."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray[Any, Any]] = {}
        self.events: list[Event] = []
        """The events in the order in which they came, without their tensors."""

    def __call__(self, event: Event) -> None:
        """Keep one tensor."""
        _once(event.key, self.tensors)
        self.tensors[event.key] = np.array(event.tensor)
        self.events.append(Event(event.probe, event.phase, event.index, event.sample, event.parameter))


class StatisticsSink:
    """A few numbers of every tensor, and no tensor."""

    def __init__(self) -> None:
        self.found: dict[str, Statistics] = {}

    def __call__(self, event: Event) -> None:
        """Look at one tensor."""
        _once(event.key, self.found)
        self.found[event.key] = statistics_of(np.asarray(event.tensor))


class Tee:
    """Several sinks at once."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def __call__(self, event: Event) -> None:
        """Hand an event to each of them."""
        for sink in self.sinks:
            sink(event)


def _once(key: str, seen: Any) -> None:
    if key in seen:
        raise InputError(f"{key}: was seen twice in one step; the second call of a place is named `name#2`")

"""Sinks: what becomes of events. A sink is any callable of one event; it may keep the tensor only by copying it."""

from __future__ import annotations

import io
import math
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
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


MOST_AT_ONCE = 1 << 30  # bytes that one call is asked to write: systems take no more than 2 GiB


@dataclass(frozen=True, slots=True)
class Taken:
    """An event's tensor as it is stored: its numbers, and what is said of them."""

    numbers: np.ndarray[Any, Any]
    stored: Stored


def taken(event: Event) -> Taken:
    """The tensor of an event, in C order and in a format that both stores have."""
    numbers = np.asarray(event.tensor)
    own = _name(numbers.dtype)
    dtype = event.dtype or own
    if dtype == "bfloat16":  # as the bits, for NumPy has no such format of its own
        if numbers.dtype.itemsize != 2:
            raise InputError(f"{event.key}: said bfloat16, and each number has {numbers.dtype.itemsize} bytes")
        numbers = numbers.view(np.uint16)
    elif dtype not in SAFE_NAMES or own != dtype:
        raise InputError(
            f"{event.key}: the tensor is {numbers.dtype}{f', said to be {dtype}' if event.dtype else ''}; "
            f"there are {', '.join(SAFE_NAMES)}"
        )
    numbers = np.asarray(numbers, dtype=_little(numbers.dtype), order="C")
    return Taken(numbers, Stored(dtype, numbers.shape, event.scale, event.zero_point))


@cache
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name


@cache
def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")


class NpySink:
    """Every tensor as a `.npy` file of its own, in one folder. Each appears whole or not at all, where not all `together` will."""

    def __init__(self, folder: Path | str, *, together: bool = False) -> None:
        self.folder = Path(folder)
        self._ending = ".npy" if together else ".npy.part"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stored: dict[str, Stored] = {}

    def __call__(self, event: Event) -> None:
        """Write one file."""
        key, found = event.key, taken(event)
        _once(event, key, self.stored)
        path, header = f"{self.folder}/{key}", _header(found.numbers.dtype, found.numbers.shape)
        # A step has many small files, and a Path, or asking whether the file is a terminal, costs as much as writing one.
        with open(path + self._ending, "wb", buffering=io.DEFAULT_BUFFER_SIZE) as file:  # noqa: PTH123
            if not _at_once(file.fileno(), header, found.numbers):
                file.seek(0)
                file.write(header)
                file.write(found.numbers.data)
        if self._ending != ".npy":
            os.replace(path + self._ending, path + ".npy")  # noqa: PTH105
        self.stored[key] = found.stored

    def holds(self, event: Event) -> bool:
        """Whether these very numbers, to the last bit, are what is stored of their place."""
        key, found = event.key, taken(event)
        if self.stored[key] != found.stored:
            return False
        x = found.numbers
        with (self.folder / f"{key}.npy").open("rb") as file:
            stored = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return same_bits(np.ndarray(x.shape, x.dtype, stored, len(_header(x.dtype, x.shape))), x)

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
        _once(event, key, self.stored)
        self._tensors[key] = (SAFE_NAMES[found.stored.dtype], found.stored.shape, found.numbers.tobytes())
        self.stored[key] = found.stored

    def holds(self, event: Event) -> bool:
        """Whether these very numbers, to the last bit, are what is kept of their place."""
        found = taken(event)
        return self.stored[event.key] == found.stored and self._tensors[event.key][2] == found.numbers.tobytes()

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
        _once(event, event.key, self.tensors)
        self.tensors[event.key] = np.array(event.tensor)
        self.events.append(Event(event.probe, event.phase, event.index, event.sample, event.parameter))


class StatisticsSink:
    """A few numbers of every tensor, and no tensor."""

    def __init__(self) -> None:
        self.found: dict[str, Statistics] = {}

    def __call__(self, event: Event) -> None:
        """Look at one tensor."""
        _once(event, event.key, self.found)
        self.found[event.key] = statistics_of(np.asarray(event.tensor))


class Tee:
    """Several sinks at once."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def __call__(self, event: Event) -> None:
        """Hand an event to each of them."""
        for sink in self.sinks:
            sink(event)


def same_bits(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays have the same format, shape and bits: a NaN is itself, and 0 is not −0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return np.array_equal(_whole(one), _whole(other))


def _whole(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(x).reshape(-1).view(f"u{math.gcd(x.dtype.itemsize, 8)}")


@lru_cache(maxsize=4096)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What a `.npy` file begins with."""
    file = io.BytesIO()
    said = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, said)
    return file.getvalue()


def _at_once(file: int, header: bytes, numbers: np.ndarray[Any, Any]) -> bool:
    """Write both in one call, which a file system does in less time than two; False where it could not, or not all."""
    if not hasattr(os, "writev") or numbers.nbytes > MOST_AT_ONCE:
        return False
    return os.writev(file, (header, numbers.data)) == len(header) + numbers.nbytes


def _once(event: Event, key: str, seen: Any) -> None:
    if key in seen and not event.again:
        raise InputError(f"{key}: was seen twice in one step; the second call of a place is named `name#2`")

"""The safetensors format, read without trust and written whole: a length, a JSON header, and the numbers.

Read by memory map, so that only what is looked at is loaded; bfloat16 becomes float32, which holds it exactly.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from backproof.errors import InputError, once
from backproof.trace.place import Place

DTYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
LONGEST_HEADER = 100_000_000


def write(path: Path, tensors: Mapping[str, tuple[str, tuple[int, ...], memoryview | bytes]]) -> None:
    """Write (dtype, shape, bytes) by name. The file appears whole or not at all."""
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        size = len(data) if isinstance(data, bytes) else data.nbytes
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for _, _, data in tensors.values():
            file.write(data)
    partial.replace(path)


class Tensors:
    """The tensors of one file, by name."""

    def __init__(self, path: Path | Place) -> None:
        self.path = path if isinstance(path, Place) else Place(str(path))
        size = self.path.size()
        start = self.path.read(0, 8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        if not 0 <= length <= LONGEST_HEADER:
            raise InputError(f"{path}: not a safetensors file (its first 8 bytes do not give a header's length)")
        text = self.path.read(8, 8 + length)
        self._data = 8 + length
        self._header = self._checked(text, length, size - self._data)
        local = self.path.local
        self._map: memoryview | None = None
        self._views: dict[str, np.ndarray[Any, Any]] = {}
        """Of what is mapped: the memory is the file's."""
        if local is not None and size > self._data:
            self._map = np.memmap(local, dtype=np.uint8, mode="r").data

    def _checked(self, text: bytes, length: int, room: int) -> dict[str, Any]:
        try:
            header = json.loads(text, object_pairs_hook=once)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path}: the header is not JSON ({error})") from None
        if len(text) != length or not isinstance(header, dict):
            raise InputError(f"{self.path}: cut short: the header should have {length} bytes")
        header.pop("__metadata__", None)
        for name, entry in header.items():
            try:
                dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
                whole = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
                size = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize if whole else -1
                good = whole and begin <= end <= room and end - begin == size
            except (KeyError, TypeError, ValueError):
                good = False
            if not good:
                raise InputError(
                    f"{self.path}: tensor {name!r} does not fit: {str(entry)[:120]}, in {max(room, 0)} bytes"
                )
        return header

    def __contains__(self, name: object) -> bool:
        return name in self._header

    def __iter__(self) -> Iterator[str]:
        return iter(self._header)

    def dtype(self, name: str) -> str:
        """The format in which a tensor is stored."""
        return str(self._entry(name)["dtype"])

    def _entry(self, name: str) -> dict[str, Any]:
        if name not in self._header:
            raise InputError(f"{self.path}: there is no tensor {name!r}")
        return self._header[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape."""
        return tuple(self._entry(name)["shape"])

    def raw(self, name: str) -> memoryview:
        """A tensor's bytes, as they are in the file."""
        begin, end = self._entry(name)["data_offsets"]
        if begin == end:
            return memoryview(b"")
        if self._map is None:
            return memoryview(self.path.read(self._data + begin, self._data + end))
        return self._map[self._data + begin : self._data + end]

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """A tensor, read only, in its own type (bfloat16 as float32)."""
        if name in self._views:
            return self._views[name]
        raw, entry = self.raw(name), self._entry(name)
        found = np.frombuffer(raw, dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            return (found.astype(np.uint32) << 16).view(np.float32)
        if self._map is not None:
            self._views[name] = found
        return found

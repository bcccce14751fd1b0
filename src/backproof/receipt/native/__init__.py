"""The native scanner, where it was built. Without it every line goes through the strict reader, with the same outcome."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backproof.engine.library import loaded

FULL, MORE, MISFIT = 0, 1, 2  # why a scan stopped
NUMBER, WHOLE, TEXT = 0, 1, 2  # what stands in a slot of a skeleton
ZERO = -128  # the exponent of 0


class SkeletonStruct(ctypes.Structure):
    """`skeleton` of scan.c."""

    _fields_ = (
        ("literals", ctypes.c_char_p),
        ("ends", ctypes.c_void_p),
        ("kinds", ctypes.c_char_p),
        ("slots", ctypes.c_int64),
        ("numbers", ctypes.c_int64),
        ("texts", ctypes.c_int64),
    )


class BlockStruct(ctypes.Structure):
    """`block` of scan.c."""

    _fields_ = (
        ("numbers", ctypes.c_void_p),
        ("exponents", ctypes.c_void_p),
        ("lines", ctypes.c_void_p),
        ("texts", ctypes.c_void_p),
        ("canonical", ctypes.c_void_p),
        ("repeated", ctypes.c_void_p),
        ("stride", ctypes.c_int64),
        ("most", ctypes.c_int64),
    )


class Scan(Protocol):
    """Fit lines to a skeleton, from a byte and a row on; returns the row after the last, and why the scan stopped."""

    def __call__(
        self,
        skeleton: SkeletonStruct,
        block: BlockStruct,
        data: bytearray | memoryview,
        begin: int,
        end: int,
        row: int,
        *,
        final: bool,
    ) -> tuple[int, int]: ...


@cache
def scanner() -> Scan | None:
    """The compiled scanner, or None where there is none for this platform."""
    return loaded(__file__, "libscan", bound)


def address(array: NDArray[Any]) -> int:
    """Where an array begins. Its `ctypes` attribute would leave a cycle behind, which keeps a chunk in memory for long."""
    return int(array.__array_interface__["data"][0])


def bound(library: ctypes.CDLL) -> Scan:
    """`backproof_scan` of a library as a function."""
    function = library.backproof_scan
    function.restype = ctypes.c_int64
    pointers = (ctypes.POINTER(SkeletonStruct), ctypes.POINTER(BlockStruct), ctypes.c_void_p)
    function.argtypes = (*pointers, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)

    def scan(
        skeleton: SkeletonStruct,
        block: BlockStruct,
        data: bytearray | memoryview,
        begin: int,
        end: int,
        row: int,
        *,
        final: bool,
    ) -> tuple[int, int]:
        stop = ctypes.c_int32()
        if not 0 <= begin <= end < len(data):
            raise ValueError("the scanner looks at the byte after the last")
        held = np.frombuffer(data, dtype=np.uint8)
        rows = function(skeleton, block, address(held), begin, end, final, row, ctypes.byref(stop))
        return rows, stop.value

    return scan

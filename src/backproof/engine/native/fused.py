"""The native evaluation of runs of operations, where it was built. Without it each is evaluated by itself, with the same outcome."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from backproof.engine.library import loaded

BLOCK = 512  # numbers of a row that are evaluated at once
REGISTERS = 256  # the most that a program may have


class InputStruct(ctypes.Structure):
    """`input` of fused.c."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("rows", ctypes.c_void_p),
        ("step", ctypes.c_int64),
        ("kind", ctypes.c_int64),
    )


class InstructionStruct(ctypes.Structure):
    """`instruction` of fused.c."""

    _fields_ = (
        ("op", ctypes.c_int32),
        ("to", ctypes.c_int32),
        ("a", ctypes.c_int32),
        ("b", ctypes.c_int32),
        ("c", ctypes.c_int32),
        ("known", ctypes.c_int32),
        ("unit", ctypes.c_double),
        ("under", ctypes.c_double),
        ("x", ctypes.c_double),
        ("y", ctypes.c_double),
    )


class ProgramStruct(ctypes.Structure):
    """`program` of fused.c."""

    _fields_ = (
        ("code", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("stages", ctypes.c_int64),
        ("registers", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("result", ctypes.c_int64),
        ("sink", ctypes.c_int64),
    )


class MeasureStruct(ctypes.Structure):
    """`measure` of fused.c."""

    _fields_ = (
        ("ratio", ctypes.c_double),
        ("norm", ctypes.c_double),
        ("lean", ctypes.c_double),
        ("at", ctypes.c_int64),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The compiled evaluation, or None where there is none for this platform."""
    return loaded(__file__, "libfused", bound)


def bound(library: ctypes.CDLL) -> ctypes.CDLL:
    """A library whose functions know their arguments."""
    array = ctypes.c_void_p
    library.backproof_fused.argtypes = (ctypes.POINTER(ProgramStruct), array, array, array, array)
    library.backproof_fused.restype = None
    library.backproof_floor.argtypes = (array, array, array, ctypes.c_int64, *(ctypes.c_double,) * 4)
    library.backproof_floor.restype = None
    for name in ("backproof_measure32", "backproof_measure64"):
        function = getattr(library, name)
        function.argtypes = (array, array, array, ctypes.c_int64, ctypes.POINTER(MeasureStruct))
        function.restype = None
    return library


def floored(y: Any, sizes: Any, shrink: float, lost: float, factor: float, under: float) -> Any:
    """max(|y|, sizes·shrink − lost)·factor + under; sizes are of float32."""
    native = library()
    if native is None or not (y.flags.c_contiguous and sizes.flags.c_contiguous):
        return np.maximum(sizes.astype(np.float64) * shrink - lost, abs(y)) * factor + under
    found = np.empty(y.shape)
    native.backproof_floor(y.ctypes.data, sizes.ctypes.data, found.ctypes.data, y.size, shrink, lost, factor, under)
    return found

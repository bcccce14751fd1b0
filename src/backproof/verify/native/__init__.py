"""The native screen, where it was built. Without it the judge looks at every record, with the same outcome."""

from __future__ import annotations

import ctypes
from functools import cache

from backproof.engine.library import loaded

LANES = 32  # records that are evaluated at once


class ProgramStruct(ctypes.Structure):
    """`program` of screen.c."""

    _fields_ = (
        ("code", ctypes.c_void_p),
        ("lists", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("checks", ctypes.c_void_p),
        ("radius", ctypes.c_void_p),
        ("columns", ctypes.c_int64),
        ("nodes", ctypes.c_int64),
        ("checked", ctypes.c_int64),
        ("unit", ctypes.c_double),
        ("slack", ctypes.c_double),
        ("function_slack", ctypes.c_double),
        ("within", ctypes.c_double),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The compiled screen, or None where there is none for this platform."""
    return loaded(__file__, "libscreen", bound)


def bound(library: ctypes.CDLL) -> ctypes.CDLL:
    """A library whose function knows its arguments."""
    arrays, counts = (ctypes.c_void_p,) * 2, (ctypes.c_int64,) * 2
    library.backproof_screen.argtypes = (ctypes.POINTER(ProgramStruct), *arrays, *counts, *arrays)
    library.backproof_screen.restype = None
    return library

"""The native reader and writer of lines, where it was built. Without it Python does the same, byte for byte, slower."""

from __future__ import annotations

import ctypes
from functools import cache

from backproof.engine.library import loaded


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or None where there is none for this platform."""
    return loaded(__file__, "liblines", bound)


def bound(library: ctypes.CDLL) -> ctypes.CDLL:
    """A library whose functions know what they give."""
    library.read_lines.restype = ctypes.c_int64
    library.write_lines.restype = ctypes.c_int64
    return library


def address(array: object) -> ctypes.c_void_p:
    """Where a NumPy array's numbers begin."""
    return ctypes.c_void_p(array.ctypes.data)  # type: ignore[attr-defined]

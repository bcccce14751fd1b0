"""The native convolution, where it was built and the processor has the instructions. Without it NumPy multiplies copies of windows."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from backproof.engine.library import loaded
from backproof.engine.threads import allowed, threads
from backproof.ir.types import Shape

Array = np.ndarray[Any, Any]

_MUCH = 1 << 18  # products, from which on more than one thread is worth its start


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or None where there is none for this platform."""
    return loaded(__file__, "libconvolve", bound)


def bound(library: ctypes.CDLL) -> ctypes.CDLL:
    """A library whose functions know their arguments."""
    array, count = ctypes.c_void_p, ctypes.c_int64
    library.backproof_width.argtypes = ()
    library.backproof_width.restype = count
    library.backproof_convolve.argtypes = (
        *(array, array, count, count, count),  # x, and which of its windows
        *(array, count, array, count, array),  # what is in a window, and the kernels
        *(count, count, array),
    )
    library.backproof_convolve.restype = None
    return library


@cache
def width() -> int:
    """How many kernels are computed at once on this processor; 0 where it is not done here."""
    found = library()
    return int(found.backproof_width()) if found else 0


def convolve(x: Array, w: Array, space: Shape, stride: Shape, dilation: Shape, width: int) -> Array:
    """The products of the kernels w[out, channel, window] with the windows of x[batch, channel, ...]: [out, batch, space].

    Both are of aligned float64, in any layout, and not empty.
    """
    native = library()
    assert native is not None  # or there is no width
    apart = x.strides[2:]
    rows = _offsets((len(x), *space), (x.strides[0], *(a * s for a, s in zip(apart, stride, strict=True))))
    columns = _offsets(w.shape[1:], (x.strides[1], *(a * d for a, d in zip(apart, dilation, strict=True))))
    taps = _offsets(w.shape[1:], w.strides[1:])
    found = np.empty((len(w), len(x), *space))

    def work(begin: int, end: int) -> None:
        native.backproof_convolve(
            *(x.ctypes.data, rows.ctypes.data, begin, end, rows.size),
            *(columns.ctypes.data, columns.size, w.ctypes.data, w.strides[0] // w.itemsize, taps.ctypes.data),
            *(len(w), width, found.ctypes.data),
        )

    pool = threads("array") if rows.size * columns.size * len(w) >= _MUCH else None
    if pool is None:
        work(0, rows.size)
    else:
        ends = [rows.size * i // allowed() for i in range(allowed() + 1)]
        list(pool.map(work, ends[:-1], ends[1:]))
    return found


def _offsets(shape: Shape, strides: Shape) -> Array:
    """Where each element of an array lies, in numbers from the first, in row-major order."""
    found = np.zeros(1, dtype=np.int64)
    for size, stride in zip(shape, strides, strict=True):
        found = (found[:, None] + np.arange(size) * (stride // 8)).reshape(len(found) * size)
    return found

"""Runs of operations evaluated at once: each value in float64 with one bound, a block at a time, so that nothing in between is held.

What is computed is what the `bounded` domain computes *briefly*: the bound is never more than the likely one, so that what is within it
holds, and nothing is said of anything else. Where a formula here is simpler than in the primitive's own analysis, it is smaller.
What is evaluated so: operations on single numbers, sums and extremes along the last axis, sums over all others, and what they read,
moved about as a view (`runs.py` finds them). `native/fused.c` runs it; without it, every operation is evaluated by itself.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.engine.bound import Bound
from backproof.engine.native.fused import (
    BLOCK,
    InputStruct,
    MeasureStruct,
    ProgramStruct,
    library,
)
from backproof.ir.graph import Node
from backproof.ir.types import Shape

OPS = (
    *("load", "constant", "spread", "scatter_along"),
    *("add", "sub", "mul", "div", "neg", "abs", "relu", "maximum", "minimum"),
    *("exp", "log", "tanh", "sigmoid", "sqrt", "rsqrt", "where"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
    *("sum", "max", "min", "lse_top", "lse_sum"),
)
"""The operations of fused.c, in its order."""
CODE = {name: code for code, name in enumerate(OPS)}
POINTWISE = OPS[CODE["add"] : CODE["sum"]]
DECIDES = OPS[CODE["eq"] : CODE["sum"]]
REDUCES = ("sum", "max", "min", "logsumexp")
FULL, ROW, COLUMN = 0, 1, 2
"""A number for each place, for each row, or for each column."""
SMALL = 1 << 10
"""Arrays of fewer numbers are not worth it."""
KINDS = {np.dtype(name): code for code, name in enumerate(("f8", "f4", "i8", "i4", "?"))}

_KERNELS = NumPyKernels("float64")


@dataclass(frozen=True)
class Source:
    """Something read: a value of the graph, seen through moves that touch nothing."""

    value: int
    moves: tuple[Node, ...]
    row: bool


@dataclass(frozen=True)
class Fused:
    """A run of operations, ready to be evaluated."""

    shape: Shape
    """Of the result."""
    frame: Shape
    """Of what is evaluated place by place."""
    sink: int
    sources: tuple[Source, ...]
    code: Any = field(repr=False)
    ends: Any = field(repr=False)
    registers: int
    result: int
    known: bool
    total: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Of sums over rows: what roundings make of sizes, what underflows, how large whole numbers may be, and a unit of what is stored."""

    @property
    def reads(self) -> tuple[int, ...]:
        """The values of the graph that it is made of."""
        return tuple(dict.fromkeys(source.value for source in self.sources))

    def run(self, given: Sequence[Any]) -> Bound:
        """Evaluate it; `given` is what `reads` are: arrays, or bounds."""
        native = library()
        assert native is not None  # else nothing was fused
        rows, columns = math.prod(self.frame[:-1]), self.frame[-1]
        by_value = dict(zip(self.reads, given, strict=True))
        held: list[Any] = []
        inputs = (InputStruct * (2 * len(self.sources)))()
        for i, source in enumerate(self.sources):
            value = by_value[source.value]
            arrays = (value.value, value.likely) if isinstance(value, Bound) else (value, None)
            for j, array in enumerate(arrays):
                seen, offsets, step = _seen(
                    np.asarray(0.0) if array is None else array, source, self.frame, array is None
                )
                held += (seen, offsets)
                inputs[2 * i + j] = InputStruct(seen.ctypes.data, offsets.ctypes.data, step, KINDS[seen.dtype])
        v = np.empty(columns if self.sink == COLUMN else self.shape)
        e = np.empty(3 * columns if self.sink == COLUMN else self.shape)
        program = ProgramStruct(
            ctypes.addressof(self.code),
            ctypes.addressof(self.ends),
            len(self.ends),
            self.registers,
            rows,
            columns,
            self.result,
            self.sink,
        )
        space = _space(2 * self.registers * BLOCK)
        native.backproof_fused(
            ctypes.byref(program), ctypes.addressof(inputs), space.ctypes.data, v.ctypes.data, e.ctypes.data
        )
        if self.sink == COLUMN:
            e = self._settled(v, *e.reshape(3, columns))
        return Bound(v) if self.known else Bound(v, e, e)

    def _settled(self, v: Any, errors: Any, sizes: Any, parts: Any) -> Any:
        """The bounds of sums over rows."""
        factor, under, most, unit = self.total
        if not errors.any() and not parts.any() and sizes.max(initial=0.0) <= most:
            return np.zeros_like(errors)
        found = errors + factor * (sizes + errors) + under
        return found + unit * (abs(v) + found)


class _Spaces(threading.local):
    """Memory of a thread's own."""

    numbers = np.empty(0)


_spaces = _Spaces()


def _space(size: int) -> Any:
    if _spaces.numbers.size < size:
        _spaces.numbers = np.empty(size)
    return _spaces.numbers


def _seen(array: Any, source: Source, frame: Shape, nothing: bool) -> tuple[Any, Any, int]:
    """An array through its moves: its memory, where its rows begin, and how far apart its columns are."""
    if nothing:
        array = np.broadcast_to(array, frame[:-1] if source.row else frame)
    else:
        array = array if array.dtype in KINDS else np.asarray(array, dtype=np.float64)
        for node in source.moves:
            array = node.primitive.forward(_KERNELS, array, **node.given)
        array = array.reshape(frame[:-1] if source.row else frame)
    leading = array.ndim if source.row else array.ndim - 1
    offsets = _offsets(array.shape[:leading], array.strides[:leading])
    return array, offsets, 0 if source.row else array.strides[-1]


@lru_cache(maxsize=256)
def _offsets(shape: Shape, strides: Shape) -> Any:
    """Where each row begins, in bytes from the first."""
    found = np.zeros(1, dtype=np.int64)
    for size, stride in zip(shape, strides, strict=True):
        found = (found[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return found


def quickly(claims: Any, values: Any, bound: Any) -> tuple[float, float, float, int] | None:
    """The largest |claim − value|/bound of flat arrays, Σ value², Σ (claim − value)·value, and where the largest is.

    None where a number is not finite or no bound speaks of it, and where this is not a matter for native code.
    """
    native = library()
    arrays = (claims, values) if bound is None else (claims, values, bound)
    if native is None or values.size < SMALL or not all(array.flags.c_contiguous for array in arrays):
        return None
    name = {"f4": "backproof_measure32", "f8": "backproof_measure64"}.get(claims.dtype.str[1:])
    if name is None or any(array.dtype != np.float64 for array in arrays[1:]):
        return None
    found = MeasureStruct()
    at = None if bound is None else bound.ctypes.data
    getattr(native, name)(claims.ctypes.data, values.ctypes.data, at, values.size, ctypes.byref(found))
    finite = math.isfinite(found.ratio) and math.isfinite(found.norm) and math.isfinite(found.lean)
    return (found.ratio, found.norm, found.lean, found.at) if finite else None

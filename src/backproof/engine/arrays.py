"""Kernels over arrays: the functions that the primitives' forward formulas are made of.

`Kernels` asks nothing of a namespace but the Array API standard (NumPy, CuPy, torch, JAX ...); `NumPyKernels` does some of them
faster. No kernel changes its operands.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from backproof.engine import native
from backproof.engine.threads import threads
from backproof.errors import DomainError
from backproof.ir.primitives.linear import convolve
from backproof.ir.primitives.window import correlate, counts
from backproof.ir.tensor import Tensor
from backproof.ir.types import Shape

Array = Any

# Kernels that are functions of the standard, under the standard's names.
STANDARD = (
    *("add", "subtract", "multiply", "divide", "negative", "pow", "abs", "sign", "where", "maximum", "minimum"),
    *("exp", "log", "log1p", "expm1", "sqrt", "tanh", "sin", "cos"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
    *("logical_and", "logical_or", "logical_not"),
    *("matmul", "reshape", "permute_dims", "broadcast_to", "concat", "stack", "flip", "argsort"),
    *("sum", "max", "min", "prod", "cumulative_sum"),
)


class Kernels:
    """The kernels of an Array-API namespace, with one floating type."""

    def __init__(self, xp: Any, dtype: str) -> None:
        self.xp = xp
        self.real = getattr(xp, dtype)
        self.kinds = {"real": self.real, "int": xp.int64, "bool": xp.bool}
        for name in STANDARD:
            if not hasattr(type(self), name):
                setattr(self, name, getattr(xp, name))

    if TYPE_CHECKING:  # the standard's functions, and what a subclass puts in their place

        def __getattr__(self, name: str) -> Callable[..., Array]: ...

    # ── making values ───────────────────────────────────────────────────────────────────────────────────────────────

    def leaf(self, given: Any, kind: str) -> Array:
        """What a user gives, as an array of the right kind; it may share memory with what was given."""
        if isinstance(given, np.ndarray) and not given.flags.writeable:
            given = given.copy()  # some namespaces warn of memory that they could not write to
        return self.xp.asarray(given, dtype=self.kinds[kind])

    def array(self, value: Array) -> np.ndarray[Any, Any]:
        """As a NumPy array."""
        return np.asarray(value)

    def number(self, value: float) -> Array:
        """One real number."""
        return self.xp.asarray(value, dtype=self.real)

    def constant(self, value: Any, shape: Shape) -> Array:
        """One number everywhere, or a tensor."""
        if isinstance(value, Tensor):
            return self.leaf(value.array, value.kind)
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"
        return self.xp.full(tuple(shape), value, dtype=self.kinds[kind])

    def zeros(self, shape: Shape, like: Array) -> Array:
        """Zeros of the kind of `like`."""
        return self.xp.zeros(tuple(shape), dtype=like.dtype)

    def integers(self, size: int) -> Array:
        """0, 1, 2, ..."""
        return self.xp.arange(size, dtype=self.xp.int64)

    def cast(self, x: Array, to: str) -> Array:
        """Another kind; a floating format changes nothing here."""
        return self.xp.astype(x, self.kinds[to]) if to in self.kinds else x

    # ── functions that the standard lacks ───────────────────────────────────────────────────────────────────────────

    def rsqrt(self, x: Array) -> Array:
        """1/√x."""
        return self.divide(self.number(1.0), self.sqrt(x))

    def sigmoid(self, x: Array) -> Array:
        """1/(1 + e⁻ˣ), without overflow on either side."""
        decay = self.exp(self.negative(self.abs(x)))
        one = self.number(1.0)
        top = self.where(x >= 0, one, decay)
        return self.divide(top, self.add(one, decay))

    def erf(self, x: Array) -> Array:
        """The error function."""
        special = getattr(self.xp, "special", None) or getattr(self.xp, "erf", None)
        if special is None:
            from scipy.special import erf

            return self.xp.asarray(erf(self.array(x)), dtype=self.real)
        return special.erf(x) if hasattr(special, "erf") else special(x)

    def logsumexp(self, x: Array, axis: tuple[int, ...]) -> Array:
        """ln Σ eˣ, shifted by the maximum, which may be −∞ everywhere."""
        top = self.xp.max(x, axis=axis, keepdims=True)
        shift = self.where(self.xp.isfinite(top), top, self.number(0.0))
        total = self.xp.sum(self.exp(self.subtract(x, shift)), axis=axis)
        return self.add(self.log(total), self.reshape(shift, tuple(total.shape)))

    def pad(self, x: Array, low: Shape, high: Shape, interior: Shape) -> Array:
        """Zeros before, after and between the elements of each axis."""
        for axis, given in enumerate(zip(low, high, interior, strict=True)):
            x = self._pad_axis(x, axis, *given)
        return x

    def _pad_axis(self, x: Array, axis: int, low: int, high: int, gap: int) -> Array:
        shape = tuple(x.shape)
        lead, size, tail = shape[:axis], shape[axis], shape[axis + 1 :]
        if gap and size > 1:
            column = self.reshape(x, (*lead, size, 1, *tail))
            spaced = self.concat((column, self.zeros((*lead, size, gap, *tail), like=x)), axis=axis + 1)
            flat = self.reshape(spaced, (*lead, size * (gap + 1), *tail))
            x = flat[(slice(None),) * axis + (slice(0, size * (gap + 1) - gap), ...)]
        if low or high:
            before, after = self.zeros((*lead, low, *tail), like=x), self.zeros((*lead, high, *tail), like=x)
            x = self.concat((before, x, after), axis=axis)
        return x

    # ── windows ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def convolve(self, x: Array, w: Array, stride: Shape, dilation: Shape, groups: int) -> Array:
        """Kernels with every window of x, which is padded already: [batch, out, place]."""
        return convolve(self, x, w, stride, dilation, groups)

    def correlate(self, x: Array, rows: Array, window: Shape, space: Shape, stride: Shape, dilation: Shape) -> Array:
        """Kernels as rows[groups, out, tap·channel], with every window of x: [out, batch·place]."""
        return correlate(self, x, rows, window, space, stride, dilation)

    # ── indices ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def argmax(self, x: Array, axis: int) -> Array:
        """Where x is largest; the first of equals."""
        return self.xp.astype(self.xp.argmax(x, axis=axis), self.xp.int64)

    def exceeds(self, a: Array, b: Array) -> Array:
        """a > b, where what is not a number exceeds everything."""
        return self.xp.greater(a, b) | self.xp.isnan(a)

    def every(self, condition: Array) -> bool:
        """Whether all of it holds."""
        return bool(self.xp.all(condition))

    def take(self, x: Array, index: Array, axis: int) -> Array:
        """x[..., index, ...] for an index of any shape."""
        flat = self.xp.take(x, self.reshape(index, (math.prod(index.shape),)), axis=axis)
        return self.reshape(flat, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))

    def take_along_axis(self, x: Array, index: Array, axis: int) -> Array:
        """x[.., index[.., i, ..], ..]."""
        return self.xp.take_along_axis(x, index, axis=axis)

    def scatter_add(self, index: Array, updates: Array, axis: int, size: int) -> Array:
        """y[..., index, ...] += updates, from zeros; what points nowhere is dropped."""
        count = math.prod(index.shape)
        lead, trail = tuple(updates.shape[:axis]), tuple(updates.shape[axis + len(index.shape) :])
        before, after = math.prod(lead), math.prod(trail)
        moved = self.permute_dims(self.reshape(updates, (before, count, after)), (1, 0, 2))
        where = self.reshape(index, (count,))
        nowhere = self.zeros((count,), like=where) + size  # a row of its own, which is cut off again
        where = self.where((where >= 0) & (where < size), where, nowhere)
        rows = self.add_rows(where, self.reshape(moved, (count, before * after)), size + 1)[:size, ...]
        found = self.permute_dims(self.reshape(rows, (size, before, after)), (1, 0, 2))
        return self.reshape(found, (*lead, size, *trail))

    def add_rows(self, where: Array, rows: Array, size: int) -> Array:
        """Rows added up by index. The standard has no word for it: each namespace's own, or else a product with a 0-1 matrix."""
        found = self.zeros((size, rows.shape[1]), like=rows)
        if hasattr(found, "index_add"):
            return found.index_add(0, where, rows)
        if hasattr(found, "at"):
            return found.at[where].add(rows)
        count = int(where.shape[0])
        hit = self.reshape(where, (1, count)) == self.reshape(self.integers(size), (size, 1))
        return self.matmul(self.xp.astype(hit, self.real), rows)

    def scatter_along(self, index: Array, updates: Array, axis: int, size: int) -> Array:
        """y[.., index[.., i, ..], ..] += updates[.., i, ..]."""
        last = (*(a for a in range(len(updates.shape)) if a != axis), axis)
        back = tuple(last.index(a) for a in range(len(last)))
        where, what = self.permute_dims(index, last), self.permute_dims(updates, last)
        shape = tuple(what.shape)
        rows, count = math.prod(shape[:-1]), shape[-1]
        # Each row writes into a stretch of its own; what points nowhere is sent nowhere.
        where = self.reshape(where, (rows, count))
        inside = (where >= 0) & (where < size)
        offset = self.reshape(self.integers(rows) * size, (rows, 1))
        flat = self.where(inside, where + offset, self.zeros((rows, count), like=where) - 1)
        found = self.scatter_add(
            self.reshape(flat, (rows * count,)), self.reshape(what, (rows * count,)), 0, rows * size
        )
        return self.permute_dims(self.reshape(found, (*shape[:-1], size)), back)


_CACHED = 1 << 18  # numbers that stay near the processor
_MUCH = 1 << 16  # numbers, from which on a copy is worth more than one thread


_ROUND = 64  # numbers that are added one by one in the time of one more addition of arrays


class _Scratch(threading.local):
    """Memory of a thread's own for what is written, read and forgotten: fresh memory costs more than what is done with it."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, dtype=np.uint8)

    def of(self, size: int, dtype: Any) -> Array:
        """That many numbers; what is too large to keep is not kept."""
        needed = size * dtype.itemsize
        if needed > 8 * _CACHED:
            return np.empty(size, dtype=dtype)
        if self._bytes.size < needed:
            self._bytes = np.empty(needed, dtype=np.uint8)
        return self._bytes[:needed].view(dtype)


_scratch = _Scratch()


class NumPyKernels(Kernels):
    """NumPy, with its own faster ways."""

    def __init__(self, dtype: str) -> None:
        super().__init__(np, dtype)

    def leaf(self, given: Any, kind: str) -> Array:
        try:
            found = np.asarray(given)
        except (TypeError, ValueError) as error:
            raise DomainError(f"cannot read {type(given).__name__} as {kind} numbers: {error}") from None
        if found.dtype.kind not in "fiub":
            raise DomainError(f"cannot read an array of {found.dtype} as {kind} numbers")
        if kind == "int" and found.dtype.kind == "f" and not (abs(found) <= 2.0**53).all():
            raise DomainError("expected whole numbers, got some that are too large to be exact, or are none")
        if kind == "int" and found.dtype.kind == "f" and not (found == np.floor(found)).all():
            raise DomainError("expected whole numbers, got fractions")
        if kind == "bool" and found.dtype.kind != "b" and not ((found == 0) | (found == 1)).all():
            raise DomainError("expected truth values, got numbers other than 0 and 1")
        return np.ascontiguousarray(found, dtype=self.kinds[kind]).reshape(found.shape)

    @staticmethod
    @lru_cache(maxsize=512)
    def _everywhere(value: Any, dtype: Any, shape: Shape, sign: float) -> Array:
        del sign  # 0.0 and −0.0 are equal, and must not share an entry
        return np.broadcast_to(np.asarray(value, dtype=dtype), shape)

    def constant(self, value: Any, shape: Shape) -> Array:
        if isinstance(value, Tensor):
            return value.array.astype(self.kinds[value.kind], copy=False)
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "real"
        return self._everywhere(value, self.kinds[kind], tuple(shape), math.copysign(1.0, value))

    def erf(self, x: Array) -> Array:
        from scipy.special import erf

        return erf(x)

    def pad(self, x: Array, low: Shape, high: Shape, interior: Shape) -> Array:
        if not any((*low, *high, *interior)):
            return x
        inner = [(n - 1) * (gap + 1) + 1 if n else 0 for n, gap in zip(x.shape, interior, strict=True)]
        found = self.zeros(tuple(a + n + b for a, n, b in zip(low, inner, high, strict=True)), like=x)
        found[tuple(slice(a, a + n, gap + 1) for a, n, gap in zip(low, inner, interior, strict=True))] = x
        return found

    def stack(self, arrays: Sequence[Array], axis: int) -> Array:
        # NumPy would lay the result out like the operands; in row-major order the reshape that follows costs nothing.
        shape = list(arrays[0].shape)
        shape.insert(axis, len(arrays))
        found = np.empty(shape, dtype=arrays[0].dtype)
        parts = np.moveaxis(found, axis, 0)
        copiers = threads("array") if found.size >= _MUCH else None
        if copiers is None:
            for part, array in zip(parts, arrays, strict=True):
                part[...] = array
        else:
            list(copiers.map(np.copyto, parts, arrays))
        return found

    def convolve(self, x: Array, w: Array, stride: Shape, dilation: Shape, groups: int) -> Array:
        plain = self.matmul is np.matmul and x.dtype == w.dtype == np.float64  # and not of another arithmetic
        if groups > 1 or not plain or not native.width() or not (x.flags.aligned and w.flags.aligned):
            return super().convolve(x, w, stride, dilation, groups)
        window = w.shape[2:]
        space = counts(x.shape[2:], window, stride, ((0, 0),) * len(window), dilation)
        if 0 in (*x.shape, *w.shape, *space):
            return super().convolve(x, w, stride, dilation, groups)
        return np.moveaxis(native.convolve(x, w, space, stride, dilation, native.width()), 1, 0)

    def correlate(self, x: Array, rows: Array, window: Shape, space: Shape, stride: Shape, dilation: Shape) -> Array:
        groups, out, size = rows.shape
        plain = self.matmul is np.matmul and x.dtype == rows.dtype  # and not of another arithmetic
        if groups > 1 or not plain or not space or 0 in (*x.shape, *rows.shape, *space):
            return super().correlate(x, rows, window, space, stride, dilation)
        (n, channels), lines, line = x.shape[:2], space[0], math.prod(space[1:])
        samples = max(1, _CACHED // (size * lines * line))  # of a large one, some lines at a time
        block = min(lines, max(1, _CACHED // (size * line)))
        found = np.empty((out, n * lines * line), dtype=x.dtype)
        apart = x.strides[2:]
        steps = (*(a * d for a, d in zip(apart, dilation, strict=True)), x.strides[1], x.strides[0])
        steps = (*steps, *(a * s for a, s in zip(apart, stride, strict=True)))
        for sample, top in itertools.product(range(0, n, samples), range(0, lines, block)):
            count, high = min(samples, n - sample), min(block, lines - top)
            shape = (*window, channels, count, high, *space[1:])
            columns = _scratch.of(math.prod(shape), x.dtype)
            np.copyto(
                columns.reshape(shape), as_strided(x[sample:, :, top * stride[0] :], shape, steps, writeable=False)
            )
            begin, width = (sample * lines + top) * line, count * high * line
            np.matmul(rows[0], columns.reshape(size, width), out=found[:, begin : begin + width])
        return found

    def where(self, condition: Array, a: Array, b: Array) -> Array:
        # NumPy branches at every element, and guesses wrong at half of them; bits are chosen without a guess.
        if condition.size < _MUCH or a.dtype != b.dtype or a.dtype.itemsize not in (4, 8) or a.dtype.hasobject:
            return np.where(condition, a, b)
        bits = np.dtype(f"i{a.dtype.itemsize}")
        mask = np.negative(condition.view(np.int8))  # all ones, or none; widened on the way, without a copy
        one, other = a.view(bits), b.view(bits)
        if not any(b.strides) and b.size and not other.any():
            return np.bitwise_and(one, mask).view(a.dtype)
        apart = np.bitwise_xor(one, other)
        found = np.bitwise_and(apart, mask, out=apart if apart.shape == mask.shape else None)
        return np.bitwise_xor(found, other, out=found).view(a.dtype)

    def take(self, x: Array, index: Array, axis: int) -> Array:
        return np.asarray(np.take(x, index, axis=axis), dtype=x.dtype)

    def argsort(self, x: Array, axis: int, *, descending: bool, stable: bool) -> Array:
        del stable  # always
        return np.argsort(-x if descending else x, axis=axis, kind="stable")

    def scatter_add(self, index: Array, updates: Array, axis: int, size: int) -> Array:
        count = index.size
        lead, trail = updates.shape[:axis], updates.shape[axis + index.ndim :]
        flat = np.moveaxis(updates.reshape(math.prod(lead), count, math.prod(trail)), 1, 0)
        flat = np.ascontiguousarray(flat).reshape(count, math.prod(lead) * math.prod(trail))
        where = index.reshape(count)
        inside = (where >= 0) & (where < size)
        if not inside.all():
            where, flat = where[inside], flat[inside]
        found = self.add_rows(where, flat, size)
        shaped = found.reshape(size, math.prod(lead), math.prod(trail))
        return np.moveaxis(shaped, 0, 1).reshape(*lead, size, *trail)

    def add_rows(self, where: Array, rows: Array, size: int) -> Array:
        # Each index in order of appearance.
        if rows.shape[1] == 1 and rows.dtype == np.float64 and where.size:  # of nothing, it counts in integers
            return np.bincount(where, weights=rows[:, 0], minlength=size).reshape(size, 1)
        found = np.zeros((size, rows.shape[1]), dtype=rows.dtype)
        if not where.size:
            return found
        order = np.argsort(where, kind="stable")
        placed = where[order]
        begins = np.flatnonzero(np.concatenate([[True], placed[1:] != placed[:-1]]))
        counts = np.diff(np.append(begins, where.size))
        most = int(counts.max())
        if most * _ROUND > rows.size:
            np.add.at(found, where, rows)
            return found
        # First what comes first to each place, then what comes second: no place twice at a time.
        for turn in range(most):
            chosen = order[begins[counts > turn] + turn]
            found[where[chosen]] += rows[chosen]
        return found

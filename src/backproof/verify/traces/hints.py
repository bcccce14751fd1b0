"""Hints: the pattern in which a tensor differs from another, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
NEAR = 1e-3
"""A pattern explains a difference that it makes a thousand times smaller."""
MOST_AXES = 5


def hints_of(a: Array, b: Array, batch: int | None = None) -> Iterator[str]:
    """What a is of b: a multiple, its transpose, shifted, or different in one place alone. Both in one shape but for the order of axes."""
    a, b = (np.asarray(x, dtype=np.float64) for x in (a, b))
    with np.errstate(all="ignore"):
        yield from _hints(a, b, batch)


def _hints(a: Array, b: Array, batch: int | None) -> Iterator[str]:
    if not np.isfinite(a).all() or not np.isfinite(b).all() or not a.size or not b.size:
        return
    if not a.any() or not b.any():
        yield "is zero" if not a.any() else "the other is zero"
        return
    if a.shape != b.shape:
        return
    off = float(np.linalg.norm((a - b).ravel()))
    if off == 0:
        return
    factor = float(np.vdot(a, b) / np.vdot(b, b))
    if factor and np.linalg.norm((a - factor * b).ravel()) < NEAR * min(off, float(np.linalg.norm(a.ravel()))):
        yield f"is {_named(factor, batch)} times"
        return
    if np.linalg.norm((np.abs(a) - np.abs(b)).ravel()) < NEAR * off:
        yield "differs in signs alone"
    if a.ndim and np.ptp(a - b) < NEAR * float(np.abs(a - b).max()):
        yield f"is shifted by the constant {float(np.mean(a - b)):.6g}"
    yield from _moved(a, b, off)
    yield from _confined(a, b)


def _named(factor: float, batch: int | None) -> str:
    known = {-1.0: "−1", 2.0: "2", 0.5: "1/2", -2.0: "−2"}
    if batch:
        known |= {float(batch): f"{batch} (the batch)", 1 / batch: f"1/{batch} (the batch)"}
        if batch > 1:
            known |= {batch / (batch - 1): f"{batch}/{batch - 1}", (batch - 1) / batch: f"{batch - 1}/{batch}"}
    for value, name in known.items():
        if abs(factor - value) < NEAR * abs(value) * 0.5:
            return name
    return f"{factor:.6g}"


def _moved(a: Array, b: Array, off: float) -> Iterator[str]:
    if 2 <= b.ndim <= MOST_AXES:
        for order in permutations(range(b.ndim)):
            turned = np.transpose(b, order)
            if turned.shape == a.shape and np.linalg.norm((a - turned).ravel()) < NEAR * off:
                yield "is transposed" if b.ndim == 2 else f"is permuted: its axes are {list(order)} of the other"
    for axis in range(b.ndim):
        if b.shape[axis] < 3:
            continue
        for step in (1, -1):
            inner = [slice(None)] * b.ndim
            inner[axis] = slice(1, -1)
            rest = (a - np.roll(b, step, axis))[tuple(inner)]
            if np.linalg.norm(rest.ravel()) < NEAR * off:
                yield f"is shifted by {'one' if step == 1 else 'minus one'} along axis {axis}"
        if np.linalg.norm((a - np.flip(b, axis)).ravel()) < NEAR * off:
            yield f"is reversed along axis {axis}"


def _confined(a: Array, b: Array) -> Iterator[str]:
    gap = np.abs(a - b)
    wrong = gap > NEAR * gap.max()
    for axis in range(a.ndim):
        if a.shape[axis] < 2:
            continue
        rest = tuple(i for i in range(a.ndim) if i != axis)
        where = np.flatnonzero(wrong.any(axis=rest))
        if where.size == 1:
            yield f"differs at index {int(where[0])} of axis {axis} only"
    count = int(wrong.sum())
    if count <= max(4, a.size // 1000):
        yield f"differs in {count} of {a.size} elements"


def layout_hint(a: Array, b: Array) -> str | None:
    """How two tensors of different shapes are one: a leading 1, a permutation of axes, or another shape of the same numbers."""
    squeezed = tuple(n for n in a.shape if n != 1) == tuple(n for n in b.shape if n != 1)
    x, y = (np.asarray(side, dtype=np.float64) for side in (a, b))
    if squeezed and _close(x.ravel(), y.ravel()):
        return "the same numbers but for axes of size 1"
    if a.ndim == b.ndim <= MOST_AXES and sorted(a.shape) == sorted(b.shape):
        for order in permutations(range(b.ndim)):
            turned = np.transpose(y, order)
            if turned.shape == a.shape and _close(x, turned):
                return "transposed" if b.ndim == 2 else f"permuted: the axes of a are {list(order)} of b"
    if a.size == b.size and _close(x.ravel(), y.ravel()):
        return "the same numbers in another shape"
    return None


def _close(x: Array, y: Array) -> bool:
    scale = float(np.max(np.abs(y), initial=0.0))
    return bool(np.max(np.abs(x - y), initial=0.0) <= NEAR * scale)

"""How far two tensors are apart, in one pass over both, a block at a time.

Errors are relative to the tensor's scale, which is its largest number: an element near 0 has no scale of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
BLOCK = 1 << 15  # elements; two blocks and their difference stay near the processor


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference a − b. Of what is not finite in the same way on both sides, `unlike` counts the elements."""

    size: int
    largest: float
    """max |a − b|."""
    scale: float
    """max(|a|, |b|)."""
    l2: float
    """‖a − b‖/‖b‖; infinite where b is 0 and a is not."""
    cosine: float
    slope: float
    """⟨a, b⟩/⟨b, b⟩ − 1: a systematic difference in size."""
    at: int
    """The place of the largest difference, in row-major order."""
    differing: int
    """How many elements differ at all."""
    unlike: int = 0
    nonfinite: tuple[int, int] = (0, 0)
    """How many elements of a and of b are not finite."""
    zero: tuple[bool, bool] = (False, False)
    """Whether all of a, or of b, is 0."""

    @property
    def relative(self) -> float:
        """max |a − b| / scale."""
        return 0.0 if self.largest == 0 else self.largest / self.scale if self.scale else math.inf


def gap(a: Array, b: Array) -> Gap:
    """The gap of two tensors of one shape."""
    x, y = (np.ascontiguousarray(side).reshape(-1) for side in (a, b))
    if not (x.dtype == y.dtype and x.dtype in (np.float32, np.float64)):
        wide = np.float64 if x.dtype.itemsize + y.dtype.itemsize > 4 else np.float32
        return _total([_block(x[s].astype(wide), y[s].astype(wide), s.start) for s in _blocks(x.size)], x.size)
    return _total([_block(x[s], y[s], s.start) for s in _blocks(x.size)], x.size)


def _blocks(size: int) -> list[slice]:
    return [slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]


@dataclass(slots=True)
class _Sums:
    """Of one block: the squares of d = a − b and of b, d·b, the extremes, and what is not finite."""

    dd: float
    db: float
    bb: float
    largest: float
    top: tuple[float, float]
    at: int
    differing: int
    unlike: int = 0
    nonfinite: tuple[int, int] = (0, 0)


def _block(x: Array, y: Array, start: int) -> _Sums:
    with np.errstate(all="ignore"):
        d = x - y
        dd = float(np.dot(d, d))
        bb = float(np.dot(y, y))
        high = float(y.max())
        low = float(y.min())
        top = max(high, -low)
        if dd == 0 and np.isfinite(bb) and (bb != 0 or top == 0) and not d.any():
            return _Sums(0.0, 0.0, bb, 0.0, (top, top), start, 0)
        db = float(np.dot(d, y))
        if not (math.isfinite(dd) and math.isfinite(db) and math.isfinite(bb)) or bb < TINY or dd < TINY:
            return _careful(x.astype(np.float64), y.astype(np.float64), start)
        np.abs(d, out=d)
        at = int(d.argmax())
        largest = float(d[at])
        other = top if largest < top * 1e-3 else float(np.abs(x).max())
        return _Sums(dd, db, bb, largest, (other, top), start + at, int(np.count_nonzero(d)))


TINY = 1e-30  # below it, squares of float32 may have been lost


def _careful(x: Array, y: Array, start: int) -> _Sums:
    """The same in float64, where something is not finite, too large to be squared, or too small."""
    good = np.isfinite(x) & np.isfinite(y)
    unlike = int(np.count_nonzero(~good & ~((x == y) | (np.isnan(x) & np.isnan(y)))))
    lost = (int(x.size - np.isfinite(x).sum()), int(y.size - np.isfinite(y).sum()))
    with np.errstate(over="ignore"):
        d = np.where(good, x - np.where(good, y, 0.0), 0.0)
    y = np.where(good, y, 0.0)
    size = np.abs(d)
    at = int(size.argmax()) if not unlike else int(np.argmax(~good & ~((x == y) | (np.isnan(x) & np.isnan(y)))))
    tops = (float(np.max(np.abs(np.where(good, x, 0.0)))), float(np.max(np.abs(y))))
    return _Sums(
        float(np.dot(d, d)),
        float(np.dot(d, y)),
        float(np.dot(y, y)),
        float(size.max()),
        tops,
        start + at,
        int(np.count_nonzero(d)) + unlike,
        unlike,
        lost,
    )


def _total(parts: list[_Sums], size: int) -> Gap:
    if not parts:
        return Gap(0, 0.0, 0.0, 0.0, 1.0, 0.0, 0, 0)
    dd, db, bb = (math.fsum(getattr(part, name) for part in parts) for name in ("dd", "db", "bb"))
    worst = max(parts, key=lambda part: (part.unlike > 0, part.largest))
    aa = max(bb + 2 * db + dd, 0.0)
    tops = (max(part.top[0] for part in parts), max(part.top[1] for part in parts))
    lost = (sum(part.nonfinite[0] for part in parts), sum(part.nonfinite[1] for part in parts))
    return Gap(
        size,
        worst.largest,
        max(tops),
        math.sqrt(dd / bb) if bb else (math.inf if dd else 0.0),
        1.0 if dd == 0 else (bb + db) / math.sqrt(aa * bb) if aa and bb else 0.0,
        db / bb if bb else 0.0,
        worst.at,
        sum(part.differing for part in parts),
        sum(part.unlike for part in parts),
        lost,
        (tops[0] == 0 and not lost[0], tops[1] == 0 and not lost[1]),
    )

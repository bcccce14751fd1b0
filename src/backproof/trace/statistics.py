"""A few numbers that say what a tensor is like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

BINS = 24


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of one tensor; of the finite numbers in it, where there are others."""

    shape: tuple[int, ...]
    dtype: str
    least: float
    largest: float
    mean: float
    deviation: float
    norm: float
    zeros: int
    nans: int
    infinities: int


def statistics_of(x: np.ndarray[Any, Any]) -> Statistics:
    """The statistics of a tensor."""
    numbers = x.astype(np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    nans = int(np.isnan(numbers).sum())
    least = largest = mean = deviation = norm = 0.0
    if finite.size:
        with np.errstate(over="ignore", invalid="ignore"):
            least, largest, mean = float(finite.min()), float(finite.max()), float(finite.mean())
            deviation, norm = float(finite.std()), float(np.sqrt(np.sum(finite * finite)))
    zeros = int((finite == 0).sum())
    return Statistics(
        tuple(x.shape),
        x.dtype.name,
        least,
        largest,
        mean,
        deviation,
        norm,
        zeros,
        nans,
        numbers.size - finite.size - nans,
    )


def histogram_of(x: np.ndarray[Any, Any], bins: int = BINS) -> tuple[list[int], list[float]]:
    """How many of the finite numbers lie in each of these stretches, and the ends of the stretches."""
    numbers = x.astype(np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return [], []
    low, high = float(finite.min()), float(finite.max())
    if low == high or not np.isfinite(high - low):
        return [int(finite.size)], [low, high]
    counts, edges = np.histogram(finite, bins=bins, range=(low, high))
    return [int(n) for n in counts], [float(edge) for edge in edges]

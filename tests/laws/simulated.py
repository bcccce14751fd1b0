"""Arithmetic of a small format, simulated: every result is rounded to it, and sums go term by term in the format of accumulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.engine.domain import ArrayDomain
from backproof.numerics import format_named

Array = np.ndarray[Any, Any]
ROUNDED = ("add", "subtract", "multiply", "divide", "pow", "exp", "log", "log1p", "expm1", "sqrt", "tanh", "sin", "cos")


class SimulatedKernels(NumPyKernels):
    """Every function is that of float64, rounded; every sum is sequential."""

    def __init__(self, computing: str, accumulation: str) -> None:
        super().__init__("float64")
        self.storage, self.accumulation = format_named(computing), format_named(accumulation)
        for name in ROUNDED:
            setattr(self, name, self._rounding(getattr(self, name)))

    def _rounding(self, function: Any) -> Any:
        return lambda *x: self.storage.round(function(*x))

    def constant(self, value: Any, shape: tuple[int, ...]) -> Array:
        found = super().constant(value, shape)
        return self.storage.round(found) if found.dtype.kind == "f" else found

    def number(self, value: float) -> Array:
        return self.storage.round(value)

    def cast(self, x: Array, to: str) -> Array:
        found = super().cast(x, to)
        return self.storage.round(found) if found.dtype.kind == "f" else found

    def erf(self, x: Array) -> Array:
        return self.storage.round(super().erf(x))

    def one_by_one(self, terms: Array) -> Array:
        """The sum along axis 0, left to right."""
        total = np.zeros(terms.shape[1:])
        for term in terms:
            total = self.accumulation.round(total + term)
        return self.storage.round(total)

    def sum(self, x: Array, axis: tuple[int, ...]) -> Array:
        kept = [n for a, n in enumerate(x.shape) if a not in axis]
        terms = np.moveaxis(x, axis, range(len(axis)))
        return self.one_by_one(terms.reshape(int(np.prod([x.shape[a] for a in axis])), *kept))

    def prod(self, x: Array, axis: tuple[int, ...]) -> Array:
        kept = [n for a, n in enumerate(x.shape) if a not in axis]
        total = np.ones(kept)
        for factor in np.moveaxis(x, axis, range(len(axis))).reshape(int(np.prod([x.shape[a] for a in axis])), *kept):
            total = self.storage.round(total * factor)
        return total

    def cumulative_sum(self, x: Array, axis: int) -> Array:
        found, total = [], np.zeros(np.moveaxis(x, axis, 0).shape[1:])
        for term in np.moveaxis(x, axis, 0):
            total = self.accumulation.round(total + term)
            found.append(self.storage.round(total))
        return np.moveaxis(np.array(found).reshape(x.shape[axis], *total.shape), 0, axis)

    def matmul(self, a: Array, b: Array) -> Array:
        products = self.accumulation.round(a[..., :, :, None] * b[..., None, :, :])
        return self.one_by_one(np.moveaxis(products, -2, 0))

    def add_rows(self, where: Array, rows: Array, size: int) -> Array:
        found = np.zeros((size, rows.shape[1]))
        for place, row in zip(where.tolist(), rows, strict=True):
            found[place] = self.accumulation.round(found[place] + row)
        return self.storage.round(found)

    def logsumexp(self, x: Array, axis: tuple[int, ...]) -> Array:
        top = np.max(x, axis=axis, keepdims=True)
        total = self.sum(self.exp(self.subtract(x, top)), axis)
        return self.add(self.log(total), top.reshape(total.shape))


def simulated(computing: str, accumulation: str) -> ArrayDomain:
    """A domain that computes in a small format."""
    return ArrayDomain(f"simulated {computing}", SimulatedKernels(computing, accumulation))

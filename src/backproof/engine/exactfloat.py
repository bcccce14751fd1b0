"""float64 on small whole numbers, where it cannot round: the same kernels, compared by equality with integers.

Functions that leave the integers are replaced by the polynomials of `exact.SURROGATES`, and constants that are none by small ones,
as in `exact.WholeKernels`; all other kernels are NumPy's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.engine.domain import ArrayDomain, Domain
from backproof.engine.evaluate import evaluate
from backproof.engine.exact import LARGEST_POWER, SURROGATES, surrogate, whole
from backproof.ir.backprop import backprop
from backproof.ir.graph import Graph
from backproof.ir.primitive import Primitive
from backproof.ir.tensor import Tensor
from backproof.ir.types import Shape, Type

LIMIT = 2.0**53
"""Every whole number up to here is a float64, so sums that stay below are exact in any order."""


_wholes = np.frompyfunc(whole, 1, 1)


class _Surrogates(NumPyKernels):
    def __init__(self) -> None:
        super().__init__("float64")
        for name in SURROGATES:
            setattr(self, name, self._stand_in(name))

    @staticmethod
    def _stand_in(name: str) -> Any:
        return lambda x: np.asarray(surrogate(name, x))

    def number(self, value: float) -> Any:
        return super().number(whole(value))

    def constant(self, value: Any, shape: Shape) -> Any:
        if isinstance(value, Tensor):
            found = super().constant(value, shape)
            return np.asarray(_wholes(found), dtype=np.float64) if value.kind == "real" else found
        return super().constant(float(whole(value)) if isinstance(value, float) else value, shape)

    def pow(self, a: Any, b: Any) -> Any:
        found, highest = np.ones(np.shape(a)), np.max(abs(b), initial=0)
        if not highest <= LARGEST_POWER:
            return np.full(np.shape(a), np.inf)  # what is too large for this check, which is for whoever asks to see
        for count in range(int(highest)):
            found = np.where(count < abs(b), found * a, found)
        return found

    def divide(self, a: Any, b: Any) -> Any:
        return np.asarray(a * surrogate("inverse", b))

    def logsumexp(self, x: Any, axis: tuple[int, ...]) -> Any:
        return np.asarray(surrogate("log", np.asarray(np.sum(surrogate("exp", x), axis=axis))))


def small_integers() -> ArrayDomain:
    """NumPy in float64, with surrogates for what leaves the integers."""
    return ArrayDomain("float64 on small integers", _Surrogates())


@dataclass(frozen=True, slots=True)
class _Sized:
    """A value, and a bound on every partial sum that may be met on the way to it."""

    value: Any
    size: Any

    @property
    def shape(self) -> Shape:
        """The value's shape."""
        return tuple(self.value.shape)


@final
class _Magnitudes(Domain):
    """Formulas on values and magnitudes: decisions follow the values, and of magnitudes every sum and difference adds."""

    name = "magnitudes"

    def __init__(self) -> None:
        self.largest = 0.0
        self.plain = _Surrogates()

    def value(self, given: Any, kind: Type) -> _Sized:
        if isinstance(given, _Sized):
            return given
        found = self.plain.leaf(given, kind.kind)
        return _Sized(found, abs(found) if kind.kind == "real" else found)

    def array(self, value: _Sized) -> Any:
        return value.value

    def apply(self, primitive: Primitive, *x: _Sized, **params: Any) -> _Sized:
        y = np.asarray(primitive.forward(self.plain, *(given.value for given in x), **params))
        if y.dtype.kind != "f":
            return _Sized(y, y)
        special = _SIZES.get(primitive.name)
        if primitive.name in SURROGATES:
            size = _polynomial_size(primitive.name, x[0].size)
        elif special is not None:
            size = special(x, params)
        else:  # linear in each of its reals: the same operation on magnitudes, with the indices as they are
            size = abs(primitive.forward(self.plain, *(given.size for given in x), **params))
        size = np.broadcast_to(np.maximum(size, abs(y)), y.shape)
        if size.size:
            self.largest = max(self.largest, float(size.max()))
        return _Sized(y, size)


def _polynomial_size(name: str, m: Any) -> Any:
    c0, c1, c2 = (abs(c) for c in SURROGATES[name])
    return (m * c2 + c1) * m + c0


def _logsumexp_size(x: tuple[_Sized, ...], params: dict[str, Any]) -> Any:
    return _polynomial_size("log", np.sum(_polynomial_size("exp", x[0].size), axis=params["axes"]))


# Of what is not linear with positive coefficients, how magnitudes grow.
_SIZES: dict[str, Callable[[tuple[_Sized, ...], dict[str, Any]], Any]] = {
    "sub": lambda x, params: x[0].size + x[1].size,
    "neg": lambda x, params: x[0].size,
    "relu": lambda x, params: x[0].size,
    "sign": lambda x, params: 1.0,
    "div": lambda x, params: x[0].size * _polynomial_size("inverse", x[1].size),
    "pow": lambda x, params: np.maximum(x[0].size, 1.0) ** x[1].size,
    "where": lambda x, params: np.maximum(x[1].size, x[2].size),
    "maximum": lambda x, params: np.maximum(x[0].size, x[1].size),
    "minimum": lambda x, params: np.maximum(x[0].size, x[1].size),
    "max": lambda x, params: np.max(x[0].size, axis=params["axes"]),
    "min": lambda x, params: np.max(x[0].size, axis=params["axes"]),
    "max_pool": lambda x, params: np.max(x[0].size, initial=0.0),
    "prod": lambda x, params: np.prod(np.maximum(x[0].size, 1.0), axis=params["axes"]),
    "logsumexp": _logsumexp_size,
}


def largest(graph: Graph, out: int, leaves: Sequence[Any]) -> float:
    """No number that the forward and backward pass meet at these leaves is larger, partial sums included."""
    D = _Magnitudes()
    with np.errstate(all="ignore"):
        values = evaluate(graph, D, leaves)
        one = np.ones(graph.types[out].shape)
        backprop(graph, D, values, {out: _Sized(one, one)})
    return D.largest

"""Kernels over whole numbers and fractions: nothing is ever rounded.

Values are NumPy arrays of Python integers and fractions, so every formula that uses only + − · / runs unchanged. Where
python-flint is installed, large products go through its matrices.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.errors import DomainError
from backproof.ir.tensor import Tensor
from backproof.ir.types import Shape

Array = Any
LARGEST_POWER = 1 << 12

# Functions that leave the integers, each with the integer polynomial that may stand for it. All differ, so that one function
# taken for another shows; almost all are of degree 1, so that numbers stay small through many layers.
SURROGATES = {
    "exp": (1, 1, 0),
    "log": (2, 1, 0),
    "log1p": (3, 1, 0),
    "expm1": (-1, 1, 0),
    "sqrt": (1, -1, 0),
    "rsqrt": (2, -1, 0),
    "tanh": (0, 1, 0),
    "sigmoid": (-2, 1, 0),
    "erf": (-1, -1, 0),
    "sin": (0, -1, 0),
    "cos": (0, 0, 1),
    "inverse": (-2, -1, 0),
}
"""name → (c₀, c₁, c₂): the polynomial c₀ + c₁·x + c₂·x². A quotient a/b is a·inverse(b)."""


def surrogate(name: str, x: Array) -> Array:
    """The polynomial that stands for this function; exact over integers, and over floats that are small integers."""
    c0, c1, c2 = SURROGATES[name]
    return (x * c2 + c1) * x + c0


def rational(value: Any) -> int | Fraction:
    """A number as it is: every finite float is a fraction."""
    if isinstance(value, (bool, np.bool_)):
        raise DomainError("expected a number, got a truth value")
    try:
        found = Fraction(value.item() if isinstance(value, np.generic) else value)
    except (ValueError, OverflowError, TypeError):
        raise DomainError(f"{value!r} is not a rational number") from None
    return found.numerator if found.denominator == 1 else found


def whole(value: Any) -> int:
    """A number that is whole; for any other, the small one that stands in for it."""
    if isinstance(value, float) and not math.isfinite(value):
        return 10 if math.isnan(value) else int(math.copysign(9, value))
    found = rational(value)
    return found if isinstance(found, int) else 2 + (found.numerator * 31 + found.denominator) % 7


_rationals = np.frompyfunc(rational, 1, 1)


def _objects(x: Any) -> Array:
    """An object array, also for what NumPy would hand back as a bare scalar."""
    if isinstance(x, np.ndarray):
        return x
    found = np.empty((), dtype=object)
    found[()] = x
    return found


def _quotient(a: Any, b: Any) -> int | Fraction:
    if b == 0:
        raise DomainError("division by 0, which has no exact value")
    return rational(Fraction(a) / b)


_quotients = np.frompyfunc(_quotient, 2, 1)


def _integer_power(a: Any, b: Any) -> int | Fraction:
    if Fraction(b).denominator != 1:
        raise DomainError(f"{a} to the power {b} is not rational in general; only whole exponents are exact")
    if a == 0 and b < 0:
        raise DomainError(f"0 to the power {b}, which has no exact value")
    return rational(Fraction(a) ** int(b))


_signs = np.frompyfunc(lambda a: (a > 0) - (a < 0), 1, 1)
_powers = np.frompyfunc(_integer_power, 2, 1)


class ExactKernels(NumPyKernels):
    """Arrays of integers and fractions. With `surrogates`, functions that leave them are replaced by polynomials."""

    def __init__(self, *, surrogates: bool) -> None:
        super().__init__("float64")
        self.surrogates = surrogates
        self.kinds = {"real": object, "int": np.int64, "bool": np.bool_}
        self.real = object
        for name in SURROGATES:
            setattr(self, name, self._stand_in(name))
        for name in ("add", "subtract", "multiply", "negative", "abs", "maximum", "minimum"):
            setattr(self, name, self._on_objects(getattr(np, name)))
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
            setattr(self, name, self._as_truth(getattr(np, name)))

    def _stand_in(self, name: str) -> Any:
        def function(x: Array) -> Array:
            if not self.surrogates:
                raise DomainError(f"{name} leaves the rationals, so it has no value in the exact domain")
            return _objects(surrogate(name, x))

        return function

    @staticmethod
    def _on_objects(function: Any) -> Any:
        return lambda *x: _objects(function(*x))

    @staticmethod
    def _as_truth(function: Any) -> Any:
        return lambda a, b: np.asarray(function(a, b), dtype=np.bool_)

    def leaf(self, given: Any, kind: str) -> Array:
        if kind != "real":
            return super().leaf(given, kind)
        return _objects(_rationals(np.asarray(given, dtype=object)))

    def array(self, value: Array) -> np.ndarray[Any, Any]:
        return value

    def number(self, value: float) -> Array:
        return _objects(rational(value))

    @staticmethod
    @lru_cache(maxsize=512)
    def _filled(value: Any, shape: Shape) -> Array:
        found = np.empty(shape, dtype=object)
        found.fill(rational(value))
        return found

    def constant(self, value: Any, shape: Shape) -> Array:
        if isinstance(value, Tensor):
            return self.leaf(value.array, value.kind)
        if isinstance(value, (bool, int)):
            return np.full(shape, value, dtype=np.bool_ if isinstance(value, bool) else np.int64)
        return self._filled(value, tuple(shape))

    def zeros(self, shape: Shape, like: Array) -> Array:
        found = np.zeros(shape, dtype=like.dtype)
        if like.dtype == object:
            found.fill(0)
        return found

    def cast(self, x: Array, to: str) -> Array:
        if to == "real" and x.dtype != object:
            return _objects(_rationals(x.astype(np.int64).astype(object)))
        if to in ("int", "bool") and x.dtype == object:
            return x.astype(self.kinds[to])
        return x if to not in self.kinds else x.astype(self.kinds[to])

    def divide(self, a: Array, b: Array) -> Array:
        if self.surrogates:
            return _objects(a * surrogate("inverse", b))
        return _objects(_quotients(a, b))

    def pow(self, a: Array, b: Array) -> Array:
        return _objects(_powers(a, b))

    def sign(self, x: Array) -> Array:
        return _objects(_signs(x))

    def sum(self, x: Array, axis: tuple[int, ...]) -> Array:
        return _objects(np.sum(x, axis=axis, initial=0))

    def prod(self, x: Array, axis: tuple[int, ...]) -> Array:
        return _objects(np.prod(x, axis=axis, initial=1))

    def max(self, x: Array, axis: tuple[int, ...]) -> Array:
        return _objects(np.max(x, axis=axis))

    def min(self, x: Array, axis: tuple[int, ...]) -> Array:
        return _objects(np.min(x, axis=axis))

    def cumulative_sum(self, x: Array, axis: int) -> Array:
        return np.cumsum(x, axis=axis, dtype=object)

    def logsumexp(self, x: Array, axis: tuple[int, ...]) -> Array:
        # As it is defined, so that its derivative rule, which speaks of exp, meets the same symbols.
        return self.log(self.sum(self.exp(x), axis=axis))

    def exceeds(self, a: Array, b: Array) -> Array:
        return np.asarray(a > b, dtype=np.bool_)

    def matmul(self, a: Array, b: Array) -> Array:
        if a.shape[-1] == 0:
            return self.zeros((*a.shape[:-1], b.shape[-1]), like=np.empty(0, dtype=object))
        if a.size * b.shape[-1] >= 4096:
            return np.stack([_product(p, q) for p, q in zip(a, b, strict=True)]) if a.ndim == 3 else _product(a, b)
        return np.matmul(a, b)

    def add_rows(self, where: Array, rows: Array, size: int) -> Array:
        found = self.zeros((size, rows.shape[1]), like=rows)
        for index, row in zip(where.tolist(), rows, strict=True):
            found[index] = found[index] + row
        return found


class WholeKernels(ExactKernels):
    """The exact domain with whole numbers only: what is not whole is stood in for, and noted."""

    def __init__(self) -> None:
        super().__init__(surrogates=True)
        self.noted: set[str] = set()

    def _whole(self, value: Any) -> int:
        found = whole(value)
        if found != value:
            self.noted.add(f"{float(value):.6g} by {found}")
        return found

    def leaf(self, given: Any, kind: str) -> Array:
        if kind != "real":
            return super().leaf(given, kind)
        return np.frompyfunc(self._whole, 1, 1)(np.array(given, dtype=object, ndmin=1)).reshape(np.shape(given))

    def number(self, value: float) -> Array:
        return super().number(self._whole(value))

    def constant(self, value: Any, shape: Shape) -> Array:
        return super().constant(float(self._whole(value)) if isinstance(value, float) else value, shape)

    def pow(self, a: Array, b: Array) -> Array:
        if any(abs(exponent) > LARGEST_POWER for exponent in np.ravel(b).tolist()):
            raise DomainError("an exponent is too large for exact arithmetic")
        if any(exponent < 0 for exponent in np.ravel(b).tolist()):
            self.noted.add("negative powers by positive ones")
        return np.asarray(a ** abs(b), dtype=object)


def _product(a: Array, b: Array) -> Array:
    """A matrix product by python-flint where it is installed, else by NumPy's loops."""
    try:
        import flint
    except ImportError:
        return np.matmul(a, b)
    whole = all(type(value) is int for value in a.ravel()) and all(type(value) is int for value in b.ravel())
    make = flint.fmpz_mat if whole else flint.fmpq_mat
    product = make(_flint(flint, a, whole=whole)) * make(_flint(flint, b, whole=whole))
    found = np.empty((a.shape[0], b.shape[1]), dtype=object)
    table: list[list[Any]] = product.tolist()
    for i, row in enumerate(table):
        for j, value in enumerate(row):
            found[i, j] = int(value) if whole else rational(Fraction(int(value.p), int(value.q)))
    return found


def _flint(flint: Any, x: Array, *, whole: bool) -> list[list[Any]]:
    if whole:
        return x.tolist()
    return [[flint.fmpq(Fraction(v).numerator, Fraction(v).denominator) for v in row] for row in x.tolist()]

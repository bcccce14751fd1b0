"""Kernels over the integers modulo p = 2⁶¹ − 1, for identity testing.

Sums and products are those of the field, so an identity that holds for all numbers holds here, and one that does not fails at
random elements but with probability (degree)/p. Functions that are not rational are *symbols*: a keyed random function of the
field element, the same for equal arguments. Decisions (comparisons, argmax, ...) are keyed random too: every branch is tried.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.engine.arrays import NumPyKernels
from backproof.errors import DomainError
from backproof.ir.tensor import Tensor
from backproof.ir.types import Shape

P = (1 << 61) - 1
Array = NDArray[np.uint64]

_P = np.uint64(P)
_61 = np.uint64(61)
_LOW32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_LIMB = 21
_MASK = np.uint64((1 << _LIMB) - 1)
_SPREAD = np.array(0x1234567, dtype=np.uint64)  # keeps a > b and b > a apart
_AT_ONCE = 1 << 22  # entries of the nine products together
_BLOCK = 1024  # products of 21-bit limbs, summed over this many terms, stay below 2⁵³

SYMBOLS = ("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "abs", "sign")


def reduce(x: Array) -> Array:
    """Any uint64 as a field element: 2⁶¹ = 1."""
    x = (x & _P) + (x >> _61)
    return np.minimum(x, np.subtract(x, _P))  # below p the difference wraps around, far up


def rotate(x: Array, k: int) -> Array:
    """2ᵏ·x for a field element x: a rotation of its 61 bits."""
    k %= 61
    if k == 0:
        return x
    return reduce(((x << np.uint64(k)) & _P) | (x >> np.uint64(61 - k)))


def add(a: Array, b: Array) -> Array:
    """a + b."""
    return reduce(a + b)


def negative(a: Array) -> Array:
    """−a."""
    return (_P - a) * (a != 0)


def multiply(a: Array, b: Array) -> Array:
    """a·b, through halves of 32 and 29 bits."""
    a_low, a_high, b_low, b_high = a & _LOW32, a >> _32, b & _LOW32, b >> _32
    low, high = a_low * b_low, a_high * b_high  # below 2⁶⁴ and 2⁵⁸
    middle = reduce(a_low * b_high + a_high * b_low)
    # 2³²·middle is a rotation and 2⁶⁴·high = 8·high: three numbers of hardly more than 61 bits.
    turned = ((middle << _32) & _P) | (middle >> np.uint64(61 - 32))
    return reduce((low & _P) + (low >> _61) + turned + (high << np.uint64(3)))


def matmul(a: Array, b: Array) -> Array:
    """a @ b, through nine products of 21-bit limbs in float64, each exact whatever the order of its sums."""
    terms, columns = a.shape[-1], b.shape[-1]
    width = max(64, _AT_ONCE // max(1, 9 * math.prod(a.shape[:-1])))
    total: Array | None = None
    for begin in range(0, terms, _BLOCK):
        left, right = a[..., begin : begin + _BLOCK], b[..., begin : begin + _BLOCK, :]
        parts = [_matmul_block(left, right[..., start : start + width]) for start in range(0, columns, width)]
        part = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1) if parts else None
        total = part if total is None or part is None else add(total, part)
    if total is None:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*batch, a.shape[-2], columns), dtype=np.uint64)
    return total


def _limbs(x: Array, axis: int) -> NDArray[np.float64]:
    """The three limbs, one after the other along an axis."""
    return np.concatenate([(x >> np.uint64(_LIMB * i)) & _MASK for i in range(3)], axis=axis).astype(np.float64)


def _matmul_block(a: Array, b: Array) -> Array:
    """All nine products as one, of which those of equal weight are added up before anything is reduced."""
    product = (_limbs(a, -2) @ _limbs(b, -1)).astype(np.uint64)
    rows, columns = a.shape[-2], b.shape[-1]
    tiles = [
        [product[..., i * rows : (i + 1) * rows, j * columns : (j + 1) * columns] for j in range(3)] for i in range(3)
    ]
    total = reduce(tiles[0][0])
    total = add(total, rotate(reduce(tiles[0][1] + tiles[1][0]), _LIMB))
    total = add(total, rotate(reduce(tiles[0][2] + tiles[1][1] + tiles[2][0]), 2 * _LIMB))
    total = add(total, rotate(reduce(tiles[1][2] + tiles[2][1]), 3 * _LIMB))
    return add(total, rotate(reduce(tiles[2][2]), 4 * _LIMB))


def total_of(x: Array, axis: Any) -> Array:
    """Σ x: the halves are summed apart, which cannot overflow below 2³² terms."""
    low = np.sum(x & _LOW32, axis=axis, dtype=np.uint64)
    high = np.sum(x >> _32, axis=axis, dtype=np.uint64)
    return add(reduce(np.asarray(low)), rotate(reduce(np.asarray(high)), 32))


def element(value: float) -> int:
    """A number of a graph as a field element: every finite float is a fraction of whole numbers."""
    try:
        fraction = Fraction(value.item() if isinstance(value, np.generic) else value)
    except (TypeError, ValueError, OverflowError):
        raise DomainError(f"{value!r} has no counterpart in a finite field") from None
    return fraction.numerator * pow(fraction.denominator, -1, P) % P


def _whole(x: Any) -> Array:
    """Whole numbers and truth values as field elements."""
    return np.asarray(np.mod(x.astype(np.int64), P), dtype=np.uint64)


class FieldKernels(NumPyKernels):
    """Arrays of field elements. `seed` keys the symbols and the decisions."""

    def __init__(self, seed: int) -> None:
        super().__init__("float64")
        self.real = np.uint64
        self.kinds = {"real": np.uint64, "int": np.int64, "bool": np.bool_}
        self.seed = seed
        self.symbols_used = 0
        self._keys: dict[str, NDArray[np.uint64]] = {}
        self.add, self.negative, self.multiply, self.matmul = add, negative, multiply, matmul
        for name in SYMBOLS:
            setattr(self, name, self._symbol_named(name))
        for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
            setattr(self, name, self._decision_named(name))

    # ── symbols and decisions ───────────────────────────────────────────────────────────────────────────────────────

    def symbol(self, name: str, x: Array) -> Array:
        """A random function of field elements, keyed by its name: splitmix64's finaliser, over x and the key."""
        self.symbols_used += x.size
        return reduce(self._mixed(name, x))

    def _mixed(self, name: str, x: Array) -> Array:
        if name not in self._keys:
            words = np.random.SeedSequence([self.seed, *name.encode()]).generate_state(2, np.uint64)
            self._keys[name] = np.asarray(words, dtype=np.uint64)
        first, second = self._keys[name]
        with np.errstate(over="ignore"):  # NumPy speaks of it for single numbers only; here it is meant
            z = (x + first) * np.uint64(0x9E3779B97F4A7C15) ^ second
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def _symbol_named(self, name: str) -> Any:
        return lambda x: self.symbol(name, x)

    def _decision_named(self, name: str) -> Any:
        plain = getattr(np, name)

        def decide(a: Array, b: Array) -> Any:
            if a.dtype != np.uint64:
                return plain(a, b)  # of indices, which are numbers and not field elements
            return (self._mixed(name, add(a, multiply(b, _SPREAD))) & np.uint64(1)).astype(np.bool_)

        return decide

    def _pair(self, name: str, a: Array, b: Array) -> Array:
        return self.symbol(name, add(self.symbol(name + " of", a), b))

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def leaf(self, given: Any, kind: str) -> Array:
        if kind != "real":
            return super().leaf(given, kind)
        try:
            found = np.asarray(given)
        except ValueError as error:
            raise DomainError(f"cannot read {type(given).__name__} as field elements: {error}") from None
        if found.dtype == np.uint64:
            return reduce(found)
        if found.dtype.kind in "iu":
            return _whole(found)
        return np.vectorize(element, otypes=[np.uint64])(found)

    def array(self, value: Array) -> Any:
        return value

    def number(self, value: float) -> Array:
        if not math.isfinite(value):  # a mask's −∞ is a symbol like any other
            return self.symbol(f"the number {value}", np.zeros((), dtype=np.uint64))
        return np.asarray(element(value), dtype=np.uint64)

    def constant(self, value: Any, shape: Shape) -> Array:
        if isinstance(value, Tensor):
            return self.leaf(value.array, value.kind)
        if isinstance(value, (bool, int)):
            return np.full(shape, value, dtype=np.bool_ if isinstance(value, bool) else np.int64)
        return np.broadcast_to(self.number(value), shape)

    def cast(self, x: Any, to: str) -> Any:
        if to not in self.kinds or x.dtype == self.kinds[to]:
            return x
        if to == "real":
            return _whole(x)
        if x.dtype == np.uint64:
            return (self._mixed("cast", x) & np.uint64(1)).astype(self.kinds[to])
        return x.astype(self.kinds[to])

    # ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────

    def subtract(self, a: Array, b: Array) -> Array:
        return add(a, negative(b))

    def divide(self, a: Array, b: Array) -> Array:
        # An identity that holds whatever function stands for 1/b holds for 1/b; as a symbol, quotients add nothing to degrees.
        return multiply(a, self.symbol("inverse", b))

    def pow(self, a: Array, b: Array) -> Array:
        return self._pair("pow", a, b)

    def maximum(self, a: Array, b: Array) -> Array:
        return np.where(self._decision_named("greater")(a, b), a, b)

    def minimum(self, a: Array, b: Array) -> Array:
        return np.where(self._decision_named("less")(a, b), a, b)

    def sum(self, x: Array, axis: tuple[int, ...]) -> Array:
        return total_of(x, axis) if axis else x

    def prod(self, x: Array, axis: tuple[int, ...]) -> Array:
        count, kept = math.prod(x.shape[a] for a in axis), [n for a, n in enumerate(x.shape) if a not in axis]
        moved = np.moveaxis(x, axis, range(len(axis))).reshape(count, *kept)
        found = np.ones(moved.shape[1:], dtype=np.uint64)
        for part in moved:
            found = multiply(found, part)
        return found

    def cumulative_sum(self, x: Array, axis: int) -> Array:
        low = np.cumsum(x & _LOW32, axis=axis, dtype=np.uint64)
        high = np.cumsum(x >> _32, axis=axis, dtype=np.uint64)
        return add(reduce(low), rotate(reduce(high), 32))

    def max(self, x: Array, axis: tuple[int, ...]) -> Array:
        return self.symbol("max", self.sum(self.symbol("max of", x), axis))

    def min(self, x: Array, axis: tuple[int, ...]) -> Array:
        return self.symbol("min", self.sum(self.symbol("min of", x), axis))

    def logsumexp(self, x: Array, axis: tuple[int, ...]) -> Array:
        return self.log(self.sum(self.exp(x), axis))

    # ── indices ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def argmax(self, x: Array, axis: int) -> Any:
        return np.argmax(self._mixed("argmax", x), axis=axis)

    def exceeds(self, a: Array, b: Array) -> Any:
        return self._decision_named("greater")(a, b)

    def argsort(self, x: Array, axis: int, *, descending: bool, stable: bool) -> Any:
        del stable
        return np.argsort(self._mixed(f"argsort {descending}", x), axis=axis, kind="stable")

    def add_rows(self, where: Any, rows: Array, size: int) -> Array:
        low = np.zeros((size, rows.shape[1]), dtype=np.uint64)
        high = np.zeros_like(low)
        np.add.at(low, where, rows & _LOW32)
        np.add.at(high, where, rows >> _32)
        return add(reduce(low), rotate(reduce(high), 32))

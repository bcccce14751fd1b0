"""Numbers of a step that belong to no element: bias corrections, products of momenta.

They are Python's float64 in most implementations, and so constants of the graph. Where an implementation keeps them as tensors
(capturable, differentiable) each operation on them rounds to the format of those tensors, whatever the parameter's format is:
1 − 0.999¹ in float32 is off by 6e-5 of itself, and an honest bound has to say so.
"""

from __future__ import annotations

import math
from typing import Any

from backproof.ir.build import Ref
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.rounding import Rounds


class Scalar:
    """A value of the graph that is rounded to a format after each operation; with no format, as all others are."""

    __slots__ = ("format", "ref")

    def __init__(self, ref: Ref, fmt: str | None) -> None:
        self.ref = ref
        self.format = fmt

    def _apply(self, op: str, *x: Any) -> Scalar:
        beside = self.ref
        refs = [each.ref if isinstance(each, Scalar) else each for each in x]
        values = [each if isinstance(each, Ref) else stored(beside.constant(each, ()), self.format) for each in refs]
        rounding = PRIMITIVES[op].rounding
        times = math.ceil(rounding.ulps) if isinstance(rounding, Rounds) else 0
        return Scalar(stored(beside.builder.apply(op, *values), self.format, times), self.format)

    def __add__(self, other: Any) -> Scalar:
        return self._apply("add", self, other)

    def __sub__(self, other: Any) -> Scalar:
        return self._apply("sub", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return self._apply("sub", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return self._apply("mul", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return self._apply("mul", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return self._apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return self._apply("div", other, self)

    def __pow__(self, other: Any) -> Scalar:
        return self._apply("pow", self, other)

    def root(self) -> Scalar:
        """Its square root."""
        return self._apply("sqrt", self)


Number = float | Scalar


def stored(x: Ref, fmt: str | None, times: int = 1) -> Ref:
    """x, rounded to a format as often as the operation that made it may be off by units of roundoff."""
    for _ in range(times if fmt else 0):
        x = x.builder.apply("cast", x, to=fmt)
    return x


def number(value: float, beside: Ref, fmt: str | None, *, tensors: bool) -> Number:
    """A number of Python's, or the same kept as a tensor."""
    return Scalar(stored(beside.constant(float(value), ()), fmt), fmt) if tensors else float(value)


def root(x: Number) -> Number:
    """√x."""
    return x.root() if isinstance(x, Scalar) else math.sqrt(x)


def factor(x: Number) -> Any:
    """What a value of the graph can be multiplied by."""
    return x.ref if isinstance(x, Scalar) else x

"""A ball: values with a radius that the true value cannot leave. The arithmetic by which bounds are derived.

A stored number stands for everything that rounds to its nine digits. Each operation carries the radii of its operands
on, to first order and with the remainder, and adds the rounding of the operation itself: `unit` is the unit roundoff
of the format in which the step was computed, taken several times over, because the order of its sums is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from backproof.engine import fdlibm
from backproof.engine.scalar_activations import Smooth
from backproof.engine.scalar_domain import Positions, softmax

Reals = NDArray[np.float64]

FLOAT64 = 2.0**-53
FLOAT32 = 2.0**-24
SLACK = 4.0  # roundings allowed an operation: its own, ours, and a constant that entered rounded
FUNCTION_SLACK = 8.0  # for exp, log and their kin, which frameworks compute within a few units
SMALLEST = {FLOAT64: 2.0**-1022, FLOAT32: 2.0**-126}  # what is smaller may be 0 in a framework
OVERFLOWS = 700.0  # the exponential of this is still a number


def nine_digit_radius(x: Reals) -> Reals:
    """Half a unit of the ninth significant digit; zero stands for itself alone."""
    size = np.abs(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = np.floor(np.log10(size))
        radius = 0.5000001 * 10.0 ** (exponent - 8.0)
    return np.where(size > 0.0, radius, np.where(np.isnan(x), np.nan, 0.0))


@cache
def radius_by_exponent() -> Reals:
    """The same by the exponent of ten of a canonical number, from -128 on, which stands for 0."""
    radii = np.full(256, np.nan)
    exponents = np.arange(-13, 16)
    radii[exponents + 128] = nine_digit_radius(np.array([float(f"1e{k}") for k in exponents]))
    radii[0] = 0.0
    return radii


@dataclass(frozen=True, eq=False)
class Ball:
    """Values, their radii, and the unit roundoff of the computation that they come from."""

    mid: Reals
    rad: Reals
    unit: float = FLOAT64
    functions: ClassVar[Balls | None] = None  # of a kind of ball that has its own

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self.mid.shape

    def _rounded(self, mid: Reals, rad: Reals) -> Ball:
        return Ball(mid, rad + (SLACK * self.unit) * np.abs(mid) + SMALLEST[self.unit], self.unit)

    def __neg__(self) -> Ball:
        return Ball(-self.mid, self.rad, self.unit)

    def __add__(self, other: Ball | float) -> Ball:
        o = _ball(other)
        return self._rounded(self.mid + o.mid, self.rad + o.rad)

    __radd__ = __add__

    def __sub__(self, other: Ball | float) -> Ball:
        o = _ball(other)
        return self._rounded(self.mid - o.mid, self.rad + o.rad)

    def __rsub__(self, other: float) -> Ball:
        return (-self) + other

    def __mul__(self, other: Ball | float) -> Ball:
        o = _ball(other)
        rad = np.abs(self.mid) * o.rad + self.rad * (np.abs(o.mid) + o.rad)
        return self._rounded(self.mid * o.mid, rad)

    __rmul__ = __mul__

    def __truediv__(self, other: Ball | float) -> Ball:
        o = _ball(other)
        size = np.abs(o.mid)
        with np.errstate(divide="ignore", invalid="ignore"):
            mid = self.mid / o.mid
            rad = (np.abs(mid) * o.rad + self.rad) / (size - o.rad)
        return self._rounded(mid, np.where(size > o.rad, rad, np.inf))

    def __rtruediv__(self, other: float) -> Ball:
        return Ball(np.asarray(other), np.asarray(0.0), self.unit) / self

    def __getitem__(self, key: Any) -> Ball:
        return Ball(self.mid[key], self.rad[key], self.unit)

    def reshape(self, shape: tuple[int, ...]) -> Ball:
        """The same values in another shape."""
        return Ball(self.mid.reshape(shape), self.rad.reshape(shape), self.unit)

    def widened(self, *by: Ball) -> Ball:
        """The same values with the rounding of others in their radius."""
        rad = self.rad + SMALLEST[self.unit]
        for ball in by:
            rad = rad + (SLACK * self.unit) * np.abs(ball.mid)
        return Ball(self.mid, rad, self.unit)


def _ball(value: Ball | float) -> Ball:
    return value if isinstance(value, Ball) else Ball(np.asarray(value, dtype=np.float64), np.asarray(0.0))


def _within(x: Ball, mid: Reals, low: Reals, high: Reals, smallest: float = 1.0) -> Ball:
    """A function's value whose image of the ball lies between low and high."""
    rad = np.maximum(high - mid, mid - low)
    spread = FUNCTION_SLACK * x.unit * (np.abs(mid) + rad) + smallest * SMALLEST[x.unit]
    return Ball(mid, rad + spread, x.unit)


def _share(x: Ball) -> Ball:
    """A value that lies between 0 and 1, however far its radius reaches."""
    return Ball(x.mid, np.fmin(x.rad, np.maximum(x.mid, 1.0 - x.mid)), x.unit)


def _lipschitz(x: Ball, mid: Reals, constant: float) -> Ball:
    """A function's value whose change is bounded; its own rounding is that of sums of the size of x and 1."""
    rounding = FUNCTION_SLACK * x.unit * (np.abs(mid) + np.abs(x.mid) + 1.0)
    return Ball(mid, constant * x.rad + rounding, x.unit)


Function = TypeVar("Function", bound=Callable[..., "Ball"])


def _answered(function: Function) -> Function:
    """Operands that have functions of their own answer themselves."""

    @wraps(function)
    def answer(*operands: Any, **named: Any) -> Ball:
        for operand in operands[1:]:
            for ball in operand if isinstance(operand, list) else (operand,):
                own = getattr(ball, "functions", None)
                if own is not None:
                    answered: Ball = getattr(own, function.__name__)(*operands[1:], **named)
                    return answered
        return function(*operands, **named)

    return answer  # type: ignore[return-value]


class Balls:
    """The functions of the engine's domain, over balls."""

    @_answered
    def exp(self, x: Ball) -> Ball:
        """eˣ."""
        mid = fdlibm.exp(x.mid)
        with np.errstate(over="ignore", invalid="ignore"):
            return _within(x, mid, mid * np.exp(-x.rad), mid * np.exp(x.rad))

    @_answered
    def log(self, x: Ball) -> Ball:
        """ln x; the radius is infinite where the ball reaches 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mid = np.log(x.mid)
            low = np.where(x.mid > x.rad, np.log(x.mid - x.rad), -np.inf)
            return _within(x, mid, low, np.log(x.mid + x.rad))

    @_answered
    def sqrt(self, x: Ball) -> Ball:
        """√x; what reaches below 0 is cut there."""
        mid = np.sqrt(np.maximum(x.mid, 0.0))
        return _within(x, mid, np.sqrt(np.maximum(x.mid - x.rad, 0.0)), np.sqrt(np.maximum(x.mid + x.rad, 0.0)))

    @_answered
    def power(self, x: Ball, y: Ball) -> Ball:
        """xʸ for 0 < x and an exact y ≥ 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mid = np.power(x.mid, y.mid)
            grow = np.expm1(y.mid * np.log1p(x.rad / x.mid))
        return _within(x, mid, mid * (1.0 - grow), mid * (1.0 + grow))

    @_answered
    def relu(self, x: Ball) -> Ball:
        """max(x, 0), whose 0 is exact."""
        mid = np.maximum(x.mid, 0.0)
        low, high = np.maximum(x.mid - x.rad, 0.0), np.maximum(x.mid + x.rad, 0.0)
        return _within(x, mid, low, high, smallest=0.0)

    @_answered
    def step(self, x: Ball) -> Ball:
        """1 where x > 0, 0 where x ≤ 0, either where the ball holds both."""
        low, high = (x.mid - x.rad > 0.0) * 1.0, (x.mid + x.rad > 0.0) * 1.0
        mid = np.where(np.isnan(x.mid), np.nan, (low + high) / 2.0)
        return Ball(mid, (high - low) / 2.0, x.unit)

    @_answered
    def total(self, x: Ball, axis: int) -> Ball:
        """A sum in any order: n − 1 roundings, each of at most the sum of the sizes."""
        terms = x.mid.shape[axis]
        sizes = np.sum(np.abs(x.mid) + x.rad, axis=axis)
        rad = np.sum(x.rad, axis=axis) + (SLACK * terms * x.unit) * sizes
        return Ball(np.sum(x.mid, axis=axis), rad, x.unit)

    @_answered
    def shift(self, x: Ball) -> Ball:
        """The largest of the last axis. Any shift leaves softmax as it is, so that its radius is 0."""
        mid = np.max(x.mid, axis=-1, keepdims=True)
        return Ball(mid, np.zeros_like(mid), x.unit)

    @_answered
    def unless_zero(self, t: Ball, x: Ball) -> Ball:
        """x, but exactly 0 where t is 0."""
        zero = (t.mid == 0.0) & (t.rad == 0.0)
        return Ball(np.where(zero, 0.0, x.mid), np.where(zero, 0.0, x.rad), x.unit)

    @_answered
    def unless_lost(self, p: Ball, x: Ball, otherwise: Ball) -> Ball:
        """x, but something else where p is 0."""
        lost = p.mid == 0.0
        return Ball(np.where(lost, otherwise.mid, x.mid), np.where(lost, otherwise.rad, x.rad), x.unit)

    @_answered
    def sigmoid(self, x: Ball) -> Ball:
        """1 / (1 + e⁻ˣ); beyond what e⁻ˣ can be, between 0 and eˣ."""
        with np.errstate(over="ignore", invalid="ignore"):
            plain = 1.0 / (1.0 + self.exp(-x))
            high = np.exp(x.mid + x.rad)
        beyond = x.mid < -OVERFLOWS
        mid, rad = np.where(beyond, 0.0, plain.mid), np.where(beyond, high + SMALLEST[x.unit], plain.rad)
        return _share(Ball(mid, rad, x.unit))

    @_answered
    def softmax(self, net: Ball) -> Ball:
        """e^(z − max) / Σ e^(z − max)."""
        return _share(softmax(self, net))

    @_answered
    def log_softmax(self, net: Ball, _: Ball) -> Ball:
        """ln p, from the net inputs; ln Σ eᶻ changes by at most as much as any of them."""
        shifted = net - self.shift(net)
        size = np.log(np.sum(np.exp(shifted.mid), axis=-1, keepdims=True))
        terms = SLACK * net.shape[-1] + FUNCTION_SLACK * (1.0 + np.abs(size))
        return shifted - Ball(size, np.max(shifted.rad, axis=-1, keepdims=True) + terms * net.unit, net.unit)

    @_answered
    def at_most(self, x: Ball, limit: Callable[[], Ball]) -> Ball:
        """x, which in truth is no larger than the limit, however far its radius reaches."""
        if bool((x.rad <= np.abs(x.mid)).all()):
            return x
        most = limit()
        return Ball(x.mid, np.fmin(x.rad, np.abs(x.mid) + most.mid + most.rad), x.unit)

    @_answered
    def join(self, parts: list[Ball]) -> Ball:
        """Side by side along the last axis."""
        mids = np.concatenate([part.mid for part in parts], axis=-1)
        return Ball(mids, np.concatenate([part.rad for part in parts], axis=-1), parts[0].unit)

    @_answered
    def value(self, smooth: Smooth, x: Ball) -> Ball:
        """f(x), which changes by at most `steep` times as much as x."""
        return _lipschitz(x, smooth.value(x.mid), smooth.steep)

    @_answered
    def slope(self, smooth: Smooth, x: Ball) -> Ball:
        """f′(x), which changes by at most `curved` times as much as x."""
        return _lipschitz(x, smooth.slope(x.mid), smooth.curved)

    @_answered
    def put(self, x: Ball, positions: Positions, values: Ball) -> Ball:
        """X with some entries of its last axis replaced."""
        mid, rad = np.array(x.mid), np.array(x.rad)
        mid[..., positions], rad[..., positions] = values.mid, values.rad
        return Ball(mid, rad, x.unit)


BALLS = Balls()

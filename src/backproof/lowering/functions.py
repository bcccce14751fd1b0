"""Elementary functions, by the primitives that they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backproof.ir.build import Ref, meet
from backproof.ir.compose import COMPOSITIONS
from backproof.lowering.arithmetic import as_real, sloped
from backproof.lowering.lowering import Lowering

_choose = COMPOSITIONS["where"].function
Function = Callable[..., Ref]


def _primitive(op: str) -> Function:
    return lambda x, **_: x.builder.apply(op, as_real(x, x))


def _of_real(function: Function) -> Function:
    return lambda x, *args, **given: function(as_real(x, x), *args, **given)


def _of_two(function: Function) -> Function:
    def both(a: Any, b: Any, **given: Any) -> Ref:
        beside = a if isinstance(a, Ref) else b
        return function(*meet(as_real(a, beside), as_real(b, beside)), **given)

    return both


def _exp2(x: Ref) -> Ref:
    return x.builder.exp(x * math.log(2.0))


def _log2(x: Ref) -> Ref:
    return x.builder.log(x) / math.log(2.0)


def _log10(x: Ref) -> Ref:
    return x.builder.log(x) / math.log(10.0)


def _tan(x: Ref) -> Ref:
    return x.builder.sin(x) / x.builder.cos(x)


def _sinh(x: Ref) -> Ref:
    """(eˣ − e⁻ˣ)/2, through eˣ − 1, which loses nothing near 0."""
    rise = x.builder.expm1(x.builder.abs(x))
    size = 0.5 * (rise + rise / (rise + 1.0))
    return _choose(x.builder.abs(x) < FAR, size * x.builder.sign(x), _halves(x) * x.builder.sign(x))


def _halves(x: Ref) -> Ref:
    """e^|x|/2 where that alone would overflow."""
    half = x.builder.exp(0.5 * x.builder.abs(x))
    return 0.5 * half * half


def _cosh(x: Ref) -> Ref:
    size = x.builder.abs(x)
    rise = x.builder.exp(size)
    return _choose(size < FAR, 0.5 * (rise + 1.0 / rise), _halves(x))


FAR = 40.0  # from there on the other half of a hyperbolic function is nothing beside eˣ/2


def _asinh(x: Ref) -> Ref:
    """sign(x)·ln(|x| + √(1 + x²)), through ln(1 + ·), which loses nothing near 0."""
    D = x.builder
    size = D.abs(x)
    value = D.sign(x) * D.log1p(size + x * x / (1.0 + D.sqrt(x * x + 1.0)))
    return sloped(value, (x, D.rsqrt(x * x + 1.0)))


def _acosh(x: Ref) -> Ref:
    D, off = x.builder, x - 1.0
    return sloped(D.log1p(off + D.sqrt(off * (x + 1.0))), (x, D.rsqrt(x * x - 1.0)))


def _atanh(x: Ref) -> Ref:
    return sloped(0.5 * (x.builder.log1p(x) - x.builder.log1p(-x)), (x, 1.0 / (1.0 - x * x)))


def _sinc(x: Ref) -> Ref:
    """sin πx/πx, and 1 at 0."""
    D = x.builder
    zero = D.eq(x, x.constant(0.0))
    angle = _choose(zero, 1.0, x) * math.pi
    return _choose(zero, 1.0, D.sin(angle) / angle)


def _logit(x: Ref, eps: float | None = None) -> Ref:
    if eps is not None:
        x = COMPOSITIONS["clamp"].function(x, eps, 1.0 - eps)
    return x.builder.log(x / (1.0 - x))


def _xlogy(log: str) -> Function:
    def function(x: Ref, y: Ref) -> Ref:
        D = x.builder
        zero = D.logical_and(D.eq(x, x.constant(0.0)), D.eq(y, y))
        return _choose(zero, 0.0, x * D.apply(log, _choose(zero, 1.0, y)))

    return function


def _entropy(x: Ref) -> Ref:
    D = x.builder
    positive = x > 0.0
    inside = _choose(positive, x, 1.0)
    below = _choose(x < 0.0, -math.inf, 0.0)
    return _choose(positive, -(inside * D.log(inside)), below)


def _logaddexp(scale: float) -> Function:
    """max + ln(1 + e^(−|a − b|)), to the base whose logarithm is the scale."""

    def function(a: Ref, b: Ref) -> Ref:
        D = a.builder
        larger = a >= b
        top, low = _choose(larger, a, b), _choose(larger, b, a)
        off = low - top if scale == 1 else (low - top) * scale
        rest = D.log1p(D.exp(off))
        found = top + (rest if scale == 1 else rest / scale)
        return _choose(D.logical_and(D.eq(a, b), D.eq(D.abs(a), D.abs(a).constant(math.inf))), a, found)

    return function


def _hypot(a: Ref, b: Ref) -> Ref:
    """√(a² + b²), scaled by the larger so that no square overflows."""
    D = a.builder
    top = D.stop_gradient(D.maximum(D.abs(a), D.abs(b)))
    zero = D.eq(top, top.constant(0.0))
    safe = _choose(zero, 1.0, top)
    x, y = a / safe, b / safe
    return _choose(zero, 0.0, safe * D.sqrt(_choose(zero, 1.0, x * x + y * y)))


def _ldexp(x: Ref, exponent: Any) -> Ref:
    x, power = meet(x, as_real(exponent, x))
    return x * _exp2(power)


FUNCTIONS = (
    *(Lowering(op, _primitive(op)) for op in "exp log log1p expm1 sqrt rsqrt tanh sigmoid erf sin cos".split()),
    Lowering("erfc", _of_real(lambda x: 1.0 - x.builder.erf(x))),
    Lowering("exp2", _of_real(_exp2)),
    Lowering("log2", _of_real(_log2)),
    Lowering("log10", _of_real(_log10)),
    Lowering("tan", _of_real(_tan)),
    Lowering("sinh", _of_real(_sinh)),
    Lowering("cosh", _of_real(_cosh)),
    Lowering("asinh", _of_real(_asinh)),
    Lowering("acosh", _of_real(_acosh)),
    Lowering("atanh", _of_real(_atanh)),
    Lowering("sinc", _of_real(_sinc)),
    Lowering("logit", _of_real(_logit)),
    Lowering("entr", _of_real(_entropy)),
    Lowering("deg2rad", _of_real(lambda x: x * (math.pi / 180.0))),
    Lowering("rad2deg", _of_real(lambda x: x * (180.0 / math.pi))),
    Lowering("xlogy", _of_two(_xlogy("log"))),
    Lowering("xlog1py", _of_two(_xlogy("log1p"))),
    Lowering("logaddexp", _of_two(_logaddexp(1.0))),
    Lowering("logaddexp2", _of_two(_logaddexp(math.log(2.0)))),
    Lowering("hypot", _of_two(_hypot)),
    Lowering("ldexp", _ldexp),
)

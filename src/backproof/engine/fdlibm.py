"""exp, log and pow with the bits of V8, over arrays.

A classic receipt was computed by JavaScript, whose exp and log follow the reductions and polynomials of the freely
distributable mathematical library, and whose pow ends in a different quotient. The C library differs from them in
the last place of about every tenth value. Each function names its reduction; the constants are minimax coefficients.
Every operation is one IEEE 754 binary64 rounding, in the order written.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Reals: TypeAlias = NDArray[np.float64]
Words: TypeAlias = NDArray[np.int64]

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_INVERSE_LN2 = 1.44269504088896338700e00
_EXP = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
_LOG_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)
_LOG_ODD = (
    6.666666666666735130e-01,
    2.857142874366239149e-01,
    1.818357216161805012e-01,
    1.479819860511658591e-01,
)
_POW = (
    5.99999999999994648725e-01,
    4.28571428578550184252e-01,
    3.33333329818377432918e-01,
    2.72728123808534006489e-01,
    2.30660745775561754067e-01,
    2.06975017800338417784e-01,
)
_LOG2_3_2_HIGH, _LOG2_3_2_LOW = 5.84962487220764160156e-01, 1.35003920212974897128e-08
_LG2, _LG2_HIGH, _LG2_LOW = (
    6.93147180559945286227e-01,
    6.93147182464599609375e-01,
    -1.90465429995776804525e-09,
)
_CP, _CP_HIGH, _CP_LOW = 9.61796693925975554329e-01, 9.61796700954437255859e-01, -7.02846165095275826516e-09

_OVERFLOW, _UNDERFLOW = 7.09782712893383973096e02, -7.45133219101941108420e02
_MOST_POWER = 2.0**31  # a larger exponent would take another reduction; no step count comes near


def exp(x: Reals | float) -> Reals:
    """eˣ: x = k·ln 2 + r with |r| ≤ ½ ln 2, then a rational approximation of eʳ, then times 2ᵏ."""
    x = np.asarray(x, dtype=np.float64)
    high = _high_word(x) & 0x7FFFFFFF
    negative = np.signbit(x)
    near_one_step = high < 0x3FF0A2B2  # |x| < 1.5 ln 2: k is ±1
    reduced = high > 0x3FD62E42  # |x| > 0.5 ln 2
    with np.errstate(all="ignore"):
        bounded = np.clip(np.where(np.isfinite(x), x, 0.0), -800.0, 800.0)
        rounded = np.trunc(_INVERSE_LN2 * bounded + np.where(negative, -0.5, 0.5))
        k = np.where(reduced, np.where(near_one_step, np.where(negative, -1.0, 1.0), rounded), 0.0)
        head = bounded - k * _LN2_HIGH
        tail = k * _LN2_LOW
        r = np.where(reduced, head - tail, bounded)
        t = r * r
        c = r - t * _horner(t, _EXP)
        unscaled = np.where(reduced, 1.0 - ((tail - (r * c) / (2.0 - c)) - head), 1.0 - ((r * c) / (c - 2.0) - r))
        y = np.ldexp(unscaled, k.astype(np.int64))
    y = np.where(high < 0x3E300000, 1.0 + x, y)
    y = np.where(x == 1.0, np.e, y)  # the one value that V8 states outright
    y = np.where(x > _OVERFLOW, np.inf, np.where(x < _UNDERFLOW, 0.0, y))
    return np.where(np.isnan(x), x, y)


def log(x: Reals | float) -> Reals:
    """ln x: x = 2ᵏ(1 + f) with √½ < 1 + f < √2, s = f/(2 + f), then a polynomial in s²."""
    x = np.asarray(x, dtype=np.float64)
    tiny = x < 2.2250738585072014e-308
    scaled = x * np.where(tiny, 2.0**54, 1.0)
    bits = _bits(scaled)
    high = bits >> 32
    k = (high >> 20) - 1023 - np.where(tiny, 54, 0)
    high &= 0xFFFFF
    carry = (high + 0x95F64) & 0x100000
    mantissa = ((high | (carry ^ 0x3FF00000)) << 32) | (bits & 0xFFFFFFFF)
    steps = (k + (carry >> 20)).astype(np.float64)
    with np.errstate(all="ignore"):
        f = mantissa.view(np.float64) - 1.0
        near_one = ((2 + high) & 0xFFFFF) < 3  # |f| < 2⁻²⁰
        y = np.where(near_one, _log_near_one(f, steps), _log_elsewhere(f, steps, high))
    y = np.where(x == 0.0, -np.inf, np.where(x < 0.0, np.nan, y))
    return np.where(np.isfinite(x), y, np.where(x == -np.inf, np.nan, x))


def _log_near_one(f: Reals, k: Reals) -> Reals:
    r = f * f * (0.5 - 0.33333333333333333 * f)
    exact = np.where(k == 0.0, 0.0, k * _LN2_HIGH + k * _LN2_LOW)
    y = np.where(k == 0.0, f - r, k * _LN2_HIGH - ((r - k * _LN2_LOW) - f))
    return np.where(f == 0.0, exact, y)


def _log_elsewhere(f: Reals, k: Reals, high: Words) -> Reals:
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    r = z * _horner(w, _LOG_ODD) + w * _horner(w, _LOG_EVEN)
    half = 0.5 * f * f
    split = ((high - 0x6147A) | (0x6B851 - high)) > 0
    low = k * _LN2_LOW
    with_half = np.where(k == 0.0, f - (half - s * (half + r)), k * _LN2_HIGH - ((half - (s * (half + r) + low)) - f))
    without = np.where(k == 0.0, f - s * (f - r), k * _LN2_HIGH - ((s * (f - r) - low) - f))
    return np.where(split, with_half, without)


def power(x: Reals | float, y: Reals | float) -> Reals:
    """xʸ for x > 0 and |y| ≤ 2³¹: 2^(y·log₂ x), with log₂ x in two parts."""
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    if np.any(~(x > 0.0) | ~(np.abs(y) <= _MOST_POWER)):
        message = f"power takes x > 0 and |y| <= {_MOST_POWER:.0f}"
        raise ValueError(message)
    with np.errstate(all="ignore"):
        log_high, log_low = _log2_in_two(x)
        y_high = _without_low_word(y)
        p_low = (y - y_high) * log_high + y * log_low
        result = _two_to(y_high * log_high, p_low)
    for exponent, exact in ((1.0, x), (2.0, x * x), (-1.0, 1.0 / x), (0.5, np.sqrt(x))):
        result = np.where(y == exponent, exact, result)
    return np.where((y == 0.0) | (x == 1.0), 1.0, result)


def _log2_in_two(x: Reals) -> tuple[Reals, Reals]:
    tiny = x < 2.2250738585072014e-308
    ax = x * np.where(tiny, 2.0**53, 1.0)
    bits = _bits(ax)
    high = bits >> 32
    n = (high >> 20) - 0x3FF - np.where(tiny, 53, 0)
    j = high & 0xFFFFF
    three_halves = (j > 0x3988E) & (j < 0xBB67A)  # x is nearer 3/2 than 1 or 2
    doubled = j >= 0xBB67A
    n = (n + doubled).astype(np.float64)
    high = (j | 0x3FF00000) - np.where(doubled, 0x100000, 0)
    ax = ((high << 32) | (bits & 0xFFFFFFFF)).view(np.float64)
    base = np.where(three_halves, 1.5, 1.0)
    base_high = np.where(three_halves, _LOG2_3_2_HIGH, 0.0)
    base_low = np.where(three_halves, _LOG2_3_2_LOW, 0.0)

    u = ax - base
    v = 1.0 / (ax + base)
    s = u * v
    s_high = _without_low_word(s)
    t_high = ((((high >> 1) | 0x20000000) + 0x80000 + (three_halves.astype(np.int64) << 18)) << 32).view(np.float64)
    t_low = ax - (t_high - base)
    s_low = v * ((u - s_high * t_high) - s_high * t_low)
    s2 = s * s
    r = s2 * s2 * _horner(s2, _POW)
    r = r + s_low * (s_high + s)
    s2 = s_high * s_high
    t_high = _without_low_word(3.0 + s2 + r)
    t_low = r - ((t_high - 3.0) - s2)
    u = s_high * t_high
    v = s_low * t_high + t_low * s
    p_high = _without_low_word(u + v)
    p_low = v - (p_high - u)
    z_high = _CP_HIGH * p_high
    z_low = _CP_LOW * p_high + p_low * _CP + base_low
    first = _without_low_word(((z_high + z_low) + base_high) + n)
    return first, z_low - (((first - n) - base_high) - z_high)


def _two_to(p_high: Reals, p_low: Reals) -> Reals:
    z = p_low + p_high
    n = np.where(np.abs(z) > 0.5, np.copysign(np.floor(np.abs(z) + 0.5), z), 0.0)
    n = np.clip(n, -2000.0, 2000.0)
    p_high = p_high - n
    t = _without_low_word(p_low + p_high)
    u = t * _LG2_HIGH
    v = (p_low - (t - p_high)) * _LG2 + t * _LG2_LOW
    z_reduced = u + v
    w = v - (z_reduced - u)
    t = z_reduced * z_reduced
    t1 = z_reduced - t * _horner(t, _EXP)
    r = (z_reduced * t1) / ((t1 - 2.0) - (w + z_reduced * w))  # V8's quotient
    y = np.ldexp(1.0 - (r - z_reduced), n.astype(np.int64))
    return np.where(z >= 1024.0, np.inf, np.where(z <= -1075.0, 0.0, y))


def _horner(t: Reals, coefficients: tuple[float, ...]) -> Reals:
    """c₀ + t(c₁ + t(c₂ + …)), innermost first."""
    total = np.full_like(t, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = coefficient + t * total
    return total


def _bits(x: Reals) -> Words:
    return np.ascontiguousarray(x).view(np.int64).reshape(np.shape(x))


def _high_word(x: Reals) -> Words:
    return _bits(x) >> 32


def _without_low_word(x: Reals) -> Reals:
    return (_bits(x) & ~np.int64(0xFFFFFFFF)).view(np.float64)

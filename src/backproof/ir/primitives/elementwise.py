"""Functions of single elements: arithmetic, the elementary functions, and what decides between two values.

`ulps` is in units of roundoff: 1 for what IEEE 754 rounds correctly, and for the elementary functions the worst that the
libraries in use (SLEEF, glibc, NumPy's, CUDA's) state, rounded up.
"""

from __future__ import annotations

import math
from typing import Any

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive, Value, elementwise, like, require_kind
from backproof.ir.rounding import Decides, Rounds, Special
from backproof.ir.types import Type

# ── arithmetic ──────────────────────────────────────────────────────────────────────────────────────────────────────

ADD = elementwise(
    "add",
    "y = a + b",
    lambda K, a, b: K.add(a, b),
    lambda D, x, y, t: t,
    lambda D, x, y, t: t,
    rounding=Rounds(lambda np, x, e, y: e[0] + e[1]),
)
SUB = elementwise(
    "sub",
    "y = a − b",
    lambda K, a, b: K.subtract(a, b),
    lambda D, x, y, t: t,
    lambda D, x, y, t: D.neg(t),
    rounding=Rounds(lambda np, x, e, y: e[0] + e[1]),
)
MUL = elementwise(
    "mul",
    "y = a·b",
    lambda K, a, b: K.multiply(a, b),
    lambda D, x, y, t: D.mul(t, x[1]),
    lambda D, x, y, t: D.mul(t, x[0]),
    rounding=Rounds(lambda np, x, e, y: abs(x[1]) * e[0] + abs(x[0]) * e[1] + e[0] * e[1]),
)
DIV = elementwise(
    "div",
    "y = a/b",
    lambda K, a, b: K.divide(a, b),
    lambda D, x, y, t: D.div(t, x[1]),
    lambda D, x, y, t: D.neg(D.div(D.mul(t, y), x[1])),
    rounding=Rounds(
        lambda np, x, e, y: np.where(
            e[1] < abs(x[1]),
            (e[0] + abs(y) * e[1]) / np.where(e[1] < abs(x[1]), abs(x[1]) - e[1], 1),
            np.where((e[0] == 0) & (e[1] == 0), 0.0, math.inf),
        ),
        ulps=2,  # a division by what is constant may be a multiplication by its reciprocal
    ),
)
NEG = elementwise(
    "neg",
    "y = −x",
    lambda K, x: K.negative(x),
    lambda D, x, y, t: D.neg(t),
    rounding=Rounds(lambda np, x, e, y: e[0], ulps=0),
)


def _power_by_base(D: Any, x: tuple[Value, ...], y: Value, t: Value) -> Value:
    a, b = x
    one, zero = like(D, 1.0, a), like(D, 0.0, a)
    slope = D.mul(b, D.pow(a, D.sub(b, one)))
    return D.mul(t, D.where(D.eq(b, zero), zero, slope))  # a⁰ is constant, also at a = 0


def _power_by_exponent(D: Any, x: tuple[Value, ...], y: Value, t: Value) -> Value:
    a, _ = x
    one, zero = like(D, 1.0, a), like(D, 0.0, a)
    positive = D.gt(a, zero)  # only there is a^b a smooth function of b; elsewhere the exponent is a whole constant
    slope = D.mul(y, D.log(D.where(positive, a, one)))
    return D.mul(t, D.where(positive, slope, zero))


def _power_spread(np: Any, x: tuple[Value, ...], e: tuple[Value, ...], y: Value) -> Value:
    """a^b = exp(b·log a): the error of the exponent's argument, as a relative error of the result."""
    a, b = x
    known = (e[0] < abs(a)) & ((a > 0) | (e[1] == 0))
    size = np.where(known, abs(a), 1.0)
    base = -np.log1p(-np.where(known, e[0], 0.0) / size)
    off = base * (abs(b) + e[1]) + abs(np.log(size)) * e[1]
    return np.where(known, abs(y) * np.expm1(off), np.where((e[0] == 0) & (e[1] == 0), 0.0, math.inf))


POW = elementwise(
    "pow",
    "y = a^b",
    lambda K, a, b: K.pow(a, b),
    _power_by_base,
    _power_by_exponent,
    rounding=Rounds(_power_spread, ulps=16),
)

EXP_ULPS, LOG_ULPS = 6.0, 8.0  # NumPy's float32 states 2.52 and 3.83 units in the last place, of two roundoffs each

# ── elementary functions ────────────────────────────────────────────────────────────────────────────────────────────


def _log_spread(np: Any, z: Value, e: Value) -> Value:
    """|log ẑ − log z| for |ẑ − z| ≤ e."""
    known = e < z
    return np.where(known, -np.log1p(-e / np.where(known, z, 1)), np.where(e == 0, 0.0, math.inf))


def _sqrt_spread(np: Any, x: tuple[Value], e: tuple[Value], y: Value) -> Value:
    low = x[0] - e[0]
    denominator = y + np.sqrt(np.where(low > 0, low, 0))
    return np.where(low >= 0, e[0] / np.where(denominator > 0, denominator, 1), np.where(e[0] == 0, 0.0, math.inf))


def _rsqrt_spread(np: Any, x: tuple[Value], e: tuple[Value], y: Value) -> Value:
    low = x[0] - e[0]
    safe = np.where(low > 0, low, 1.0)
    return np.where(low > 0, e[0] * y / (safe + np.sqrt(safe * x[0])), np.where(e[0] == 0, 0.0, math.inf))


def _nearest_zero(np: Any, x: Value, e: Value) -> Value:
    """The point of [x − e, x + e] nearest to 0: where bell-shaped derivatives are largest."""
    return np.maximum(abs(x) - e, 0.0)


def _exp_spread(np: Any, x: Value, e: Value, y: Value) -> Value:
    """eˣ⁺ᵉ − eˣ, of y = eˣ. With a large error, as a masked score of −10³⁸ has, it is at most eˣ⁺ᵉ, which may still be nothing."""
    near = y * np.expm1(np.minimum(e, 1.0))
    return np.where(e <= 1.0, near, np.exp(x + e)) if np.any(e > 1.0) else near


def _logistic_slope(np: Any, x: Value) -> Value:
    decay = np.exp(-abs(x))
    return decay / (1 + decay) ** 2


EXP = elementwise(
    "exp",
    "y = eˣ",
    lambda K, x: K.exp(x),
    lambda D, x, y, t: D.mul(t, y),
    rounding=Rounds(lambda np, x, e, y: _exp_spread(np, x[0], e[0], y), ulps=EXP_ULPS),
)
EXPM1 = elementwise(
    "expm1",
    "y = eˣ − 1",
    lambda K, x: K.expm1(x),
    lambda D, x, y, t: D.mul(t, D.add(y, like(D, 1.0, y))),
    rounding=Rounds(lambda np, x, e, y: _exp_spread(np, x[0], e[0], np.exp(x[0])), ulps=8),
)
LOG = elementwise(
    "log",
    "y = ln x",
    lambda K, x: K.log(x),
    lambda D, x, y, t: D.div(t, x[0]),
    rounding=Rounds(lambda np, x, e, y: _log_spread(np, x[0], e[0]), ulps=LOG_ULPS),
)
LOG1P = elementwise(
    "log1p",
    "y = ln(1 + x)",
    lambda K, x: K.log1p(x),
    lambda D, x, y, t: D.div(t, D.add(x[0], like(D, 1.0, y))),
    rounding=Rounds(lambda np, x, e, y: _log_spread(np, 1 + x[0], e[0]), ulps=LOG_ULPS),
)
SQRT = elementwise(
    "sqrt",
    "y = √x",
    lambda K, x: K.sqrt(x),
    lambda D, x, y, t: D.div(t, D.add(y, y)),
    rounding=Rounds(_sqrt_spread, ulps=2),  # IEEE 754 says 1, vector libraries multiply by a refined 1/√x
)
RSQRT = elementwise(
    "rsqrt",
    "y = 1/√x",
    lambda K, x: K.rsqrt(x),
    lambda D, x, y, t: D.neg(D.div(D.mul(t, y), D.add(x[0], x[0]))),
    rounding=Rounds(_rsqrt_spread, ulps=4),
)
TANH = elementwise(
    "tanh",
    "y = tanh x",
    lambda K, x: K.tanh(x),
    lambda D, x, y, t: D.mul(t, D.sub(like(D, 1.0, y), D.mul(y, y))),
    rounding=Rounds(
        lambda np, x, e, y: np.minimum(e[0] / np.cosh(np.minimum(_nearest_zero(np, x[0], e[0]), 350.0)) ** 2, 2),
        ulps=6,
    ),
)
SIGMOID = elementwise(
    "sigmoid",
    "y = 1/(1 + e⁻ˣ)",
    lambda K, x: K.sigmoid(x),
    lambda D, x, y, t: D.mul(t, D.mul(y, D.sub(like(D, 1.0, y), y))),
    rounding=Rounds(
        lambda np, x, e, y: np.minimum(e[0] * _logistic_slope(np, _nearest_zero(np, x[0], e[0])), 1), ulps=8
    ),
)
ERF = elementwise(
    "erf",
    "y = 2/√π · ∫₀ˣ exp(−s²) ds",
    lambda K, x: K.erf(x),
    lambda D, x, y, t: D.mul(t, D.mul(like(D, 2 / math.sqrt(math.pi), y), D.exp(D.neg(D.mul(x[0], x[0]))))),
    rounding=Rounds(
        lambda np, x, e, y: np.minimum(
            e[0] * (2 / math.sqrt(math.pi)) * np.exp(-(_nearest_zero(np, x[0], e[0]) ** 2)), 2
        ),
        ulps=8,
        # Fused kernels use the classical approximation (Abramowitz and Stegun 7.1.26), 1 − t·p(t)·exp(−x²): off by 1.5·10⁻⁷, which is
        # 2.5 units, and by the roundings of t (2), of the polynomial (4), of exp (2) and of the products (2), of a term up to 1.
        absolute=12.5,
    ),
)
SIN = elementwise(
    "sin",
    "y = sin x",
    lambda K, x: K.sin(x),
    lambda D, x, y, t: D.mul(t, D.cos(x[0])),
    rounding=Rounds(lambda np, x, e, y: np.minimum(abs(np.cos(x[0])) * e[0] + e[0] ** 2 / 2, 2), ulps=4),
)
COS = elementwise(
    "cos",
    "y = cos x",
    lambda K, x: K.cos(x),
    lambda D, x, y, t: D.neg(D.mul(t, D.sin(x[0]))),
    rounding=Rounds(lambda np, x, e, y: np.minimum(abs(np.sin(x[0])) * e[0] + e[0] ** 2 / 2, 2), ulps=4),
)

# ── kinks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _maximum_slope(mine: int) -> Any:
    def slope(D: Any, x: tuple[Value, ...], y: Value, t: Value) -> Value:
        half = D.mul(like(D, 0.5, y), t)
        return D.where(D.gt(x[mine], x[1 - mine]), t, D.where(D.eq(x[0], x[1]), half, like(D, 0.0, y)))

    return slope


def _minimum_slope(mine: int) -> Any:
    def slope(D: Any, x: tuple[Value, ...], y: Value, t: Value) -> Value:
        half = D.mul(like(D, 0.5, y), t)
        return D.where(D.lt(x[mine], x[1 - mine]), t, D.where(D.eq(x[0], x[1]), half, like(D, 0.0, y)))

    return slope


RELU = elementwise(
    "relu",
    "y = max(x, 0); its derivative at 0 is 0",
    lambda K, x: K.maximum(x, K.number(0.0)),
    lambda D, x, y, t: D.where(D.gt(x[0], like(D, 0.0, y)), t, like(D, 0.0, y)),
    rounding=Rounds(lambda np, x, e, y: np.where(x[0] <= -e[0], 0.0, e[0]), ulps=0),
)
ABS = elementwise(
    "abs",
    "y = |x|; its derivative at 0 is 0",
    lambda K, x: K.abs(x),
    lambda D, x, y, t: D.mul(t, D.sign(x[0])),
    rounding=Rounds(lambda np, x, e, y: e[0], ulps=0),
)
SIGN = elementwise(
    "sign",
    "y = −1, 0 or 1; its derivative is 0",
    lambda K, x: K.sign(x),
    None,
    rounding=Rounds(lambda np, x, e, y: np.where((abs(x[0]) > e[0]) | (e[0] == 0), 0.0, 2.0), ulps=0),
)
MAXIMUM = elementwise(
    "maximum",
    "y = max(a, b); a tie sends half to each side",
    lambda K, a, b: K.maximum(a, b),
    _maximum_slope(0),
    _maximum_slope(1),
    rounding=Rounds(lambda np, x, e, y: np.maximum(e[0], e[1]), ulps=0),
)
MINIMUM = elementwise(
    "minimum",
    "y = min(a, b); a tie sends half to each side",
    lambda K, a, b: K.minimum(a, b),
    _minimum_slope(0),
    _minimum_slope(1),
    rounding=Rounds(lambda np, x, e, y: np.maximum(e[0], e[1]), ulps=0),
)

# ── comparisons and truth values ────────────────────────────────────────────────────────────────────────────────────


def _compared(*types: Type) -> Type:
    a, b = types
    if a != b or a.kind == "bool":
        raise GraphError(f"only numbers of one type can be compared, not {a} with {b}")
    return Type("bool", a.shape)


def _comparison(name: str, sign: str, kernel: str) -> Primitive:
    return Primitive(
        name,
        f"y = (a {sign} b)",
        _compared,
        lambda K, a, b: getattr(K, kernel)(a, b),
        (None, None),
        (None, None),
        Decides(),
    )


EQ = _comparison("eq", "=", "equal")
NE = _comparison("ne", "≠", "not_equal")
LT = _comparison("lt", "<", "less")
LE = _comparison("le", "≤", "less_equal")
GT = _comparison("gt", ">", "greater")
GE = _comparison("ge", "≥", "greater_equal")

AND = elementwise(
    "logical_and",
    "y = a ∧ b",
    lambda K, a, b: K.logical_and(a, b),
    None,
    None,
    rounding=Decides(),
    kind="bool",
)
OR = elementwise(
    "logical_or",
    "y = a ∨ b",
    lambda K, a, b: K.logical_or(a, b),
    None,
    None,
    rounding=Decides(),
    kind="bool",
)
NOT = elementwise("logical_not", "y = ¬x", lambda K, x: K.logical_not(x), None, rounding=Decides(), kind="bool")


def _chosen(*types: Type) -> Type:
    condition, a, b = types
    require_kind(condition, "bool", 0)
    if a != b or a.shape != condition.shape:
        raise GraphError(f"where takes a condition and two values of its shape, not {condition}, {a}, {b}")
    return a


WHERE = Primitive(
    "where",
    "y = a where the condition holds, else b",
    _chosen,
    lambda K, c, a, b: K.where(c, a, b),
    (
        None,
        lambda D, x, y, dx: D.where(x[0], dx, like(D, 0.0, y)),
        lambda D, x, y, dx: D.where(x[0], like(D, 0.0, y), dx),
    ),
    (
        None,
        lambda D, x, y, gy: D.where(x[0], gy, like(D, 0.0, y)),
        lambda D, x, y, gy: D.where(x[0], like(D, 0.0, y), gy),
    ),
    Special(),
)

ELEMENTWISE = (
    *(ADD, SUB, MUL, DIV, NEG, POW),
    *(EXP, LOG, LOG1P, EXPM1, SQRT, RSQRT, TANH, SIGMOID, ERF, SIN, COS),
    *(RELU, ABS, SIGN, MAXIMUM, MINIMUM, WHERE),
    *(EQ, NE, LT, LE, GT, GE, AND, OR, NOT),
)

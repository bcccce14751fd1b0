"""Arithmetic and elementary functions. Numbers and values broadcast, as in the frameworks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref, meet
from backproof.ir.compose import COMPOSITIONS
from backproof.lowering.lowering import Lowering
from backproof.numerics import FORMATS


def _unary(op: str) -> Callable[..., Ref]:
    return lambda x, **_: x.builder.apply(op, as_real(x, x))


def as_real(x: Any, beside: Ref) -> Any:
    """An index or a truth value as the number that arithmetic takes it for."""
    if isinstance(x, Ref) and x.type.kind != "real":
        return beside.builder.apply("cast", x, to="real")
    return float(x) if isinstance(x, (bool, int)) else x


def as_truth(x: Ref) -> Ref:
    """A number as the truth value that logic takes it for."""
    return x if x.type.kind == "bool" else x.builder.ne(x, x.constant(0))


def _first(*given: Any) -> Ref:
    return next(x for x in given if isinstance(x, Ref))


def _pair(a: Any, b: Any) -> tuple[Any, Any]:
    beside = _first(a, b)
    return as_real(a, beside), as_real(b, beside)


def _binary(op: str, *, swap: bool = False) -> Callable[..., Ref]:
    def function(a: Any, b: Any, *, alpha: float = 1, **_: Any) -> Ref:
        a, b = _pair(b, a) if swap else _pair(a, b)
        if alpha != 1:
            b = b * float(alpha)
        return {
            "add": lambda: a + b,
            "sub": lambda: a - b,
            "mul": lambda: a * b,
            "div": lambda: a / b,
            "pow": lambda: a**b,
        }[op]()

    return function


def _sum(op: str, *, swap: bool = False) -> Callable[..., Ref]:
    """A sum or difference. Kernels of half formats may round a single number to the half before they add it."""
    function = _binary(op, swap=swap)

    def of_format(a: Any, b: Any, *, alpha: float = 1, format: str = "float32", **_: Any) -> Ref:  # noqa: A002
        if format in ("float16", "bfloat16"):
            a, b = _as_half(a, b, format), _as_half(b, a, format)
        return function(a, b, alpha=alpha)

    return of_format


def _as_half(x: Any, beside: Any, to: str) -> Any:
    if not isinstance(x, Ref):
        x = as_real(beside, beside).constant(float(x), ())
    single = not x.shape and isinstance(beside, Ref) and x.type.kind == "real"
    return x.builder.cast(x, to=to) if single else x


def _extreme(op: str) -> Callable[..., Ref]:
    def function(a: Ref, b: Any) -> Ref:
        a, b = meet(*_pair(a, b))
        return a.builder.apply(op, a, b)

    return function


def _comparison(op: str) -> Callable[..., Ref]:
    def function(a: Ref, b: Any) -> Ref:
        kinds = {a.type.kind, b.type.kind if isinstance(b, Ref) else "real" if isinstance(b, float) else a.type.kind}
        if len(kinds) > 1 or "bool" in kinds:  # truth values are compared as the numbers 0 and 1
            a, b = _pair(a, b)
        a, b = meet(a, b)
        return a.builder.apply(op, a, b)

    return function


def _truth(op: str) -> Callable[..., Ref]:
    def function(a: Ref, *b: Ref) -> Ref:
        D = a.builder
        if not b:
            return D.apply(op, as_truth(a))
        x, y = meet(as_truth(a), as_truth(b[0]))
        if op != "logical_xor":
            return D.apply(op, x, y)
        return D.logical_and(D.logical_or(x, y), D.logical_not(D.logical_and(x, y)))

    return function


def _bitwise(op: str) -> Callable[..., Ref]:
    def function(a: Any, *b: Any) -> Ref:
        if any(_kind(x) != "bool" for x in (a, *b)):
            raise GraphError("the bits of whole numbers are not lowered, only truth values")
        return _truth(op)(*(_first(a, *b).constant(x) if isinstance(x, bool) else x for x in (a, *b)))

    return function


def _kind(x: Any) -> str:
    return x.type.kind if isinstance(x, Ref) else {bool: "bool", int: "int"}.get(type(x), "real")


def where(condition: Ref, a: Any, b: Any) -> Ref:
    beside = _first(a, b) if isinstance(a, Ref) or isinstance(b, Ref) else condition
    if "real" in {_kind(a), _kind(b)} or {_kind(a), _kind(b)} == {"int", "bool"}:
        a, b = as_real(a, beside), as_real(b, beside)
    return COMPOSITIONS["where"].function(condition, a, b)


def _addcmul(x: Any, a: Any, b: Any, *, value: float = 1) -> Ref:
    product = _binary("mul")(a, b)
    return _binary("add")(x, product if value == 1 else product * float(value))


def _addcdiv(x: Any, a: Any, b: Any, *, value: float = 1) -> Ref:
    quotient = _binary("div")(a, b)
    return _binary("add")(x, quotient if value == 1 else quotient * float(value))


def _lerp(x: Ref, end: Ref, weight: Any) -> Ref:
    """x + w·(end − x); from w = ½ on kernels begin at the other end, so that w = 1 is exact. Its derivative does not."""
    off = end - x
    if not isinstance(weight, Ref):
        value = x + off * weight if abs(weight) < 0.5 else end - off * (1.0 - weight)
        return sloped(value, (x, x.constant(1.0 - weight)), (end, end.constant(float(weight))))
    weight = weight.broadcast_to(off.shape)
    value = where(weight.builder.abs(weight) < 0.5, x + off * weight, end - off * (1.0 - weight))
    return sloped(value, (x, 1.0 - weight), (end, weight), (weight, off))


def sloped(value: Ref, *slopes: tuple[Ref, Ref]) -> Ref:
    """A value with these derivatives, each in one x: where the framework's formula rounds otherwise than its value's."""
    D = value.builder
    found = D.stop_gradient(value)
    for x, slope in slopes:
        found = found + (x - D.stop_gradient(x)) * D.stop_gradient(slope)
    return found


def _power(a: Any, b: Any) -> Ref:
    if isinstance(a, Ref) and not isinstance(b, (Ref, bool)):
        return fixed_power(as_real(a, a), float(b))
    if not isinstance(a, Ref):
        a = as_real(b, b).constant(float(a))
    return _binary("pow")(a, b)


def fixed_power(x: Ref, exponent: float) -> Ref:
    """Exponents that kernels compute without a logarithm, and without the derivative in the exponent."""
    if exponent == 0.0:
        return x.constant(1.0)
    if exponent == 0.5:
        return x.builder.apply("sqrt", x)
    small = {1.0: lambda: x, 2.0: lambda: x * x, 3.0: lambda: x * x * x, -1.0: lambda: 1.0 / x}
    if exponent in small:
        return small[exponent]()
    return {-0.5: lambda: x.builder.rsqrt(x), -2.0: lambda: 1.0 / (x * x)}.get(exponent, lambda: x**exponent)()


def truncated(x: Ref) -> Ref:
    """x without its fraction, as a constant."""
    whole = x.builder.apply("cast", x.builder.stop_gradient(x), to="int")
    return x.builder.apply("cast", whole, to="real")


def _floor(x: Ref) -> Ref:
    x = as_real(x, x)
    whole = truncated(x)
    return where(whole > x, whole - 1.0, whole)


def _ceil(x: Ref) -> Ref:
    x = as_real(x, x)
    whole = truncated(x)
    return where(whole < x, whole + 1.0, whole)


def rounded(x: Ref, *, decimals: int = 0) -> Ref:
    """To the nearest, halves to the even one."""
    if decimals:
        tens = 10.0 ** abs(decimals)
        return rounded(x * tens) / tens if decimals > 0 else rounded(x / tens) * tens
    D = x.builder
    x = D.stop_gradient(as_real(x, x))
    size = D.abs(x)
    down = truncated(size)
    off = size - down
    odd = down - 2.0 * truncated(0.5 * down + 0.25) > 0.5  # a quarter: no rounding makes it another whole number
    up = D.logical_or(off > 0.5, D.logical_and(D.eq(off, off.constant(0.5)), odd))
    return D.sign(x) * where(up, down + 1.0, down)


def _division(a: Any, b: Any, *, rounding_mode: str | None = None) -> Ref:
    if rounding_mode is None:
        return _binary("div")(a, b)
    if any(isinstance(x, Ref) and x.type.kind == "real" for x in (a, b)):
        raise GraphError(
            f"division with rounding_mode {rounding_mode!r} of fractions is not lowered: it may turn either way"
        )
    quotient = _binary("div")(a, b)
    return _floor(quotient) if rounding_mode == "floor" else truncated(quotient)


def _remainder(a: Any, b: Any) -> Ref:
    """a − b·⌊a/b⌋ of whole numbers."""
    quotient = _division(a, b, rounding_mode="floor")
    a, b = _pair(a, b)
    return _binary("sub")(a, _binary("mul")(b, quotient))


def _clamp(x: Ref, min: Any = None, max: Any = None) -> Ref:  # noqa: A002 # the framework's names
    """At an end the derivative is x's, and an end that is a value takes it where x is beyond."""
    x = as_real(x, x)
    found = x
    if min is not None:
        lo = as_real(min, x)
        found = where(_comparison("lt")(x, lo), lo, x)
    if max is None:
        return found
    hi = as_real(max, x)
    beyond = _comparison("gt")(found, hi)
    return where(beyond, hi, found)


def _copysign(a: Any, b: Any) -> Ref:
    a, b = meet(*_pair(a, b))
    size = a.builder.abs(a)
    return where(b < 0.0, -size, size)


def _heaviside(x: Ref, values: Ref) -> Ref:
    return where(x > 0.0, 1.0, where(x < 0.0, 0.0, values))


def _flag(x: Ref, test: Callable[[Ref], Ref]) -> Ref:
    return test(as_real(x, x))


def _not_a_number(x: Ref) -> Ref:
    return x.builder.ne(x, x)


def _infinite(x: Ref) -> Ref:
    size = x.builder.abs(x)
    return x.builder.eq(size, size.constant(math.inf))


def _finite(x: Ref) -> Ref:
    return x.builder.abs(x) < math.inf


def _nan_to_num(
    x: Ref,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    format: str,  # noqa: A002
) -> Ref:
    """What is no number, and what is infinite, as numbers: the largest of the format unless others are given."""
    largest = FORMATS[format].largest
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    known = where(_not_a_number(x), nan or 0.0, x)
    return where(_exactly(x, math.inf), high, where(_exactly(x, -math.inf), low, known))


def _exactly(x: Ref, value: float) -> Ref:
    return x.builder.eq(x, x.constant(value))


def _masked_fill(x: Ref, mask: Ref, value: Any) -> Ref:
    return where(mask, value, x) if isinstance(value, Ref) else where(mask, _alike(value, x), x)


def _alike(value: float, x: Ref) -> Any:
    return {"real": float, "int": int, "bool": bool}[x.type.kind](value)


ARITHMETIC = (
    *(Lowering(op, _unary(op)) for op in ("neg", "abs", "sign")),
    *(Lowering(op, _sum(op), formatted=True) for op in ("add", "sub")),
    Lowering("mul", _binary("mul")),
    Lowering("div", _division),
    Lowering("floor_divide", lambda a, b: _division(a, b, rounding_mode="floor")),
    Lowering("rfloordiv", lambda a, b: _division(b, a, rounding_mode="floor")),
    Lowering("remainder", _remainder),
    Lowering("rsub", _sum("sub", swap=True), formatted=True),
    Lowering("rdiv", _binary("div", swap=True)),
    Lowering("rpow", lambda a, b: _power(b, a)),
    Lowering("pow", _power),
    Lowering("float_power", _power),
    Lowering("square", lambda x: x * x),
    Lowering("reciprocal", lambda x: 1.0 / as_real(x, x)),
    Lowering("maximum", _extreme("maximum")),
    Lowering("minimum", _extreme("minimum")),
    *(Lowering(op, _comparison(op)) for op in "eq ne lt le gt ge".split()),
    *(Lowering(op, _truth(op)) for op in "logical_and logical_or logical_not logical_xor".split()),
    *(Lowering(f"bitwise_{op}", _bitwise(f"logical_{op}")) for op in "and or xor not".split()),
    Lowering("isnan", lambda x: _flag(x, _not_a_number)),
    Lowering("isinf", lambda x: _flag(x, _infinite)),
    Lowering("isfinite", lambda x: _flag(x, _finite)),
    Lowering("nan_to_num", _nan_to_num, formatted=True),
    Lowering("masked_fill", _masked_fill),
    Lowering("addcmul", _addcmul),
    Lowering("addcdiv", _addcdiv),
    Lowering("lerp", _lerp),
    Lowering("clamp", _clamp),
    Lowering("clamp_min", _clamp),
    Lowering("clamp_max", lambda x, max: _clamp(x, None, max)),  # noqa: A006 # the framework's names
    Lowering("floor", _floor),
    Lowering("ceil", _ceil),
    Lowering("trunc", lambda x: truncated(as_real(x, x))),
    Lowering("round", rounded),
    Lowering("frac", lambda x: x - truncated(x)),
    Lowering("copysign", _copysign),
    Lowering("heaviside", _heaviside),
)

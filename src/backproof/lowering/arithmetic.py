"""Arithmetic and elementary functions. Numbers and values broadcast, as in the frameworks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref, meet
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.reduce import total
from backproof.lowering.lowering import Lowering


def _unary(op: str) -> Callable[..., Ref]:
    return lambda x, **_: x.builder.apply(op, as_real(x, x))


def as_real(x: Any, beside: Ref) -> Any:
    """An index or a truth value as the number that arithmetic takes it for."""
    if isinstance(x, Ref) and x.type.kind != "real":
        return beside.builder.apply("cast", x, to="real")
    return float(x) if isinstance(x, (bool, int)) else x


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


def _extreme(op: str) -> Callable[..., Ref]:
    def function(a: Ref, b: Any) -> Ref:
        a, b = meet(*_pair(a, b))
        return a.builder.apply(op, a, b)

    return function


def _whole(op: str, x: Ref, *other: Any) -> Ref:
    """The extreme of all of x, or of two values, element by element."""
    if other and isinstance(other[0], Ref):
        return _extreme(f"{op}imum")(x, other[0])
    if other:
        raise GraphError(f"{op} along an axis is not lowered")
    return x.builder.apply(op, as_real(x, x), axes=tuple(range(len(x.shape))))


def _comparison(op: str) -> Callable[..., Ref]:
    def function(a: Ref, b: Any) -> Ref:
        if isinstance(b, Ref) and b.type.kind != a.type.kind:
            a, b = _pair(a, b)
        a, b = meet(a, b)
        return a.builder.apply(op, a, b)

    return function


def _truth(op: str) -> Callable[..., Ref]:
    def function(a: Ref, *b: Ref) -> Ref:
        if not b:
            return a.builder.apply(op, a)
        x, y = meet(a, b[0])
        return x.builder.apply(op, x, y)

    return function


def _where(condition: Ref, a: Any, b: Any) -> Ref:
    beside = _first(a, b) if isinstance(a, Ref) or isinstance(b, Ref) else condition
    if beside.type.kind == "real":
        a, b = as_real(a, beside), as_real(b, beside)
    return COMPOSITIONS["where"].function(condition, a, b)


def _addcmul(x: Ref, a: Ref, b: Ref, *, value: float = 1) -> Ref:
    return x + a * b * float(value)


def _addcdiv(x: Ref, a: Ref, b: Ref, *, value: float = 1) -> Ref:
    return x + a / b * float(value)


def _lerp(x: Ref, end: Ref, weight: Any) -> Ref:
    return x + (end - x) * weight


def _square(x: Ref) -> Ref:
    return x * x


def _power(a: Any, b: Any) -> Ref:
    if isinstance(a, Ref) and b == 2:
        return a * a
    return _binary("pow")(a, b)


def _clamp(x: Ref, min: float | None = None, max: float | None = None) -> Ref:  # noqa: A002 # the framework's names
    return COMPOSITIONS["clamp"].function(x, min, max)


def _sum(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return total(as_real(x, x), dim, keepdim=keepdim)


def _mean(x: Ref, dim: Any = None, keepdim: bool = False, **_: Any) -> Ref:
    return COMPOSITIONS["mean"].function(x, dim, keepdim=keepdim)


ARITHMETIC = (
    *(
        Lowering(op, _unary(op))
        for op in "neg exp log log1p expm1 sqrt rsqrt tanh sigmoid erf sin cos abs sign".split()
    ),
    *(Lowering(op, _binary(op)) for op in "add sub mul div".split()),
    Lowering("radd", _binary("add", swap=True)),
    Lowering("rsub", _binary("sub", swap=True)),
    Lowering("rdiv", _binary("div", swap=True)),
    Lowering("rpow", _binary("pow", swap=True)),
    Lowering("pow", _power),
    Lowering("square", _square),
    Lowering("reciprocal", lambda x: 1.0 / x),
    Lowering("maximum", _extreme("maximum")),
    Lowering("minimum", _extreme("minimum")),
    Lowering("max", lambda x, *other: _whole("max", x, *other)),
    Lowering("min", lambda x, *other: _whole("min", x, *other)),
    *(Lowering(op, _comparison(op)) for op in "eq ne lt le gt ge".split()),
    *(Lowering(op, _truth(op)) for op in "logical_and logical_or logical_not".split()),
    Lowering("where", _where),
    Lowering("masked_fill", lambda x, mask, value: _where(mask.broadcast_to(x.shape), value, x)),
    Lowering("addcmul", _addcmul),
    Lowering("addcdiv", _addcdiv),
    Lowering("lerp", _lerp),
    Lowering("clamp", _clamp),
    Lowering("sum", _sum),
    Lowering("mean", _mean),
)

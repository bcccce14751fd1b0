"""Choices between values: where, clamp, and functions continued past the edge of their domain."""

from __future__ import annotations

from typing import Any, Literal

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes
from backproof.ir.compose.activation import softplus
from backproof.ir.compose.record import Composition


def where(condition: Ref, a: Any, b: Any) -> Ref:
    """A where the condition holds, else b; the three broadcast, and a and b may be numbers."""
    beside = next((x for x in (a, b) if isinstance(x, Ref)), None)
    scalars = [x for x in (a, b) if not isinstance(x, Ref)]
    if any(not isinstance(x, (bool, int, float)) for x in scalars):
        raise GraphError(f"where chooses between values of the graph or numbers, not {scalars}")
    shape = condition.shape
    for x in (a, b):
        shape = broadcast_shapes(shape, x.shape) if isinstance(x, Ref) else shape
    branches = [_branch(condition, x, beside, shape) for x in (a, b)]
    return condition.builder.apply("where", condition.broadcast_to(shape), *branches)


def _branch(condition: Ref, x: Any, beside: Ref | None, shape: tuple[int, ...]) -> Ref:
    if isinstance(x, Ref):
        return x.broadcast_to(shape)
    number = x if beside is not None else float(x)
    return (condition if beside is None else beside).constant(number, shape)


def clamp(x: Ref, lo: float | None = None, hi: float | None = None, ends: Literal["pass", "stop"] = "pass") -> Ref:
    """min(hi, max(lo, x)). At the ends the derivative is 1 (`pass`, PyTorch's clamp) or 0 (`stop`, its hardtanh)."""
    if lo is None and hi is None:
        raise GraphError("clamp: neither lo nor hi is given")
    if ends not in ("pass", "stop"):
        raise GraphError(f"clamp: ends is {ends!r}; there are 'pass' and 'stop'")
    found = x
    if lo is not None:
        found = where(x < lo if ends == "pass" else x <= lo, lo, found)
    if hi is not None:
        found = where(found > hi if ends == "pass" else found >= hi, hi, found)
    return found


def safe_sqrt(x: Ref) -> Ref:
    """√max(x, 0); its derivative is 0 at and below 0."""
    positive = x > 0.0
    return where(positive, x.builder.apply("sqrt", where(positive, x, 1.0)), 0.0)


def safe_log(x: Ref, eps: float = 1e-6) -> Ref:
    """ln(softplus(x) + ε): a logarithm that takes every real."""
    return x.builder.apply("log", softplus(x, threshold=None) + eps)


CHOOSE = (
    Composition("where", "y = a where the condition holds, else b; broadcast", where),
    Composition("clamp", "y = min(hi, max(lo, x)); at the ends its derivative is 1 (pass) or 0 (stop)", clamp),
    Composition("safe_sqrt", "y = √max(x, 0); its derivative is 0 at and below 0", safe_sqrt),
    Composition("safe_log", "y = ln(ln(1 + eˣ) + ε)", safe_log),
)

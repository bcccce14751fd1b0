"""Along an axis, one after another: running sums, products and extremes, differences and areas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import axis_of
from backproof.ir.compose.reduce import total
from backproof.lowering.arithmetic import as_real
from backproof.lowering.lowering import Lowering, moved
from backproof.lowering.orders import at, line_along

_choose = COMPOSITIONS["where"].function


def _cumsum(x: Ref, dim: int, **_: Any) -> Ref:
    line, axis = line_along(as_real(x, x), dim)
    return x.builder.reshape(x.builder.cumsum(line, axis=axis, reverse=False), shape=x.shape)


def _beginnings(x: Ref, axis: int, fill: float, reduced: Callable[[Ref, int], Ref]) -> Ref:
    """A reduction of each beginning of x along an axis: for each place, of what comes up to it, and the fill after it."""
    n, rank = x.shape[axis], len(x.shape)
    place = x.builder.iota(size=n)
    shape = (*x.shape[: axis + 1], n, *x.shape[axis + 1 :])
    each = x.builder.broadcast(x, shape=shape, axes=tuple(a for a in range(rank + 1) if a != axis))
    row, column = (x.builder.broadcast(place, shape=shape, axes=(a,)) for a in (axis, axis + 1))
    return reduced(_choose(column <= row, each, fill), axis + 1)


def _cumprod(x: Ref, dim: int, **_: Any) -> Ref:
    line, axis = line_along(as_real(x, x), dim)
    found = _beginnings(line, axis, 1.0, lambda y, a: y.builder.prod(y, axes=(a,)))
    return x.builder.reshape(found, shape=x.shape)


def _running(op: str) -> Callable[..., list[Ref]]:
    """The extreme so far and where it is: the last of equals."""

    def lower(x: Ref, dim: int) -> list[Ref]:
        line, axis = line_along(as_real(x, x), dim)
        if not line.type.size:
            return [moved(x), x.builder.cast(line, to="int")]
        signed = line if op == "max" else -line
        end = line.shape[axis] - 0.5  # a whole number and a half: no rounding makes it another

        def last(y: Ref, a: int) -> Ref:
            turned = y.builder.argmax(y.builder.flip(y, axes=(a,)), axis=a)
            return y.builder.cast(end - y.builder.cast(turned, to="real"), to="int")

        place = _beginnings(signed, axis, -math.inf, last)
        return [x.builder.reshape(y, shape=x.shape) for y in (at(line, place, axis), place)]

    return lower


def _diff(x: Ref, n: int = 1, dim: int = -1, prepend: Ref | None = None, append: Ref | None = None) -> Ref:
    axis = axis_of(dim, len(x.shape))
    parts = [as_real(part, x) for part in (prepend, x, append) if part is not None]
    y = x.builder.concat(*parts, axis=axis) if len(parts) > 1 else parts[0]
    lead = (slice(None),) * axis
    for _ in range(min(n, y.shape[axis])):
        y = y[(*lead, slice(1, None))] - y[(*lead, slice(0, max(y.shape[axis] - 1, 0)))]
    return moved(y)


def _trapezoid(y: Ref, x: Ref | None = None, *, dx: float = 1.0, dim: int = -1) -> Ref:
    axis = axis_of(dim, len(y.shape))
    lead = (slice(None),) * axis
    ends = y[(*lead, slice(1, None))] + y[(*lead, slice(0, max(y.shape[axis] - 1, 0)))]
    if x is None:
        return 0.5 * float(dx) * total(ends, axis)
    if len(x.shape) == 1:
        x = x.builder.broadcast(x, shape=y.shape, axes=(axis,))
    return 0.5 * total(ends * _diff(x.broadcast_to(y.shape), 1, axis), axis)


RUNNING = (
    Lowering("cumsum", _cumsum),
    Lowering("cumprod", _cumprod),
    Lowering("cummax", _running("max")),
    Lowering("cummin", _running("min")),
    Lowering("diff", _diff, in_pieces=True),
    Lowering("trapezoid", _trapezoid, in_pieces=True),
)

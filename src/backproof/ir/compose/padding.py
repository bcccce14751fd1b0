"""Borders around a value: of one number, or of what lies inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, index
from backproof.ir.compose.axes import places_beside
from backproof.ir.compose.record import Composition

BEYOND: dict[str, Callable[[int, int], int]] = {
    "replicate": lambda i, n: min(max(i, 0), n - 1),
    "reflect": lambda i, n: (n - 1) - abs((n - 1) - abs(i)),
    "circular": lambda i, n: i % n,
}
"""mode → the place in an axis of n cells that is seen at place i, also before and beyond it."""

WIDEST: dict[str, Callable[[int], float]] = {
    "replicate": lambda n: float("inf") if n else 0,
    "reflect": lambda n: n - 1,
    "circular": lambda n: n,
}
"""mode → how wide a border of an axis of n cells may be."""


def padded(
    x: Ref,
    pad: Sequence[int],
    mode: Literal["constant", "reflect", "replicate", "circular"] = "constant",
    value: float | None = None,
) -> Ref:
    """x with a border, (before, after) for each axis from the last on; a negative one cuts."""
    rank = len(x.shape)
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise GraphError(f"padded: {list(pad)} for {x.type}: it must be two numbers for each axis, from the last on")
    low, high = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        low[rank - 1 - i], high[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    if mode == "constant":
        return _bordered(x, low, high, value or 0)
    if mode not in BEYOND:
        raise GraphError(f"padded: mode is {mode!r}; there are 'constant', {', '.join(map(repr, BEYOND))}")
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        n = x.shape[axis]
        if before + n + after < 0 or max(before, after) > WIDEST[mode](n):
            raise GraphError(f"padded: a border of {before} and {after} in mode {mode!r} around {n} cells")
        if before or after:
            places = [BEYOND[mode](i, n) for i in range(-before, n + after)]
            x = x.builder.gather(x, places_beside(x, places), axis=axis)
    return x


def _bordered(x: Ref, low: Sequence[int], high: Sequence[int], value: float) -> Ref:
    """With a border of one value; a negative border cuts."""
    cut = tuple(slice(max(-a, 0), max(n - max(-b, 0), 0)) for a, b, n in zip(low, high, x.shape, strict=True))
    inner = index(x, cut) if any(a < 0 or b < 0 for a, b in zip(low, high, strict=True)) else x
    border: dict[str, Any] = {
        "low": tuple(max(a, 0) for a in low),
        "high": tuple(max(b, 0) for b in high),
        "interior": (0,) * len(x.shape),
    }
    grown = x.builder.apply("pad", inner, **border)
    if not value:
        return grown
    inside = np.zeros(grown.shape, dtype=np.bool_)
    inside[tuple(slice(a, a + n) for a, n in zip(border["low"], inner.shape, strict=True))] = True
    number = bool(value) if x.type.kind == "bool" else int(value) if x.type.kind == "int" else float(value)
    return x.builder.where(x.constant(inside), grown, grown.constant(number))


PADDING = (
    Composition(
        "padded", "x with a border of one value, or of what lies inside (reflect, replicate, circular)", padded
    ),
)

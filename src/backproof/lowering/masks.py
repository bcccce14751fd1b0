"""Random masks that are known, and the running statistics of norms: what calls do besides what they give.

A mask is true where a number is kept. `kept` and `dropped` are the two values that an element may come to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from backproof.ir.build import Ref
from backproof.ir.compose.reduce import total
from backproof.ir.types import Shape
from backproof.lowering.lowering import Lowering

ALPHA = 1.7580993408473766  # of the self-normalising unit: scale · α


@dataclass(frozen=True, slots=True)
class Dropout:
    """A function that drops numbers at random: with the probability p an element becomes a constant, else it is moved and scaled."""

    name: str
    scale: Callable[[float], tuple[float, float]]
    """A quotient, so that it is rounded as it is computed."""
    shift: Callable[[float], float]
    dropped: Callable[[float], tuple[float, float]]
    """A sum, for the same reason."""
    whole: Callable[[Shape], Shape]
    """The mask's shape: it may speak of whole channels."""


def _each(shape: Shape) -> Shape:
    return shape


def _channels(shape: Shape) -> Shape:
    return (*shape[:2], *(1,) * (len(shape) - 2))


def _channels_of(rank: int) -> Callable[[Shape], Shape]:
    """Of a batch, or of one example without the axis of the batch."""
    return lambda shape: _channels(shape) if len(shape) == rank else (shape[0], *(1,) * (len(shape) - 1))


def _alpha(p: float) -> float:
    return 1 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p)) if p < 1 else 0.0


def _plain(name: str, whole: Callable[[Shape], Shape]) -> Dropout:
    return Dropout(name, lambda p: (1.0, 1.0 - p), lambda _: 0.0, lambda _: (0.0, 0.0), whole)


def _self_normalising(name: str, whole: Callable[[Shape], Shape]) -> Dropout:
    def dropped(p: float) -> tuple[float, float]:
        return -ALPHA * _alpha(p), ALPHA * _alpha(p) * p

    return Dropout(name, lambda p: (_alpha(p), 1.0), lambda p: ALPHA * _alpha(p) * p, dropped, whole)


DROPOUTS = {
    found.name: found
    for found in (
        _plain("dropout", _each),
        _plain("dropout1d", _channels_of(3)),
        _plain("dropout2d", _channels),
        _plain("dropout3d", _channels_of(5)),
        _plain("feature_dropout", _channels),
        _self_normalising("alpha_dropout", _each),
        _self_normalising("feature_alpha_dropout", _channels),
    )
}


def masked(x: Ref, mask: Ref, name: str, p: float) -> Ref:
    """A dropout whose mask is known."""
    if p == 0:
        return x.builder.apply("reshape", x, shape=x.shape)
    kind = DROPOUTS[name]
    over, under = kind.scale(p)
    zero, other = kind.dropped(p)
    dropped = x.constant(zero) + other if other else x.constant(zero)
    if p == 1:
        return dropped + x * 0.0
    scale = x.constant(over, ()) / under if under != 1 else x.constant(over, ())
    kept = x * scale
    if kind.shift(p):
        kept = kept + kind.shift(p)
    return x.builder.apply("where", mask.broadcast_to(x.shape), kept, dropped)


def _running(x: Ref, mean: Ref, variance: Ref, momentum: float | None, batch: tuple[int, ...]) -> list[Ref]:
    """Old ones and those of the batch, weighed; the variance without bias."""
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    within = [axis for axis in axes if axis not in batch]
    n = math.prod(x.shape[axis] for axis in within)
    each = total(x, within, keepdim=True) / float(n)
    off = x - each.broadcast_to(x.shape)
    spread = total(off * off, within, keepdim=True) / float(max(n - 1, 1))
    found = [each, spread]
    if batch:
        found = [total(y, list(batch), keepdim=True) / float(x.shape[0]) for y in found]
    # Kernels hold the momentum in their own format: 1 − momentum is then off by as much.
    weight = mean.constant(0.0 if momentum is None else float(momentum))
    fresh = [y.builder.apply("reshape", y, shape=mean.shape) for y in found]
    return [old * (1.0 - weight) + new * weight for old, new in zip((mean, variance), fresh, strict=True)]


MASKS = (
    Lowering("masked_dropout", masked),
    Lowering("running_statistics", lambda x, mean, variance, momentum: _running(x, mean, variance, momentum, ())),
    Lowering(
        "running_instance_statistics", lambda x, mean, variance, momentum: _running(x, mean, variance, momentum, (0,))
    ),
)

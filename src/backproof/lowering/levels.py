"""Levels: which of some boundaries a number lies between, and numbers rounded to what few bits can say."""

from __future__ import annotations

import math
from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.lowering.arithmetic import as_real, sloped, truncated
from backproof.lowering.lowering import Lowering

_choose, _clamp = COMPOSITIONS["where"].function, COMPOSITIONS["clamp"].function
MOST_COMPARED = 1 << 24


def _bucketize(x: Ref, boundaries: Ref, *, out_int32: bool = False, right: bool = False) -> Ref:
    """How many boundaries are below; with right, those that are equal too."""
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)


def _searchsorted(
    boundaries: Ref, x: Ref, *, out_int32: bool = False, right: bool = False, side: str = "left", sorter: Any = None
) -> Ref:
    del out_int32  # the record says the type
    if sorter is not None or len(boundaries.shape) != 1 or x.type.size * boundaries.type.size > MOST_COMPARED:
        raise GraphError("searchsorted among rows, with a sorter, or of so many, is not lowered")
    shape = (*x.shape, *boundaries.shape)
    x, edges = as_real(x, x), as_real(boundaries, boundaries)
    D, last = x.builder, len(shape) - 1
    each = D.broadcast(edges, shape=shape, axes=(last,))
    given = D.broadcast(x, shape=shape, axes=tuple(range(last)))
    below = each <= given if right or side == "right" else each < given
    return D.cast(D.sum(D.cast(below, to="real"), axes=(last,)), to="int")


def _per_tensor(x: Ref, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Ref:
    """The nearest of the levels, that is of whole multiples of the scale; its derivative is 1 where that is not an end's."""
    scale, zero = (_beside(x, given) for given in (scale, zero_point))
    return _to_levels(x, scale.broadcast_to(x.shape), zero.broadcast_to(x.shape), quant_min, quant_max)


def _per_channel(x: Ref, scale: Ref, zero_point: Ref, axis: int, quant_min: int, quant_max: int) -> Ref:
    """The same, with a scale for each place along an axis."""
    scale, zero = (x.builder.broadcast(_beside(x, given), shape=x.shape, axes=(axis,)) for given in (scale, zero_point))
    return _to_levels(x, scale, zero, quant_min, quant_max)


def _beside(x: Ref, given: Any) -> Ref:
    return as_real(given, x) if isinstance(given, Ref) else x.constant(float(given), ())


def _to_levels(x: Ref, scale: Ref, zero: Ref, least: int, most: int) -> Ref:
    # What is truncated is positive. Only half way between two levels is it in doubt which is nearer.
    far = float(2 ** math.ceil(math.log2(most - least + 4)))
    multiple = x.builder.stop_gradient(x * (1.0 / scale))
    near = _clamp(multiple, least - most - 2.0, most - least + 2.0)
    level = truncated(near + (far + 0.5)) - far + zero
    inside = x.builder.logical_and(level > least - 0.5, level < most + 0.5)
    value = (_clamp(level, float(least), float(most)) - zero) * scale
    return sloped(value, (x, _choose(inside, x.constant(1.0), 0.0)))


LEVELS = (
    Lowering("bucketize", _bucketize),
    Lowering("searchsorted", _searchsorted),
    Lowering("fake_quantize_per_tensor_affine", _per_tensor),
    Lowering("fake_quantize_per_channel_affine", _per_channel),
)

"""What happens to gradients between the backward pass and the step: accumulated, unscaled, clipped by norm or by value.

Each is a formula over the graph; `derive_clipped` derives what clipping should have left, from the gradients before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.errors import InputError, UsageError
from backproof.ir.build import Builder, Ref
from backproof.ir.compose.choose import clamp, where
from backproof.ir.types import real
from backproof.optim.arithmetic import OF_SQUARES
from backproof.optim.derive import Array, Derived, Formats, derived_from, run


def norm(x: Ref, p: float) -> Ref:
    """‖x‖ₚ over all of x; 0 of nothing."""
    D, axes = x.builder, tuple(range(len(x.shape)))
    if not x.type.size:
        return x.constant(0.0, ())
    if p == math.inf:
        return D.max(D.abs(x), axes=axes)
    if p == 1:
        return D.sum(D.abs(x), axes=axes)
    if p == 2:
        return D.apply("sqrt", D.sum(x * x, axes=axes), name=OF_SQUARES)
    if p <= 0:
        raise UsageError(f"the norm to clip by is {p}; it must be more than 0, or infinite")
    # A root of what is exactly 0 is; beside 0 its slope would make any rounding infinite.
    nothing = D.eq(D.max(D.abs(x), axes=axes), x.constant(0.0, ()))
    powers = D.sum(D.abs(x) ** p, axes=axes)
    return where(nothing, 0.0, where(nothing, 1.0, powers) ** (1.0 / p))


def total_norm(norms: Sequence[Ref], p: float) -> Ref:
    """The norm of all gradients from that of each: the norm of their norms."""
    D = norms[0].builder
    each = [D.reshape(one, shape=(1,)) for one in norms]
    return norm(each[0] if len(each) == 1 else D.concat(*each, axis=0), p)


@dataclass(frozen=True)
class Clipping:
    """One way to make a factor of a norm and the most that it may be."""

    name: str
    says: str
    factor: Callable[[Ref, float], Ref]


def _with_epsilon(size: Ref, most: float) -> Ref:
    coefficient = most / (size + 1e-6)
    return where(coefficient < 1.0, coefficient, 1.0)


def _without(size: Ref, most: float) -> Ref:
    larger = size > most
    return where(larger, most / where(larger, size, 1.0), 1.0)


def _always(size: Ref, most: float) -> Ref:
    return most / (size + 1e-6)


CLIPPINGS: dict[str, Clipping] = {
    each.name: each
    for each in (
        Clipping("norm", "g·min(1, c/(‖g‖ + 10⁻⁶)): torch, DeepSpeed, Megatron", _with_epsilon),
        Clipping("exact_norm", "g·c/max(‖g‖, c): optax, TensorFlow, Keras", _without),
        Clipping(
            "normalized",
            "g·c/(‖g‖ + 10⁻⁶), also where that is more than g: torch before 1.3 without its condition",
            _always,
        ),
    )
}


def by_value(x: Ref, limit: float) -> Ref:
    """min(c, max(−c, x))."""
    return clamp(x, -limit, limit)


def unscaled(x: Ref, scale: float) -> Ref:
    """x/s, as a product with 1/s: a loss scale taken off again."""
    return x * (1.0 / scale)


def accumulated(parts: Sequence[Ref], weights: Sequence[float]) -> Ref:
    """Σ wᵢ·gᵢ over micro-batches, in their order."""
    if len(parts) != len(weights) or not parts:
        raise InputError(
            f"{len(parts)} micro-batches and {len(weights)} weights; there must be as many, and at least one"
        )
    total = parts[0] if weights[0] == 1 else parts[0] * float(weights[0])
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total = total + (part if weight == 1 else part * float(weight))
    return total


def next_scale(
    scale: float, steps: int, *, overflow: bool, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000
) -> tuple[float, int]:
    """The loss scale after a step, and for how many steps nothing has overflowed since it last changed.

    A step whose gradients overflow is skipped, and the scale falls; after `interval` steps without, it rises.
    """
    if overflow:
        return scale * backoff, 0
    if steps + 1 < interval:
        return scale, steps + 1
    risen = scale * growth
    return (risen if math.isfinite(risen) and risen <= float(np.finfo(np.float32).max) else scale), 0


@dataclass(frozen=True)
class Clipped:
    """What clipping derives: the norm before, the factor, and each gradient after."""

    norm: Derived
    factor: Derived
    gradients: dict[str, Derived]


def derive_clipped(
    gradients: Mapping[str, Array], most: float, p: float = 2.0, way: str = "norm", formats: Formats | None = None
) -> Clipped:
    """Gradients clipped together: all of them for a global norm, those of a group for a norm of its own."""
    formats = formats or Formats()
    size, factor = derive_factor(gradients.values(), most, p, way, formats)
    after = {name: derive_scaled(array, factor, formats) for name, array in gradients.items()}
    return Clipped(derived_from(size, size), derived_from(factor, factor), after)


def derive_factor(
    gradients: Iterable[Array], most: float, p: float = 2.0, way: str = "norm", formats: Formats | None = None
) -> tuple[Bound, Bound]:
    """The norm of all gradients together, and the factor that it makes; one gradient at a time is looked at."""
    if way not in CLIPPINGS:
        raise UsageError(f"no clipping {way!r}; there are {', '.join(CLIPPINGS)}")
    D = _domain(formats)
    norms = [_of(D, lambda x: [norm(x, p)], np.asarray(array))[0] for array in gradients]
    if not norms:
        raise InputError("nothing to clip: there are no gradients")
    size, factor = _of(D, lambda *each: [found := total_norm(each, p), CLIPPINGS[way].factor(found, most)], *norms)
    return size, factor


def derive_scaled(gradient: Array, factor: Bound, formats: Formats | None = None) -> Derived:
    """A gradient times a factor that has bounds of its own."""
    (found,) = _of(_domain(formats), lambda x, by: [x * by], np.asarray(gradient), factor)
    return derived_from(found, found)


def _domain(formats: Formats | None) -> Bounded:
    formats = formats or Formats()
    return Bounded(formats.computing, formats.accumulation)


def derive_bounded(formula: Callable[..., Ref], *given: Array, formats: Formats | None = None) -> Derived:
    """Any formula of this module at these arrays: `derive_bounded(lambda g: by_value(g, 1.0), gradient)`."""
    D = _domain(formats)
    (found,) = _of(D, lambda *x: [formula(*x)], *(np.asarray(each) for each in given))
    return derived_from(found, found)


def _of(D: Bounded, formula: Callable[..., list[Ref]], *given: Array | Bound) -> list[Bound]:
    """The formula's values, the arrays exact or with the bounds that they have."""
    builder = Builder()
    leaves = [builder.leaf(real(*each.shape)) for each in given]
    graph = builder.graph(*formula(*leaves))
    values = run(graph, D, given)
    return [values[output] for output in graph.outputs]

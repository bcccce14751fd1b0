"""Numbers of a step that belong to no element: bias corrections, products of momenta.

They are Python's float64 in most implementations, and so constants of the graph. Where an implementation keeps them as tensors
(capturable, differentiable) they are values of the graph, and each operation on them rounds: 1 − 0.999¹ in float32 is off by 6e-5 of
itself, and an honest bound has to say so. Their format is their own, whatever the parameter's is: see `derive.scalar_part`.
"""

from __future__ import annotations

import math

from backproof.ir.build import Ref

Number = float | Ref


def number(value: float, beside: Ref, *, tensor: bool) -> Number:
    """A number of Python's, or the same kept as a tensor."""
    return beside.constant(float(value), ()) if tensor else float(value)


def root(x: Number) -> Number:
    """√x."""
    return x.builder.apply("sqrt", x) if isinstance(x, Ref) else math.sqrt(x)


def stored(x: Ref, fmt: str | None) -> Ref:
    """x, rounded to a format."""
    return x if fmt is None else x.builder.apply("cast", x, to=fmt)

"""Smooth activations."""

from __future__ import annotations

import math
from typing import Literal

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import split
from backproof.ir.compose.record import Composition

STEEP = 20.0  # where 1 + eˣ is eˣ in float32, and eˣ is far from overflowing


def softplus(x: Ref, beta: float = 1.0, threshold: float | None = 20.0) -> Ref:
    """ln(1 + e^(βx))/β; x itself where βx exceeds the threshold."""
    D = x.builder
    z = x if beta == 1 else x * beta
    top = STEEP if threshold is None else threshold
    steep = z > top
    # What is not chosen is held at the threshold, so that it cannot overflow and the two sides meet.
    flat = D.log1p(D.exp(D.where(steep, z.constant(top), z)))
    if threshold is not None:
        return D.where(steep, x, flat if beta == 1 else flat / beta)
    found = D.where(steep, z + D.log1p(D.exp(-D.where(steep, z, z.constant(top)))), flat)
    return found if beta == 1 else found / beta


def logsigmoid(x: Ref) -> Ref:
    """ln σ(x) = min(x, 0) − ln(1 + e^(−|x|))."""
    D = x.builder
    negative = x < 0.0
    # The smaller of x and −x: its derivative at 0 is one side's, so that the whole is smooth there.
    small = D.where(negative, x, -x)
    return D.where(negative, x, x.constant(0.0)) - D.log1p(D.exp(small))


def silu(x: Ref) -> Ref:
    """x·σ(x)."""
    return x * x.builder.sigmoid(x)


def mish(x: Ref) -> Ref:
    """x·tanh(softplus(x))."""
    return x * x.builder.tanh(softplus(x, threshold=None))


def gelu(x: Ref, approximate: Literal["none", "tanh"] = "none") -> Ref:
    """x·Φ(x), or its approximation by tanh."""
    D = x.builder
    if approximate == "none":
        return 0.5 * x * (1.0 + D.erf(x * math.sqrt(0.5)))
    if approximate != "tanh":
        raise GraphError(f"gelu: approximate is {approximate!r}; there are 'none' and 'tanh'")
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + D.tanh(inner))


def softsign(x: Ref) -> Ref:
    """x/(1 + |x|)."""
    return x / (1.0 + x.builder.abs(x))


def tanhshrink(x: Ref) -> Ref:
    """x − tanh x."""
    return x - x.builder.tanh(x)


def glu(x: Ref, dim: int = -1) -> Ref:
    """a·σ(b) for the two halves of x."""
    a, b = split(x, 2, dim)
    return a * x.builder.sigmoid(b)


ACTIVATION = (
    Composition("softplus", "y = ln(1 + e^(βx))/β, and x where βx > threshold", softplus),
    Composition("logsigmoid", "y = −ln(1 + e⁻ˣ)", logsigmoid),
    Composition("silu", "y = x/(1 + e⁻ˣ)", silu),
    Composition("mish", "y = x·tanh(ln(1 + eˣ))", mish),
    Composition("gelu", "y = x·(1 + erf(x/√2))/2, or x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2", gelu),
    Composition("softsign", "y = x/(1 + |x|)", softsign),
    Composition("tanhshrink", "y = x − tanh x", tanhshrink),
    Composition("glu", "y = a/(1 + e⁻ᵇ), where a and b are the halves of x", glu),
)

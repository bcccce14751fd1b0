"""Activations in pieces. What happens at a joint is part of each: PyTorch's choice among the subgradients."""

from __future__ import annotations

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import along
from backproof.ir.compose.choose import clamp, where
from backproof.ir.compose.record import Composition

# The fixed point of the self-normalising network: mean 0 and variance 1 are mapped to themselves.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def leaky_relu(x: Ref, negative_slope: float = 0.01) -> Ref:
    """x above 0, else slope·x; its derivative at 0 is the slope."""
    return where(x > 0.0, x, negative_slope * x)


def prelu(x: Ref, weight: Ref) -> Ref:
    """x above 0, else w·x, with one w for all or one for each channel (axis 1)."""
    if weight.shape in ((), (1,)):
        slopes = weight.broadcast_to(x.shape) if weight.shape == () or x.shape else x.builder.reshape(weight, shape=())
    elif len(x.shape) < 2:
        raise GraphError(f"prelu: {weight.type} slopes for {x.type}, which has no channels")
    else:
        slopes = along(weight, x, 1)
    return where(x > 0.0, x, slopes * x)


def _exponential(x: Ref, alpha: float, scale: float, rate: float) -> Ref:
    positive = x > 0.0
    below = where(positive, 0.0, x)  # so that what is not chosen cannot overflow
    curve = (alpha * scale) * x.builder.expm1(below if rate == 1 else below * rate)
    return where(positive, x if scale == 1 else scale * x, curve)


def elu(x: Ref, alpha: float = 1.0) -> Ref:
    """x above 0, else α(eˣ − 1); its derivative at 0 is α."""
    return _exponential(x, alpha, 1.0, 1.0)


def celu(x: Ref, alpha: float = 1.0) -> Ref:
    """x above 0, else α(e^(x/α) − 1)."""
    return _exponential(x, alpha, 1.0, 1.0 / alpha)


def selu(x: Ref) -> Ref:
    """λx above 0, else λα(eˣ − 1)."""
    return _exponential(x, SELU_ALPHA, SELU_SCALE, 1.0)


def hardtanh(x: Ref, min_val: float = -1.0, max_val: float = 1.0) -> Ref:
    """x between the ends; its derivative at and beyond them is 0."""
    return clamp(x, min_val, max_val, ends="stop")


def relu6(x: Ref) -> Ref:
    """x between 0 and 6; its derivative at 0 and 6 is 0."""
    return hardtanh(x, 0.0, 6.0)


def hardsigmoid(x: Ref) -> Ref:
    """x/6 + 1/2 between −3 and 3, 0 below, 1 above; its derivative at the ends is 0."""
    return relu6(x + 3.0) / 6.0


def hardswish(x: Ref) -> Ref:
    """x·relu6(x + 3)/6; its derivative at −3 is 0 and at 3 is 1."""
    return x * relu6(x + 3.0) / 6.0


def softshrink(x: Ref, lambd: float = 0.5) -> Ref:
    """x moved by λ towards 0, and 0 within λ of it."""
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, 0.0))


def hardshrink(x: Ref, lambd: float = 0.5) -> Ref:
    """x, but 0 within λ of 0; its derivative at ±λ is 0."""
    return where(x.builder.abs(x) <= lambd, 0.0, x)


def threshold(x: Ref, threshold: float, value: float) -> Ref:
    """x above the threshold, else the value."""
    return where(x > threshold, x, value)


PIECEWISE = (
    Composition("leaky_relu", "y = x for x > 0, else slope·x", leaky_relu),
    Composition("prelu", "y = x for x > 0, else w·x, with w by channel", prelu),
    Composition("elu", "y = x for x > 0, else α(eˣ − 1)", elu),
    Composition("celu", "y = x for x > 0, else α(e^(x/α) − 1)", celu),
    Composition("selu", "y = λx for x > 0, else λα(eˣ − 1)", selu),
    Composition("hardtanh", "y = min(max_val, max(min_val, x)); its derivative at the ends is 0", hardtanh),
    Composition("relu6", "y = min(6, max(0, x)); its derivative at the ends is 0", relu6),
    Composition("hardsigmoid", "y = min(6, max(0, x + 3))/6; its derivative at the ends is 0", hardsigmoid),
    Composition("hardswish", "y = x·min(6, max(0, x + 3))/6", hardswish),
    Composition("softshrink", "y = sign(x)·max(|x| − λ, 0)", softshrink),
    Composition("hardshrink", "y = x for |x| > λ, else 0", hardshrink),
    Composition("threshold", "y = x for x > threshold, else value", threshold),
)

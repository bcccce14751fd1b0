"""Activations beyond the classic ones: value, slope, and how fast each can change, which is what bounds need."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
_ROOT_2_OVER_PI = 0.7978845608028654
_CUBIC = 0.044715


class Smooth(NamedTuple):
    """One activation. `steep` bounds |f′| and `curved` bounds |f″|: Lipschitz constants of value and slope."""

    name: str
    says: str
    value: Callable[[Reals], Reals]
    slope: Callable[[Reals], Reals]
    steep: float
    curved: float


def _sigmoid(x: Reals) -> Reals:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


def _softplus(x: Reals) -> Reals:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _normal(x: Reals) -> Reals:
    """Φ(x), the normal distribution."""
    from scipy.special import ndtr

    return np.asarray(ndtr(x), dtype=np.float64)


def _inner(x: Reals) -> Reals:
    return np.tanh(_ROOT_2_OVER_PI * (x + _CUBIC * x**3))


def _gelu_tanh_slope(x: Reals) -> Reals:
    t = _inner(x)
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * _ROOT_2_OVER_PI * (1.0 + 3.0 * _CUBIC * x * x)


def _gelu_slope(x: Reals) -> Reals:
    return _normal(x) + x * np.exp(-0.5 * x * x) * 0.3989422804014327


def _mish_slope(x: Reals) -> Reals:
    t = np.tanh(_softplus(x))
    return t + x * (1.0 - t * t) * _sigmoid(x)


def _silu_slope(x: Reals) -> Reals:
    s = _sigmoid(x)
    return s * (1.0 + x * (1.0 - s))


SMOOTH = {
    smooth.name: smooth
    for smooth in (
        Smooth("tanh", "tanh x", np.tanh, lambda x: 1.0 - np.tanh(x) ** 2, 1.0, 0.77),
        Smooth("softplus", "ln(1 + eˣ)", _softplus, _sigmoid, 1.0, 0.25),
        Smooth("logsigmoid", "−ln(1 + e⁻ˣ)", lambda x: -_softplus(-x), lambda x: _sigmoid(-x), 1.0, 0.25),
        Smooth("silu", "x·σ(x)", lambda x: x * _sigmoid(x), _silu_slope, 1.1, 0.51),
        Smooth("gelu", "x·Φ(x)", lambda x: x * _normal(x), _gelu_slope, 1.13, 0.8),
        Smooth(
            "gelu_tanh",
            "½x(1 + tanh(√(2/π)(x + 0.044715x³)))",
            lambda x: 0.5 * x * (1.0 + _inner(x)),
            _gelu_tanh_slope,
            1.13,
            0.81,
        ),
        Smooth("mish", "x·tanh(ln(1 + eˣ))", lambda x: x * np.tanh(_softplus(x)), _mish_slope, 1.09, 0.65),
        Smooth(
            "softsign", "x / (1 + |x|)", lambda x: x / (1.0 + np.abs(x)), lambda x: (1.0 + np.abs(x)) ** -2, 1.0, 2.0
        ),
        Smooth("tanhshrink", "x − tanh x", lambda x: x - np.tanh(x), lambda x: np.tanh(x) ** 2, 1.0, 0.77),
        Smooth(
            "elu",
            "x, or eˣ − 1 below 0",
            lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
            lambda x: np.exp(np.minimum(x, 0.0)),
            1.0,
            1.0,
        ),
    )
}

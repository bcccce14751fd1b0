"""What the numbers of the scalar engine may be: float64 arrays, or any carrier that has these functions beside its operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from backproof.engine import fdlibm
from backproof.engine.scalar_activations import Smooth

Carrier = Any  # float64 arrays, or anything with +, -, *, /, indexing and reshape over a leading axis of records
Positions = NDArray[np.intp]
LEAST_PROBABILITY = 1e-300  # below, digits are lost to gradual underflow


class Domain(Protocol):
    """The functions that operators do not give."""

    def exp(self, x: Carrier) -> Carrier: ...
    def log(self, x: Carrier) -> Carrier: ...
    def sqrt(self, x: Carrier) -> Carrier: ...
    def power(self, x: Carrier, y: Carrier) -> Carrier: ...
    def relu(self, x: Carrier) -> Carrier: ...
    def step(self, x: Carrier) -> Carrier: ...
    def total(self, x: Carrier, axis: int) -> Carrier: ...
    def shift(self, x: Carrier) -> Carrier: ...
    def unless_zero(self, t: Carrier, x: Carrier) -> Carrier: ...
    def sigmoid(self, x: Carrier) -> Carrier: ...
    def softmax(self, net: Carrier) -> Carrier: ...
    def log_softmax(self, net: Carrier, out: Carrier) -> Carrier: ...
    def at_most(self, x: Carrier, limit: Callable[[], Carrier]) -> Carrier: ...
    def join(self, parts: list[Carrier]) -> Carrier: ...
    def put(self, x: Carrier, positions: Positions, values: Carrier) -> Carrier: ...
    def value(self, smooth: Smooth, x: Carrier) -> Carrier: ...
    def slope(self, smooth: Smooth, x: Carrier) -> Carrier: ...


def softmax(domain: Domain, net: Carrier) -> Carrier:
    """e^(z − max) / Σ e^(z − max)."""
    powers = domain.exp(net - domain.shift(net))
    return powers / domain.total(powers, axis=-1)[..., None]


def log_softmax(domain: Domain, net: Carrier) -> Carrier:
    """(z − max) − ln Σ e^(z − max)."""
    shifted = net - domain.shift(net)
    return shifted - domain.log(domain.total(domain.exp(shifted), axis=-1))[..., None]


class Floats:
    """float64 arrays with the exp, log and pow of V8; sums in order, one rounding an addition."""

    exp = staticmethod(fdlibm.exp)
    log = staticmethod(fdlibm.log)
    power = staticmethod(fdlibm.power)
    sqrt = staticmethod(np.sqrt)

    def relu(self, x: Carrier) -> Carrier:
        """max(x, 0)."""
        return np.where(x > 0.0, x, 0.0)

    def step(self, x: Carrier) -> Carrier:
        """1 where x > 0, else 0."""
        return np.where(x > 0.0, 1.0, 0.0)

    def total(self, x: Carrier, axis: int) -> Carrier:
        """((0 + x₁) + x₂) + … along an axis; accumulation is what keeps NumPy from pairing the terms."""
        return 0.0 + np.take(np.add.accumulate(x, axis=axis), -1, axis=axis)

    def shift(self, x: Carrier) -> Carrier:
        """The largest of the last axis, which softmax subtracts."""
        return np.max(x, axis=-1, keepdims=True)

    def unless_zero(self, t: Carrier, x: Carrier) -> Carrier:
        """x, but 0 where t is 0: 0·ln 0 counts as nothing."""
        return np.where(t == 0.0, 0.0, x)

    def sigmoid(self, x: Carrier) -> Carrier:
        """1 / (1 + e⁻ˣ); 0 where e⁻ˣ overflows."""
        return 1.0 / (1.0 + self.exp(-x))

    def softmax(self, net: Carrier) -> Carrier:
        """e^(z − max) / Σ e^(z − max)."""
        return softmax(self, net)

    def log_softmax(self, net: Carrier, out: Carrier) -> Carrier:
        """ln p, from the probability; where that has lost its digits or is 0, from the net inputs."""
        found, lost = self.log(out), out < LEAST_PROBABILITY
        return np.where(lost, log_softmax(self, net), found) if lost.any() else found

    def at_most(self, x: Carrier, _: Callable[[], Carrier]) -> Carrier:
        """x, as it was computed."""
        return x

    def join(self, parts: list[Carrier]) -> Carrier:
        """Side by side along the last axis."""
        return np.concatenate(parts, axis=-1)

    def value(self, smooth: Smooth, x: Carrier) -> Carrier:
        """f(x)."""
        return smooth.value(x)

    def slope(self, smooth: Smooth, x: Carrier) -> Carrier:
        """f′(x)."""
        return smooth.slope(x)

    def put(self, x: Carrier, positions: Positions, values: Carrier) -> Carrier:
        """X with some entries of its last axis replaced."""
        result = np.array(x)
        result[..., positions] = values
        return result


FLOATS = Floats()

"""Softmax and its logarithm, shifted by the maximum. The shift changes nothing in the mathematics, so it has no derivative."""

from __future__ import annotations

from backproof.ir.build import Ref
from backproof.ir.compose.axes import axis_of, spread
from backproof.ir.compose.record import Composition


def _shifted(x: Ref, axis: int) -> Ref:
    D = x.builder
    return x - spread(D.stop_gradient(D.max(x, axes=(axis,))), x, (axis,))


def softmax(x: Ref, dim: int = -1) -> Ref:
    """eˣ/Σ eˣ; of a single number, 1; of nothing, nothing."""
    D = x.builder
    if x.shape == ():
        return D.reshape(softmax(D.reshape(x, shape=(1,))), shape=())
    axis = axis_of(dim, len(x.shape))
    if x.shape[axis] == 0:
        return x
    powers = D.exp(_shifted(x, axis))
    return powers / spread(D.sum(powers, axes=(axis,)), x, (axis,))


def log_softmax(x: Ref, dim: int = -1) -> Ref:
    """x − ln Σ eˣ; of a single number, 0; of nothing, nothing."""
    D = x.builder
    if x.shape == ():
        return D.reshape(log_softmax(D.reshape(x, shape=(1,))), shape=())
    axis = axis_of(dim, len(x.shape))
    if x.shape[axis] == 0:
        return x
    shifted = _shifted(x, axis)
    return shifted - spread(D.logsumexp(shifted, axes=(axis,)), x, (axis,))


SOFTMAX = (
    Composition("softmax", "y = eˣ/Σ eˣ", softmax),
    Composition("log_softmax", "y = x − ln Σ eˣ", log_softmax),
)

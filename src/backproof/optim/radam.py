"""RAdam: Adam whose step is rectified while v rests on few gradients."""

from __future__ import annotations

from collections.abc import Mapping

from backproof.ir.build import Ref
from backproof.ir.compose.choose import where
from backproof.optim.arithmetic import (
    BETA1,
    BETA2,
    DECAY,
    DECOUPLED,
    EPS,
    LR,
    MAXIMIZE,
    SCALARS,
    TENSORS,
    blend,
    directed,
    root_of_squares,
    taken,
)
from backproof.optim.record import Field, Numbers, Optimizer, Step
from backproof.optim.scalar import Number, number, root

MEAN, SQUARE = "exp_avg", "exp_avg_sq"
TRACTABLE = 5.0


def rectified(adaptive: Ref, length: Number, longest: float) -> Ref:
    """√((ρ − 4)(ρ − 2)ρ∞/((ρ∞ − 4)(ρ∞ − 2)ρ)) of the adaptive size while ρ > 5, and 1 before."""
    square = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length)
    if isinstance(length, Ref):
        enough = length > TRACTABLE
        return where(enough, root(where(enough, square, 1.0)) * adaptive, 1.0)
    return root(square) * adaptive if length > TRACTABLE else adaptive.constant(1.0)


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """p ← p − η·m̂·r·√(1 − β₂ᵗ)/(√v + ε) while ρ = ρ∞ − 2t·β₂ᵗ/(1 − β₂ᵗ) > 5, else p − η·m̂."""
    coupled = not hyper["decoupled"]
    g = directed(gradient, parameter, hyper, decays=coupled)
    mean = blend(state[MEAN], g, hyper["beta1"])
    square = blend(state[SQUARE], g * g, hyper["beta2"])
    beta1, beta2 = (number(hyper[each], parameter, tensor=hyper["tensors"]) for each in ("beta1", "beta2"))
    faded = beta2 ** float(t)
    longest = 2.0 / (1.0 - hyper["beta2"]) - 1.0
    length = longest - 2.0 * t * faded / (1.0 - faded)
    spread = root_of_squares(square) + hyper["eps"]
    size = rectified(root(1.0 - faded) / spread, length, longest)
    move = -hyper["lr"] * (mean / (1.0 - beta1 ** float(t)) * size)
    decay = 0.0 if coupled else hyper["lr"] * hyper["weight_decay"]
    return taken(parameter, move, {MEAN: mean, SQUARE: square}, decay)


RADAM = Optimizer(
    "radam",
    "m, v as in Adam; p ← p − η·m̂·r·√(1 − β₂ᵗ)/(√v + ε) while ρ = ρ∞ − 2t·β₂ᵗ/(1 − β₂ᵗ) > 5, else p − η·m̂",
    "Liu et al. 2020, On the variance of the adaptive learning rate and beyond, algorithm 2",
    step,
    (LR, BETA1, BETA2, EPS, DECAY, DECOUPLED, MAXIMIZE, TENSORS, SCALARS),
    (Field(MEAN, "m, the running mean of gradients"), Field(SQUARE, "v, the running mean of squares")),
    ("ε outside the root and before the bias correction", "decay is L2, or decoupled and before the move"),
)

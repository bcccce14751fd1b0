"""NAdam: Adam that looks ahead, as Nesterov's momentum does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
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
    moved,
    root_of_squares,
)
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step, single
from backproof.optim.scalar import Number, number, root, stored

MEAN, SQUARE, PRODUCT = "exp_avg", "exp_avg_sq", "mu_product"
_FADING = 0.96


def momentum_at(t: int, beside: Ref, hyper: Numbers) -> Number:
    """μₜ = β₁·(1 − ½·0.96^(t·ψ))."""
    power = number(_FADING, beside, tensor=hyper["tensors"]) ** (t * hyper["momentum_decay"])
    return hyper["beta1"] * (1.0 - 0.5 * power)


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """p ← p − η·((1 − μₜ)/(1 − Πμ)·g + μₜ₊₁/(1 − μₜ₊₁·Πμ)·m)/(√v̂ + ε)."""
    coupled = not hyper["decoupled"]
    g = directed(gradient, parameter, hyper, decays=coupled)
    mean = blend(state[MEAN], g, hyper["beta1"])
    square = blend(state[SQUARE], g * g, hyper["beta2"])
    now, ahead = momentum_at(t, parameter, hyper), momentum_at(t + 1, parameter, hyper)
    fmt, part = hyper["scalars"], now if isinstance(now, Ref) else parameter.constant(now, ())
    product = stored(state[PRODUCT] * stored(part, fmt), fmt)
    correction = 1.0 - number(hyper["beta2"], parameter, tensor=hyper["tensors"]) ** float(t)
    spread = root_of_squares(square) / root(correction) + hyper["eps"]
    own = -(hyper["lr"] * (1.0 - now) / (1.0 - product))
    running = -(hyper["lr"] * ahead / (1.0 - product * ahead))
    moves = (own * g) / spread, (running * mean) / spread
    decay = 0.0 if coupled else hyper["lr"] * hyper["weight_decay"]
    update, after = moved(parameter, *moves, decay=decay)
    return Step(update, after, {MEAN: mean, SQUARE: square, PRODUCT: product})


NADAM = Optimizer(
    "nadam",
    "m, v as in Adam; p ← p − η·((1 − μₜ)/(1 − Πμ)·g + μₜ₊₁/(1 − μₜ₊₁·Πμ)·m)/(√v̂ + ε), μₜ = β₁·(1 − ½·0.96^(t·ψ))",
    "Dozat 2016, Incorporating Nesterov momentum into Adam",
    step,
    (
        *(replace(LR, default=2e-3), BETA1, BETA2, EPS, DECAY, DECOUPLED),
        Hyper("momentum_decay", 4e-3, "ψ, how fast the momentum warms up", 0.0),
        *(MAXIMIZE, TENSORS, SCALARS),
    ),
    (
        Field(MEAN, "m, the running mean of gradients"),
        Field(SQUARE, "v, the running mean of squares"),
        Field(PRODUCT, "Πμ, the product of the momenta so far", single, 1.0),
    ),
    ("ε outside the root and after the bias correction", "decay is L2, or decoupled and before the move"),
)

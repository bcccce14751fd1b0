"""Lion: the sign of an interpolated momentum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.optim.arithmetic import BETA1, BETA2, DECAY, LR, MAXIMIZE, blend, taken
from backproof.optim.record import Field, Numbers, Optimizer, Step

MEAN = "exp_avg"


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """p ← p·(1 − η·λ) − η·sign(β₁·m + (1 − β₁)·g); m ← β₂·m + (1 − β₂)·g."""
    g = -gradient if hyper["maximize"] else gradient
    direction = parameter.builder.sign(blend(state[MEAN], g, hyper["beta1"]))
    mean = blend(state[MEAN], g, hyper["beta2"])
    return taken(parameter, -hyper["lr"] * direction, {MEAN: mean}, hyper["lr"] * hyper["weight_decay"])


LION = Optimizer(
    "lion",
    "p ← p·(1 − η·λ) − η·sign(β₁·m + (1 − β₁)·g); m ← β₂·m + (1 − β₂)·g",
    "Chen et al. 2023, Symbolic discovery of optimization algorithms, algorithm 2",
    step,
    (replace(LR, default=1e-4), BETA1, replace(BETA2, default=0.99), DECAY, MAXIMIZE),
    (Field(MEAN, "m, the running mean of gradients"),),
    (
        "decay is decoupled, times the learning rate",
        "where the interpolated momentum is 0 but for rounding, either sign is honest",
    ),
)

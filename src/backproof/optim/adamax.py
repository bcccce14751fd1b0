"""Adamax: Adam with the largest gradient, fading, in place of the root of squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.optim.arithmetic import BETA1, BETA2, DECAY, EPS, LR, MAXIMIZE, SCALARS, TENSORS, blend, directed, taken
from backproof.optim.record import Field, Numbers, Optimizer, Step
from backproof.optim.scalar import number

MEAN, LARGEST = "exp_avg", "exp_inf"


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """m ← β₁·m + (1 − β₁)·g; u ← max(β₂·u, |g| + ε); p ← p − η/(1 − β₁ᵗ)·m/u."""
    g, D = directed(gradient, parameter, hyper), parameter.builder
    mean = blend(state[MEAN], g, hyper["beta1"])
    largest = D.maximum(hyper["beta2"] * state[LARGEST], D.abs(g) + hyper["eps"])
    correction = 1.0 - number(hyper["beta1"], parameter, tensor=hyper["tensors"]) ** float(t)
    return taken(parameter, (-(hyper["lr"] / correction) * mean) / largest, {MEAN: mean, LARGEST: largest})


ADAMAX = Optimizer(
    "adamax",
    "m ← β₁·m + (1 − β₁)·g; u ← max(β₂·u, |g| + ε); p ← p − η/(1 − β₁ᵗ)·m/u, with g + λ·p for g",
    "Kingma & Ba 2015, Adam: a method for stochastic optimization, algorithm 2",
    step,
    (replace(LR, default=2e-3), BETA1, BETA2, EPS, DECAY, MAXIMIZE, TENSORS, SCALARS),
    (Field(MEAN, "m, the running mean of gradients"), Field(LARGEST, "u, the largest gradient, fading")),
    ("ε is added to |g|, inside the maximum", "decay is L2: part of the gradient"),
)

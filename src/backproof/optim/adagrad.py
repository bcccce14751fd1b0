"""Adagrad: each element by the root of the sum of its squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.optim.arithmetic import DECAY, EPS, LR, MAXIMIZE, directed, root_of_squares, taken
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step

SUM = "sum"


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """s ← s + g²; p ← p − η/(1 + (t − 1)·δ)·g/(√s + ε)."""
    g = directed(gradient, parameter, hyper)
    total = state[SUM] + g * g
    rate = hyper["lr"] / (1.0 + (t - 1) * hyper["lr_decay"])
    return taken(parameter, (-rate * g) / (root_of_squares(total) + hyper["eps"]), {SUM: total})


ADAGRAD = Optimizer(
    "adagrad",
    "s ← s + g²; p ← p − η/(1 + (t − 1)·δ)·g/(√s + ε), with g + λ·p for g",
    "Duchi et al. 2011, Adaptive subgradient methods for online learning and stochastic optimization",
    step,
    (
        replace(LR, default=1e-2),
        Hyper("lr_decay", 0.0, "δ, how fast the learning rate falls", 0.0),
        replace(EPS, default=1e-10),
        DECAY,
        MAXIMIZE,
        Hyper("initial_accumulator_value", 0.0, "what the sum begins with", 0.0),
    ),
    (Field(SUM, "s, the sum of squares", start="initial_accumulator_value"),),
    ("ε outside the root", "decay is L2: part of the gradient"),
)

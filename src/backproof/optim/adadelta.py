"""Adadelta: steps in the units of earlier steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.optim.arithmetic import DECAY, EPS, LR, MAXIMIZE, blend, directed, taken
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step

SQUARE, DELTA = "square_avg", "acc_delta"


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """v ← ρ·v + (1 − ρ)·g²; δ = √(u + ε)/√(v + ε)·g; u ← ρ·u + (1 − ρ)·δ²; p ← p − η·δ."""
    g, D = directed(gradient, parameter, hyper), parameter.builder
    square = blend(state[SQUARE], g * g, hyper["rho"])
    delta = D.sqrt(state[DELTA] + hyper["eps"]) / D.sqrt(square + hyper["eps"]) * g
    return taken(
        parameter, -hyper["lr"] * delta, {SQUARE: square, DELTA: blend(state[DELTA], delta * delta, hyper["rho"])}
    )


ADADELTA = Optimizer(
    "adadelta",
    "v ← ρ·v + (1 − ρ)·g²; δ = √(u + ε)/√(v + ε)·g; u ← ρ·u + (1 − ρ)·δ²; p ← p − η·δ, with g + λ·p for g",
    "Zeiler 2012, ADADELTA: an adaptive learning rate method",
    step,
    (
        replace(LR, default=1.0),
        Hyper("rho", 0.9, "ρ, how much of both running means is kept", 0.0, 1.0),
        replace(EPS, default=1e-6),
        DECAY,
        MAXIMIZE,
    ),
    (Field(SQUARE, "v, the running mean of squared gradients"), Field(DELTA, "u, the running mean of squared steps")),
    ("ε inside both roots", "a learning rate, which the paper does not have", "decay is L2: part of the gradient"),
)

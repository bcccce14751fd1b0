"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.optim.arithmetic import DECAY, LR, MAXIMIZE, SCALARS, TENSORS, directed
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step, single
from backproof.optim.scalar import number, stored

RATE, WEIGHT, AVERAGE = "eta", "mu", "ax"


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """p ← p·(1 − Λ·ηₜ) − ηₜ·g; a ← a + μₜ·(p − a); ηₜ₊₁ = η/(1 + Λ·η·t)^α, μₜ₊₁ = 1/max(1, t − t₀)."""
    g, rate = directed(gradient, parameter, hyper), state[RATE]
    fade = hyper["lambd"] * rate
    after = parameter * (1.0 - fade) - rate * g
    update = -(fade * parameter + rate * g)
    average = state[AVERAGE] + state[WEIGHT] * (after - state[AVERAGE])
    base = 1.0 + hyper["lambd"] * hyper["lr"] * number(t, rate, tensor=hyper["tensors"])
    next_rate = hyper["lr"] / base ** hyper["alpha"]
    next_weight = rate.constant(1.0 / max(1.0, t - hyper["t0"]), ())
    if not isinstance(next_rate, Ref):
        next_rate = rate.constant(next_rate, ())
    kept = {name: stored(each, hyper["scalars"]) for name, each in ((RATE, next_rate), (WEIGHT, next_weight))}
    return Step(update, after, {AVERAGE: average, **kept})


ASGD = Optimizer(
    "asgd",
    "p ← p·(1 − Λ·ηₜ) − ηₜ·g; a ← a + μₜ·(p − a); ηₜ₊₁ = η/(1 + Λ·η·t)^α, μₜ₊₁ = 1/max(1, t − t₀), with g + λ·p for g",
    "Polyak & Juditsky 1992, Acceleration of stochastic approximation by averaging; Bottou 2010 for the rate",
    step,
    (
        replace(LR, default=1e-2),
        Hyper("lambd", 1e-4, "Λ, the decay of the parameter", 0.0),
        Hyper("alpha", 0.75, "α, the power with which the rate falls"),
        Hyper("t0", 1e6, "t₀, the step from which the average begins"),
        DECAY,
        MAXIMIZE,
        TENSORS,
        SCALARS,
    ),
    (
        Field(RATE, "ηₜ, the rate of this step", single, "lr"),
        Field(WEIGHT, "μₜ, the weight of this step in the average", single, 1.0),
        Field(AVERAGE, "a, the average"),
    ),
    ("a step uses the rate that the step before it computed", "decay λ is L2, Λ is decoupled and before the move"),
)

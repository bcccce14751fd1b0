"""Rprop: each element has a step size of its own, and only the gradient's sign counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.ir.compose.choose import clamp, where
from backproof.optim.arithmetic import LR, MAXIMIZE, taken
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step

LAST, SIZE = "prev", "step_size"


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """s ← clamp(s·f), f = η₊ where g·g₋₁ > 0, η₋ and g ← 0 where it is < 0, else 1; p ← p − s·sign g."""
    g, D = (-gradient if hyper["maximize"] else gradient), parameter.builder
    agreement = g * state[LAST]
    # What is exactly 0 decides nothing; it is only where a product of two numbers underflows that a sign is in doubt.
    nothing = g.constant(0.0)
    silent = D.logical_or(D.eq(g, nothing), D.eq(state[LAST], nothing))
    turned = agreement < 0.0
    change = where(turned, hyper["eta_minus"], where(agreement > 0.0, hyper["eta_plus"], agreement.constant(1.0)))
    size = clamp(state[SIZE] * where(silent, 1.0, change), hyper["step_min"], hyper["step_max"])
    kept = where(silent, g, where(turned, 0.0, g))
    return taken(parameter, -(D.sign(kept) * size), {LAST: kept, SIZE: size})


RPROP = Optimizer(
    "rprop",
    "s ← clamp(s·f), f = η₊ where g·g₋₁ > 0, η₋ and g ← 0 where it is < 0, else 1; p ← p − s·sign g",
    "Riedmiller & Braun 1993, A direct adaptive method for faster backpropagation learning: the RPROP algorithm",
    step,
    (
        replace(LR, default=1e-2, says="the first step size of every element"),
        Hyper("eta_minus", 0.5, "η₋, the factor where the sign turned", 0.0, 1.0),
        Hyper("eta_plus", 1.2, "η₊, the factor where it did not", 1.0),
        Hyper("step_min", 1e-6, "the smallest step size", 0.0),
        Hyper("step_max", 50.0, "the largest step size", 0.0),
        MAXIMIZE,
    ),
    (Field(LAST, "g₋₁, the last gradient, 0 where its sign had turned"), Field(SIZE, "s, the step sizes", start="lr")),
    (
        "iRprop−: where the sign turned, the element rests for a step",
        "the schedule's learning rate is not used after the first step",
    ),
)

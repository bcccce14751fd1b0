"""SparseAdam: Adam on the rows that a sparse gradient has."""

from __future__ import annotations

from collections.abc import Mapping

from backproof.ir.build import Ref
from backproof.optim.adam import MEAN, SQUARE
from backproof.optim.arithmetic import BETA1, BETA2, EPS, LR, MAXIMIZE, blend, root_of_squares, taken
from backproof.optim.record import Field, Numbers, Optimizer, Step


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """p ← p − η·√(1 − β₂ᵗ)/(1 − β₁ᵗ)·m/(√v + ε), on the rows of the gradient and of the same rows of p, m and v."""
    g = -gradient if hyper["maximize"] else gradient
    mean = blend(state[MEAN], g, hyper["beta1"])
    square = blend(state[SQUARE], g * g, hyper["beta2"])
    rate = hyper["lr"] * (1.0 - hyper["beta2"] ** t) ** 0.5 / (1.0 - hyper["beta1"] ** t)
    spread = root_of_squares(square) + hyper["eps"]
    return taken(parameter, (-rate * mean) / spread, {MEAN: mean, SQUARE: square})


SPARSE_ADAM = Optimizer(
    "sparse_adam",
    "m, v as in Adam; p ← p − η·√(1 − β₂ᵗ)/(1 − β₁ᵗ)·m/(√v + ε), on the rows that the gradient has",
    "Kingma & Ba 2015, Adam: a method for stochastic optimization, with ε̂ of section 2",
    step,
    (LR, BETA1, BETA2, EPS, MAXIMIZE),
    (Field(MEAN, "m, the running mean of gradients"), Field(SQUARE, "v, the running mean of squares")),
    (
        "ε outside the root and before the bias correction",
        "rows that the gradient does not have keep parameter and state: give the rows that it has",
    ),
)

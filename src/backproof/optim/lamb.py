"""LAMB: Adam's direction, scaled for each parameter by its own size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.ir.compose.choose import clamp, where
from backproof.optim.adam import MEAN, SQUARE
from backproof.optim.arithmetic import BETA1, BETA2, DECAY, EPS, LR, MAXIMIZE, blend, norm, root_of_squares, taken
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step, flag


def direction(g: Ref, parameter: Ref, old: Mapping[str, Ref], hyper: Numbers, t: int) -> tuple[Ref, dict[str, Ref]]:
    """m̂/(√v̂ + ε) + λ·p, and the new m and v."""
    mean = blend(old[MEAN], g, hyper["beta1"])
    square = blend(old[SQUARE], g * g, hyper["beta2"])
    first, second = (1.0 - hyper[beta] ** t if hyper["corrected"] else 1.0 for beta in ("beta1", "beta2"))
    spread = root_of_squares(square) / second**0.5 + hyper["eps"]
    found = mean / first / spread
    return (found + hyper["weight_decay"] * parameter if hyper["weight_decay"] else found), {MEAN: mean, SQUARE: square}


def trust(parameter: Ref, r: Ref, largest: float | None) -> Ref:
    """‖p‖/‖r‖, and 1 where either is 0; ‖p‖ no more than the largest, where one is given."""
    size, length = norm(parameter), norm(r)
    size = size if largest is None else clamp(size, hi=largest)
    known = parameter.builder.logical_and(size > 0.0, length > 0.0)
    return where(known, size / where(known, length, 1.0), 1.0)


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """r = m̂/(√v̂ + ε) + λ·p; p ← p − η·‖p‖/‖r‖·r."""
    g = -gradient if hyper["maximize"] else gradient
    r, kept = direction(g, parameter, state, hyper, t)
    return taken(parameter, -hyper["lr"] * trust(parameter, r, hyper["largest_norm"]) * r, kept)


LAMB = Optimizer(
    "lamb",
    "m, v as in Adam; r = m̂/(√v̂ + ε) + λ·p; p ← p − η·‖p‖/‖r‖·r",
    "You et al. 2020, Large batch optimization for deep learning: training BERT in 76 minutes, algorithm 2",
    step,
    (
        *(LR, BETA1, BETA2, replace(EPS, default=1e-6), DECAY, MAXIMIZE),
        flag("corrected", "the bias of both means is corrected", default=True),
        Hyper("largest_norm", None, "the most that ‖p‖ counts for", 0.0, optional=True),
    ),
    (Field(MEAN, "m, the running mean of gradients"), Field(SQUARE, "v, the running mean of squares")),
    (
        "ε outside the root and after the bias correction",
        "decay is part of the direction, and so of the ratio of norms",
    ),
    elementwise=False,
)

"""Adam and AdamW, with AMSGrad, and the variants of both that are in use."""

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
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step, flag
from backproof.optim.scalar import Number, number, root

MEAN, SQUARE, LARGEST = "exp_avg", "exp_avg_sq", "max_exp_avg_sq"


def corrections(beside: Ref, hyper: Numbers, t: int) -> tuple[Number, Number]:
    """1 − β₁ᵗ and 1 − β₂ᵗ, to the power that the variant has; 1 without correction."""
    found = []
    for name in ("beta1", "beta2"):
        beta = number(hyper[name], beside, tensor=hyper["tensors"])
        one: Number = 1.0 - beta ** float(t)
        found.append(one ** hyper["corrected"] if hyper["corrected"] != 1 else one)
    return found[0], found[1]


def denominator(square: Ref, correction: Number, hyper: Numbers) -> Ref:
    """√v̂ + ε, with ε where the variant has it."""
    if hyper["eps_at"] == "inside":
        return root_of_squares(square / correction + hyper["eps"])
    if hyper["eps_at"] == "before":
        return (root_of_squares(square) + hyper["eps"]) / root(correction)
    return root_of_squares(square) / root(correction) + hyper["eps"]


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """m ← β₁·m + (1 − β₁)·g; v ← β₂·v + (1 − β₂)·g²; p ← p − η·m̂/(√v̂ + ε), with m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ)."""
    coupled = not hyper["decoupled"]
    g = directed(gradient, parameter, hyper, decays=coupled)
    mean = blend(state[MEAN], g, hyper["beta1"])
    square = blend(state[SQUARE], g * g, hyper["beta2"])
    kept = {MEAN: mean, SQUARE: square}
    if hyper["amsgrad"]:
        square = kept[LARGEST] = parameter.builder.maximum(state[LARGEST], square)
    first, second = corrections(parameter, hyper, t)
    move = (-(hyper["lr"] / first) * mean) / denominator(square, second, hyper)
    decay = 0.0 if coupled else hyper["lr"] * hyper["weight_decay"]
    if decay and hyper["decay_at"] == "after":
        move = (1.0 - decay) * move
    update, after = moved(parameter, move, decay=decay)
    return Step(update, after, kept)


ADAM = Optimizer(
    "adam",
    "m ← β₁·m + (1 − β₁)·g; v ← β₂·v + (1 − β₂)·g²; p ← p − η·m̂/(√v̂ + ε), with g + λ·p for g",
    "Kingma & Ba 2015, Adam: a method for stochastic optimization, algorithm 1; Reddi et al. 2018 for AMSGrad",
    step,
    (
        *(LR, BETA1, BETA2, EPS, DECAY, DECOUPLED),
        flag("amsgrad", "v̂ from the largest v so far"),
        *(MAXIMIZE, TENSORS, SCALARS),
        Hyper(
            "eps_at",
            "after",
            "where ε stands: after √v̂, inside it, or before the correction",
            choices=("after", "inside", "before"),
        ),
        Hyper(
            "decay_at",
            "before",
            "decoupled decay acts before the move, or after it on what it moved too",
            choices=("before", "after"),
        ),
        Hyper("corrected", 1, "how often the bias is corrected", choices=(0, 1, 2)),
    ),
    (
        Field(MEAN, "m, the running mean of gradients"),
        Field(SQUARE, "v, the running mean of squares"),
        Field(LARGEST, "the largest v so far", kept=lambda hyper, shape: bool(hyper["amsgrad"])),
    ),
    (
        "ε outside the root and after the bias correction",
        "decay is L2: part of the gradient, and so of both means",
        "AMSGrad takes the largest v before its correction",
    ),
)
ADAMW = replace(
    ADAM,
    name="adamw",
    says="m, v as in Adam; p ← p·(1 − η·λ) − η·m̂/(√v̂ + ε)",
    paper="Loshchilov & Hutter 2019, Decoupled weight decay regularization, algorithm 2",
    hyper=tuple(
        replace(each, default={"decoupled": True, "weight_decay": 0.01}.get(each.name, each.default))
        for each in ADAM.hyper
    ),
    notes=(
        "ε outside the root and after the bias correction",
        "decay is decoupled, times the learning rate, and acts before the move",
        "AMSGrad takes the largest v before its correction",
    ),
)

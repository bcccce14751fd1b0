"""RMSprop: each element by the root of the running mean of its squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.ir.compose.choose import where
from backproof.optim.arithmetic import DECAY, EPS, LR, MAXIMIZE, blend, directed, root_of_squares, taken
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step, flag

SQUARE, MEAN, BUFFER = "square_avg", "grad_avg", "momentum_buffer"


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """v ← α·v + (1 − α)·g²; d = √v + ε, centered √(v − ḡ²) + ε; b ← μ·b + g/d; p ← p − η·b."""
    g = directed(gradient, parameter, hyper)
    square = blend(state[SQUARE], g * g, hyper["alpha"])
    kept = {SQUARE: square}
    if hyper["centered"]:
        kept[MEAN] = mean = blend(state[MEAN], g, hyper["alpha"])
        spread = deviation(square - mean * mean, (g, state[SQUARE], state[MEAN]))
    else:
        spread = root_of_squares(square)
    if not hyper["momentum"]:
        return taken(parameter, (-hyper["lr"] * g) / (spread + hyper["eps"]), kept)
    kept[BUFFER] = hyper["momentum"] * state[BUFFER] + g / (spread + hyper["eps"])
    return taken(parameter, -hyper["lr"] * kept[BUFFER], kept)


def deviation(variance: Ref, seen: tuple[Ref, Ref, Ref]) -> Ref:
    """√(v − ḡ²). Rounding may make it the root of a negative number, but where nothing has ever moved it is exactly 0."""
    D = variance.builder
    at_rest = [D.eq(each, each.constant(0.0)) for each in seen]
    silent = D.logical_and(D.logical_and(*at_rest[:2]), at_rest[2])
    return where(silent, 0.0, D.sqrt(where(silent, 1.0, variance)))


RMSPROP = Optimizer(
    "rmsprop",
    "v ← α·v + (1 − α)·g²; d = √v + ε, centered √(v − ḡ²) + ε; b ← μ·b + g/d; p ← p − η·b, with g + λ·p for g",
    "Tieleman & Hinton 2012, Lecture 6.5; Graves 2013, Generating sequences with recurrent neural networks, for centered",
    step,
    (
        replace(LR, default=1e-2),
        Hyper("alpha", 0.99, "α, how much of the running means is kept", 0.0, 1.0),
        EPS,
        DECAY,
        Hyper("momentum", 0.0, "μ, how much of the buffer is kept", 0.0),
        flag("centered", "by the variance: the running mean of gradients, squared, is taken off"),
        MAXIMIZE,
    ),
    (
        Field(SQUARE, "v, the running mean of squares"),
        Field(BUFFER, "b, the momentum", kept=lambda hyper, shape: hyper["momentum"] > 0),
        Field(MEAN, "ḡ, the running mean of gradients", kept=lambda hyper, shape: bool(hyper["centered"])),
    ),
    ("ε outside the root", "the learning rate multiplies the buffer", "decay is L2: part of the gradient"),
)

"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Mapping

from backproof.ir.build import Ref
from backproof.optim.arithmetic import DECAY, LR, MAXIMIZE, directed, moved, room, taken
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step, flag

BUFFER, VELOCITY = "momentum_buffer", "velocity"


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """b ← μ·b + (1 − τ)·g, with b = g on the first step; p ← p − η·b, or with Nesterov p − η·(g + μ·b).

    With η inside: b ← μ·b − (1 − τ)·η·g; p ← p + b, or with Nesterov p − η·g + μ·b.
    """
    g, momentum = directed(gradient, parameter, hyper), hyper["momentum"]
    if not momentum:
        return taken(parameter, -hyper["lr"] * g, {})
    if hyper["rate_at"] == "inside":
        old, pull = state.get(VELOCITY), -hyper["lr"] * g
        buffer = pull if old is None else momentum * old + (1.0 - hyper["dampening"]) * pull
        moves = (momentum * buffer, pull) if hyper["nesterov"] else (buffer,)  # in one move, or in two, as on PyTorch
        return Step(*moved(parameter, *moves), {VELOCITY: buffer})
    old = state.get(BUFFER)
    buffer = g if old is None else momentum * old + (1.0 - hyper["dampening"]) * g
    direction = g + momentum * buffer if hyper["nesterov"] else buffer
    return taken(parameter, -hyper["lr"] * room(direction), {BUFFER: buffer})


def _keeps(hyper: Numbers, place: str) -> bool:
    return bool(hyper["momentum"]) and hyper["rate_at"] == place


SGD = Optimizer(
    "sgd",
    "b ← μ·b + (1 − τ)·(g + λ·p); p ← p − η·b, or with Nesterov p − η·(g + μ·b)",
    "Polyak 1964, Some methods of speeding up the convergence of iteration methods; Sutskever et al. 2013",
    step,
    (
        LR,
        Hyper("momentum", 0.0, "μ, how much of the buffer is kept", 0.0),
        Hyper("dampening", 0.0, "τ, how much of the gradient the buffer leaves out"),
        DECAY,
        flag("nesterov", "look ahead: g + μ·b in place of b"),
        MAXIMIZE,
        Hyper(
            "rate_at",
            "outside",
            "where η stands: it multiplies the buffer, or is inside of it, the buffer's sign turned (Keras)",
            choices=("outside", "inside"),
        ),
    ),
    (
        Field(BUFFER, "b, the momentum", start=None, kept=lambda hyper, shape: _keeps(hyper, "outside")),
        Field(VELOCITY, "b, with η inside", start=None, kept=lambda hyper, shape: _keeps(hyper, "inside")),
    ),
    (
        "the first step takes b = g: dampening is skipped there",
        "the learning rate multiplies the buffer, it is not part of it",
        "decay is L2: part of the gradient, and so of the momentum",
    ),
)

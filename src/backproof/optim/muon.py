"""Muon: the momentum of a matrix, made orthogonal by a few Newton–Schulz steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.ir.compose.choose import where
from backproof.optim.arithmetic import DECAY, LR, MAXIMIZE, blend, norm, taken
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step, flag
from backproof.optim.scalar import stored

BUFFER = "momentum_buffer"


def orthogonal(x: Ref, hyper: Numbers) -> Ref:
    """X/max(‖X‖, ε), and then X ← a·X + (b·XXᵀ + c·(XXᵀ)²)·X a few times, stored in a format of its own."""
    D, fmt = x.builder, hyper["ns_format"]
    a, b, c = hyper["ns_coefficients"]
    tall = x.shape[0] > x.shape[1]
    rounded = stored(x, fmt)
    length = stored(norm(rounded), fmt)
    found = stored(rounded / where(length > hyper["eps"], length, hyper["eps"]), fmt)
    found = D.transpose(found, axes=(1, 0)) if tall else found
    for _ in range(hyper["ns_steps"]):
        gram = stored(found @ D.transpose(found, axes=(1, 0)), fmt)
        turn = stored(b * gram + c * (gram @ gram), fmt)
        found = stored(a * found + turn @ found, fmt)
    return D.transpose(found, axes=(1, 0)) if tall else found


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """b ← μ·b + (1 − μ)·g; p ← p·(1 − η·λ) − η·s·NS((1 − μ)·g + μ·b), or NS(b) without Nesterov."""
    g, momentum = (-gradient if hyper["maximize"] else gradient), hyper["momentum"]
    buffer = blend(state[BUFFER], g, momentum)
    rows, columns = parameter.shape
    scales = {"original": max(1.0, rows / columns) ** 0.5, "match_rms_adamw": 0.2 * max(rows, columns) ** 0.5}
    direction = orthogonal(blend(buffer, g, momentum) if hyper["nesterov"] else buffer, hyper)
    move = -hyper["lr"] * scales[hyper["adjust_lr"]] * direction
    return taken(parameter, move, {BUFFER: buffer}, hyper["lr"] * hyper["weight_decay"])


MUON = Optimizer(
    "muon",
    "b ← μ·b + (1 − μ)·g; p ← p·(1 − η·λ) − η·s·NS((1 − μ)·g + μ·b), s = √max(1, rows/columns) or 0.2·√max(rows, columns)",
    "Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks; Liu et al. 2025, Muon is scalable for LLM training",
    step,
    (
        LR,
        replace(DECAY, default=0.1),
        Hyper("momentum", 0.95, "μ, how much of the buffer is kept", 0.0),
        flag("nesterov", "look ahead: (1 − μ)·g + μ·b in place of b", default=True),
        Hyper("ns_coefficients", (3.4445, -4.775, 2.0315), "a, b, c of the Newton–Schulz step"),
        Hyper("ns_steps", 5, "how many Newton–Schulz steps", 0, 99),
        Hyper("eps", 1e-7, "ε, the least that ‖X‖ counts for", 0.0),
        Hyper("adjust_lr", "original", "s, how the rate depends on the shape", choices=("original", "match_rms_adamw")),
        Hyper(
            "ns_format",
            "bfloat16",
            "the format that the Newton–Schulz steps are stored in; None: the computing format",
            choices=("bfloat16", "float16", "float32", "float64"),
            optional=True,
        ),
        MAXIMIZE,
    ),
    (Field(BUFFER, "b, the momentum"),),
    (
        "the momentum is a running mean, (1 − μ)·g is what it takes in",
        "the Newton–Schulz steps are stored in bfloat16 whatever the parameter's format is",
        "decay is decoupled, times the learning rate, and before the move",
    ),
    elementwise=False,
    rank=2,
)

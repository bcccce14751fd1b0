"""Adafactor: the running mean of squares kept as a row and a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.ir.build import Ref
from backproof.ir.compose.choose import where
from backproof.ir.compose.reduce import mean
from backproof.ir.types import Shape
from backproof.optim.arithmetic import DECAY, LR, MAXIMIZE, blend, moved, rms, room
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step

ROW, COLUMN, WHOLE = "row_var", "col_var", "variance"


def factored(hyper: Numbers, shape: Shape) -> bool:
    """Whether a parameter of this shape has rows and columns."""
    return len(shape) > 1


def unfactored(hyper: Numbers, shape: Shape) -> bool:
    """Whether it has none."""
    return len(shape) < 2


def at_least_one(x: Ref) -> Ref:
    """max(1, x), decided: where x is below 1, what it rounds does not matter."""
    return where(x > 1.0, x, 1.0)


def squares(g: Ref, dim: int) -> Ref:
    """The mean of squares along an axis. There is room for a norm that is squared: a root, twice its rounding, and a square."""
    found = mean(g * g, dim, keepdim=True)
    for _ in range(6):
        found = room(found)
    return found


def variance(g: Ref, state: Mapping[str, Ref], hyper: Numbers, keep: float) -> tuple[Ref, dict[str, Ref]]:
    """The estimate of v, and what is kept of it: row·column/mean row, or v itself where there are none."""
    if not factored(hyper, g.shape):
        whole = blend(state[WHOLE], g * g, keep)
        return whole, {WHOLE: whole}
    row = blend(state[ROW], squares(g, -1), keep)
    column = blend(state[COLUMN], squares(g, -2), keep)
    share = row.builder.maximum(mean(row, -2, keepdim=True), mean(row, -2, keepdim=True).constant(hyper["eps1"]))
    return row * column / share, {ROW: row, COLUMN: column}


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """u = g/√max(v, ε₁²); p ← p·(1 − η·λ) − max(ε₂, RMS p)·min(η, 1/√t)·u/max(1, RMS(u)/d)."""
    g = -gradient if hyper["maximize"] else gradient
    v, kept = variance(g, state, hyper, 1.0 - t ** hyper["beta2_decay"])
    u = parameter.builder.rsqrt(parameter.builder.maximum(v, v.constant(hyper["eps1"] ** 2))) * g
    clipped = at_least_one(rms(u) / hyper["d"])
    size = rms(parameter)
    scale = where(size > hyper["eps2"], size, hyper["eps2"]) * min(hyper["lr"], t**-0.5)
    update, after = moved(parameter, -(scale / clipped) * u, decay=hyper["lr"] * hyper["weight_decay"])
    return Step(update, after, kept)


def without_last(shape: Shape) -> Shape:
    """One number a row, the axis kept."""
    return (*shape[:-1], 1)


def without_rows(shape: Shape) -> Shape:
    """One number a column, the axis kept."""
    return (*shape[:-2], 1, shape[-1])


ADAFACTOR = Optimizer(
    "adafactor",
    "r, c ← means of g² by row and column, kept with 1 − t^κ; v = r·c/mean r; u = g/√max(v, ε₁²); "
    "p ← p·(1 − η·λ) − max(ε₂, RMS p)·min(η, 1/√t)·u/max(1, RMS(u)/d)",
    "Shazeer & Stern 2018, Adafactor: adaptive learning rates with sublinear memory cost, algorithms 4 and 5",
    step,
    (
        replace(LR, default=1e-2),
        Hyper("beta2_decay", -0.8, "κ: 1 − t^κ of the means is kept", high=0.0),
        Hyper("eps1", 2.0**-23, "ε₁, the least that a root of v counts for; by default the format's epsilon", 0.0),
        Hyper("eps2", 1e-3, "ε₂, the least that the parameter's size counts for", 0.0),
        Hyper("d", 1.0, "the largest root mean square of a step in units of its scale", 1.0),
        DECAY,
        MAXIMIZE,
    ),
    (
        Field(ROW, "r, by row", without_last, kept=factored),
        Field(COLUMN, "c, by column", without_rows, kept=factored),
        Field(WHOLE, "v, of a vector", kept=unfactored),
    ),
    (
        "ε₁ is squared and bounds v from below; it is not added to g²",
        "the learning rate is a ceiling of 1/√t, times the parameter's size",
        "decay is decoupled, by the learning rate itself",
    ),
    elementwise=False,
)

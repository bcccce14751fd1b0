"""Adafactor as transformers has it: ε added to the squares, steps relative to the parameter, an optional momentum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backproof.errors import UsageError
from backproof.ir.build import Ref
from backproof.ir.compose.choose import where
from backproof.ir.compose.reduce import mean
from backproof.ir.types import Shape
from backproof.optim.adafactor import at_least_one, factored, unfactored
from backproof.optim.arithmetic import DECAY, LR, blend, moved, rms
from backproof.optim.record import Field, Hyper, Numbers, Optimizer, Step, flag, single

ROW, COLUMN, WHOLE, MOMENTUM, SIZE = "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq", "exp_avg", "RMS"


def inverse_root(squares: Ref, state: Mapping[str, Ref], keep: float) -> tuple[Ref, dict[str, Ref]]:
    """1/√v, and what is kept of v."""
    D = squares.builder
    if len(squares.shape) < 2:
        whole = blend(state[WHOLE], squares, keep)
        return D.rsqrt(whole), {WHOLE: whole}
    row, column = blend(state[ROW], mean(squares, -1), keep), blend(state[COLUMN], mean(squares, -2), keep)
    shares = D.rsqrt(row / mean(row, -1, keepdim=True))
    rows, columns = D.reshape(shares, shape=(*row.shape, 1)), D.rsqrt(column)
    lines = D.reshape(columns, shape=(*column.shape[:-1], 1, column.shape[-1]))
    return rows * lines, {ROW: row, COLUMN: column}


def relative_rate(hyper: Numbers, t: int) -> float:
    """The learning rate before the parameter's size: given, or min(10⁻², 1/√t), or min(10⁻⁶·t, 1/√t) to warm up."""
    if not hyper["relative_step"]:
        if hyper["lr"] is None:
            raise UsageError("adafactor_relative: with relative_step off there must be a learning rate")
        return float(hyper["lr"])
    return min(1e-6 * t if hyper["warmup_init"] else 1e-2, t**-0.5)


def step(gradient: Ref, parameter: Ref, state: Mapping[str, Ref], hyper: Numbers, t: int) -> Step:
    """u = g/√v, u ← u/max(1, RMS(u)/c)·η; m ← β₁·m + (1 − β₁)·u; p ← p − λ·η·p − m."""
    found, kept = inverse_root(gradient * gradient + hyper["eps1"], state, 1.0 - t ** hyper["decay_rate"])
    u, size, rate = found * gradient, rms(parameter), parameter.constant(relative_rate(hyper, t), ())
    if hyper["scale_parameter"]:
        rate = where(size > hyper["eps2"], size, hyper["eps2"]) * rate
    move = u / at_least_one(rms(u) / hyper["clip_threshold"]) * rate
    if hyper["beta1"] is not None:
        kept[MOMENTUM] = move = blend(state[MOMENTUM], move, hyper["beta1"])
    decay = (-hyper["weight_decay"] * rate * parameter,) if hyper["weight_decay"] else ()
    update, after = moved(parameter, *decay, -move)
    return Step(update, after, {**kept, SIZE: size})


def rows(shape: Shape) -> Shape:
    """One number a row."""
    return shape[:-1]


def columns(shape: Shape) -> Shape:
    """One number a column."""
    return (*shape[:-2], shape[-1])


ADAFACTOR_RELATIVE = Optimizer(
    "adafactor_relative",
    "r, c ← means of g² + ε₁ by row and column, kept with 1 − t^κ; u = g/√(r·c/mean r); "
    "p ← p − λ·η·p − η·u/max(1, RMS(u)/c), η = max(ε₂, RMS p)·min(10⁻², 1/√t) or as given",
    "Shazeer & Stern 2018, Adafactor: adaptive learning rates with sublinear memory cost, algorithms 4 and 5",
    step,
    (
        replace(LR, default=None, optional=True),
        Hyper("eps1", 1e-30, "ε₁, added to the squares", 0.0),
        Hyper("eps2", 1e-3, "ε₂, the least that the parameter's size counts for", 0.0),
        Hyper("clip_threshold", 1.0, "c, the largest root mean square of a step in units of its scale", 0.0),
        Hyper("decay_rate", -0.8, "κ: 1 − t^κ of the means is kept", high=0.0),
        Hyper("beta1", None, "β₁, how much of the momentum is kept; None: there is none", 0.0, 1.0, optional=True),
        DECAY,
        flag("scale_parameter", "steps are relative to the parameter's size", default=True),
        flag("relative_step", "the learning rate follows from t", default=True),
        flag("warmup_init", "and rises from 10⁻⁶"),
    ),
    (
        Field(ROW, "r, by row", rows, kept=factored),
        Field(COLUMN, "c, by column", columns, kept=factored),
        Field(WHOLE, "v, of a vector", kept=unfactored),
        Field(MOMENTUM, "m, the momentum of steps", kept=lambda hyper, shape: hyper["beta1"] is not None),
        Field(SIZE, "RMS p before this step; nothing is computed from the old one", single),
    ),
    (
        "ε₁ is added to g²; nothing bounds v from below",
        "decay is decoupled, by the learning rate with the parameter's size in it, and before the move",
        "parameters of 16 bits are computed in float32, and rounded once",
    ),
    elementwise=False,
)

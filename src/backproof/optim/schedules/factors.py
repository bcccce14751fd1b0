"""Schedules that are a factor of the first rate: LambdaLR with the functions of transformers' `get_scheduler`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backproof.errors import UsageError
from backproof.optim.schedules.record import Config, Moment, Rate, Schedule, base, of


def _warming(c: Config, k: int) -> float | None:
    """The factor while the rate warms up."""
    steps = of(c, "num_warmup_steps")
    return k / max(1, steps) if k < steps else None


def _progress(c: Config, k: int) -> float:
    """How much of what follows the warm-up is done."""
    warm = of(c, "num_warmup_steps")
    return (k - warm) / max(1, of(c, "num_training_steps") - warm)


def _steady(c: Config, k: int) -> float:
    return 1.0


def _warm_steady(c: Config, k: int) -> float:
    return found if (found := _warming(c, k)) is not None else 1.0


def _linear(c: Config, k: int) -> float:
    if (found := _warming(c, k)) is not None:
        return found
    total = of(c, "num_training_steps")
    return max(0.0, (total - k) / max(1, total - of(c, "num_warmup_steps")))


def _cosine(c: Config, k: int) -> float:
    if (found := _warming(c, k)) is not None:
        return found
    least = c.get("min_lr_rate", 0.0)
    wave = 0.5 * (1.0 + math.cos(math.pi * of(c, "num_cycles") * 2.0 * _progress(c, k)))
    return max(0.0, wave * (1 - least) + least)


def _restarts(c: Config, k: int) -> float:
    if (found := _warming(c, k)) is not None:
        return found
    done = _progress(c, k)
    return 0.0 if done >= 1 else max(0.0, 0.5 * (1.0 + math.cos(math.pi * (of(c, "num_cycles") * done % 1.0))))


def _polynomial(c: Config, k: int) -> float:
    if (found := _warming(c, k)) is not None:
        return found
    first, last = of(c, "lr_init"), of(c, "lr_end")
    if k > of(c, "num_training_steps"):
        return float(last / first)
    warm = of(c, "num_warmup_steps")
    left = 1 - (k - warm) / (of(c, "num_training_steps") - warm)
    return float(((first - last) * left ** of(c, "power") + last) / first)


def _inverse_root(c: Config, k: int) -> float:
    if (found := _warming(c, k)) is not None:
        return found
    scale = of(c, "timescale")
    return 1.0 / math.sqrt((k + scale - of(c, "num_warmup_steps")) / scale)


def _cosine_from_first(c: Config, k: int) -> float:
    """The cosine whose warm-up begins with a rate above 0, and which counts its steps from 1."""
    warm, total, least = of(c, "num_warmup_steps"), of(c, "num_training_steps"), of(c, "min_lr_rate")
    start = c.get("warmup_lr_rate")
    if k < warm:
        return (k + 1.0) / max(1.0, warm) if start is None else start + (1.0 - start) * k / max(1, warm - 1)
    wave = 0.5 * (1.0 + math.cos(math.pi * of(c, "num_cycles") * 2.0 * ((k - warm + 1.0) / max(1.0, total - warm))))
    return float(max(0.0, wave * (1 - least) + least))


_UP: dict[str, Callable[[float], float]] = {
    "linear": lambda x: x,
    "cosine": lambda x: 0.5 * (1.0 - math.cos(math.pi * x)),
    "1-sqrt": lambda x: 1.0 - math.sqrt(1.0 - x),
}
_DOWN: dict[str, Callable[[float, float], float]] = {
    "linear": lambda x, cycles: 1.0 - x,
    "cosine": lambda x, cycles: 0.5 * (1.0 + math.cos(math.pi * cycles * 2.0 * x)),
    "1-sqrt": lambda x, cycles: 1.0 - math.sqrt(x),
}


def _warm_stable_decay(c: Config, k: int) -> float:
    warm, stable, decay, least = (
        of(c, key) for key in ("num_warmup_steps", "num_stable_steps", "num_decay_steps", "min_lr_ratio")
    )
    if k < warm:
        found = _UP[of(c, "warmup_type")](k / max(1, warm))
    elif k < warm + stable:
        return 1.0
    elif k < warm + stable + decay:
        found = _DOWN[of(c, "decay_type")]((k - warm - stable) / max(1, decay), of(c, "num_cycles"))
    else:
        return float(least)
    return max(0.0, found * (1.0 - least) + least)


FACTORS: dict[str, tuple[str, str, Callable[[Config, int], float]]] = {
    "_get_constant_lambda": ("constant", "1", _steady),
    "_get_constant_schedule_with_warmup_lr_lambda": ("constant_with_warmup", "k/w, then 1", _warm_steady),
    "_get_linear_schedule_with_warmup_lr_lambda": ("linear", "k/w, then (n − k)/(n − w)", _linear),
    "_get_cosine_schedule_with_warmup_lr_lambda": (
        "cosine, cosine_with_min_lr",
        "k/w, then r + (1 − r)·(1 + cos(2π·c·x))/2, x = (k − w)/(n − w)",
        _cosine,
    ),
    "_get_cosine_with_hard_restarts_schedule_with_warmup_lr_lambda": (
        "cosine_with_restarts",
        "k/w, then (1 + cos(π·(c·x mod 1)))/2, and 0 from x = 1 on",
        _restarts,
    ),
    "_get_polynomial_decay_schedule_with_warmup_lr_lambda": (
        "polynomial",
        "k/w, then ((η₀ − η₁)·(1 − x)^power + η₁)/η₀",
        _polynomial,
    ),
    "_get_inverse_sqrt_schedule_lr_lambda": ("inverse_sqrt", "k/w, then 1/√((k + s − w)/s)", _inverse_root),
    "_get_cosine_with_min_lr_schedule_with_warmup_lr_rate_lambda": (
        "cosine_warmup_with_min_lr",
        "(k + 1)/w, then r + (1 − r)·(1 + cos(2π·c·(k − w + 1)/(n − w)))/2",
        _cosine_from_first,
    ),
    "_get_wsd_scheduler_lambda": ("warmup_stable_decay", "up in w steps, 1 for a while, down to r", _warm_stable_decay),
}
"""The function's name → the name that `get_scheduler` has for it, its formula in words, and the formula."""


def factor(function: Config, k: int) -> float:
    """The factor of one recorded function, {"function": its name, and its keywords}, at step k."""
    name = function.get("function")
    if name not in FACTORS:
        raise UsageError(
            f"{name or 'a function of its own'}: no formula is known; there are those of transformers' get_scheduler: "
            f"{', '.join(row[0] for row in FACTORS.values())}"
        )
    keywords: dict[str, Any] = {key: value for key, value in function.items() if value is not None}
    return FACTORS[str(name)][2](keywords, k)


def _lambda(c: Config, at: Moment) -> Rate:
    return Rate(base(c, at) * factor(of(c, "lambdas")[at.index], at.k))


LAMBDA = Schedule("LambdaLR", "η = η₀·f(k), for the functions that are known", _lambda, _lambda)

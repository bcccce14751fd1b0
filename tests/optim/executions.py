"""Steps as an implementation in float32 would make them, right or wrong: NumPy runs the formula, and rounds as it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from backproof.engine.domain import float32
from backproof.optim import Optimizer
from backproof.optim.derive import first_state, value_of_step
from backproof.optim.mistakes import Given

Array = np.ndarray[Any, Any]


def executed(given: Given, parameter: Array) -> dict[str, Array]:
    """What the implementation claims: the difference of its parameters, and its new state."""
    found = value_of_step(given.optimizer, given.gradient, parameter, given.state, given.hyper, given.t, D=float32())
    after = found.pop("parameter").astype(np.float64)
    return {**{name: x.astype(np.float64) for name, x in found.items()}, "update": after - parameter}


def trained(
    optimizer: Optimizer,
    hyper: Mapping[str, Any],
    shape: tuple[int, ...],
    steps: int,
    seed: int = 0,
    centre: float = 0.0,
) -> tuple[Given, Array]:
    """A parameter and its state after some honest steps in float32, and a gradient for the next."""
    rng = np.random.default_rng(seed)
    settings = optimizer.settings(hyper)
    p = rng.normal(centre, size=shape).astype(np.float32).astype(np.float64)
    state = first_state(optimizer, shape, settings, "float32")
    for t in range(1, steps + 1):
        g = (rng.normal(size=shape) * 10.0 ** -rng.uniform(0, 3, size=shape)).astype(np.float32).astype(np.float64)
        given = Given(optimizer, settings, t, g, state)
        if t < steps:
            claimed = executed(given, p)
            p = p + claimed.pop("update")
            state = claimed
    return given, p

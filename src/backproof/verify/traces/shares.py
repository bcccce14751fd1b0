"""What the layers of a walk hand on: gradients of what they read, and their shares of a parameter's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.verify.equation import Total
from backproof.verify.origin import Origin
from backproof.verify.traces.local import Layer

Array = np.ndarray[Any, Any]


@dataclass
class Kept:
    """What the calls of one layer have added to the gradients of its parameters so far."""

    sums: list[dict[str, Total]]
    layers: list[Layer | None]
    """A call of it on each side, where it was derived."""
    noise: dict[str, float] = field(default_factory=dict)
    change: dict[str, Array] = field(default_factory=dict)
    calls: int = 0


@dataclass(frozen=True)
class Part:
    """What one reader adds to a gradient, and where it comes from."""

    bound: Any
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Back:
    """A layer gone through backward: the seed, the values it went by, and what came out at its leaves."""

    layer: Layer
    seed: Bound
    values: list[Bound]
    parts: list[Bound | None]


def share(back: Back | None, total: dict[str, Total]) -> None:
    """One sample's share of each parameter's gradient."""
    if back is None:
        return
    count = back.layer.region.arguments
    for leaf, name in enumerate(back.layer.region.parameters, count):
        part = back.parts[leaf]
        if part is not None:
            known = back.layer.origins(leaf, back.seed)
            total.setdefault(name, Total()).add(part, known[0] if known else None)

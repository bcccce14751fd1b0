"""A few places of a large value: they are evaluated as if the value were no larger.

A value that can be cut along an axis (`engine.slabs`) is made of slabs, each a function of the same slabs of what it is made of, wherever
they lie. So a slab may as well be put together from places that lie apart, which says more of the whole than as many side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.engine.slabs import Plan, Slabs

MANY = 32
"""Places of a long axis; of a short one an eighth, and at least FEW."""
FEW = 2
ENOUGH = 1 << 16
"""Numbers of a value at its places; of more, only places along a second axis are looked at."""


@dataclass(frozen=True)
class Part:
    """A value to be looked at: one of those that are added up."""

    slabs: Slabs
    output: int

    def plan(self, axis: int) -> Plan | None:
        """How it is cut along an axis."""
        return self.slabs.survey.plan(self.output, axis)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.slabs.graph.types[self.output].shape

    def at(self, plan: Plan, places: Any) -> Part:
        """The same at some places alone."""
        survey = self.slabs.survey.slab(plan, len(places))
        leaves = [self._source(source, axis, places) for source, axis in plan.sources]
        return Part(Slabs(survey, self.slabs.D, leaves, alone=False), survey.graph.outputs[0])

    def _source(self, value: int, axis: int | None, places: Any) -> Any:
        leaf = value < len(self.slabs.graph.leaves)
        given = self.slabs.leaves[value] if leaf else self.slabs.value(value)
        return given if axis is None else taken(given, axis, places)


def count_of(width: int) -> int:
    """At how many places an axis so long is looked at."""
    return min(width, max(FEW, min(MANY, width // 8)))


def at_places(
    parts: Sequence[Part], claimed: Any, choose: Callable[[int], Any]
) -> tuple[list[Part], Any, int, int] | None:
    """Values of one shape, and what is claimed of their sum, at some of the places along an axis; and at how many, of how many.

    `choose` says which of so many (`count_of`). None where there is no axis along which all of them can be cut.
    """
    axis = _axis(parts)
    if axis is None:
        return None
    count = width = claimed.shape[axis]
    for _ in range(2):
        places = choose(claimed.shape[axis])
        if len(places) < count:
            count, width = len(places), claimed.shape[axis]
        parts = [part.at(plan, places) for part in parts if (plan := part.plan(axis)) is not None]
        claimed = taken(claimed, axis, places)
        if max(part.slabs.survey.heaviest[part.output] for part in parts) <= ENOUGH:
            break
        axis = _axis(parts, but=axis)
        if axis is None:
            break
    return list(parts), claimed, count, width


def _axis(parts: Sequence[Part], but: int | None = None) -> int | None:
    """The axis along which least has to be looked at; there has to be something to leave out."""
    costs: dict[int, float] = {}
    for axis, width in enumerate(parts[0].shape):
        plans = [part.plan(axis) for part in parts]
        if axis != but and count_of(width) < width and all(plan is not None for plan in plans):
            share = count_of(width) / width
            costs[axis] = sum(plan.before + share * plan.cut for plan in plans if plan is not None)
    return min(costs, key=lambda axis: costs[axis], default=None)


def taken(given: Any, axis: int, places: Any) -> Any:
    """A value, with its bounds if it has any, at some places along an axis."""
    if not isinstance(given, Bound):
        return np.take(given, places, axis)
    value, certain, likely = (
        None if a is None else np.take(np.broadcast_to(a, given.shape), places, axis)
        for a in (given.value, given.certain, given.likely)
    )
    return Bound(value, certain, certain if given.likely is given.certain else likely)

"""A few places of a large value: they are evaluated as if the value were no larger.

A value that can be cut along an axis (`engine.slabs`) is made of slabs, each a function of the same slabs of what it is made of, wherever
they lie. So a slab may as well be put together from places that lie apart, which says more of the whole than as many side by side. What is
a function of single numbers alone has no need of an axis: any of them will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.engine.cuts import POINTWISE
from backproof.engine.slabs import Plan, Slabs, survey_of
from backproof.ir.graph import Graph, Leaf
from backproof.ir.tensor import Tensor
from backproof.ir.types import Type

SINGLE = 1 << 10
"""Single numbers, where they are functions of single numbers."""
FULL = 4 * SINGLE
"""Of so many, all are looked at."""
MANY = 32
"""Places of a long axis; of a short one an eighth, and at least FEW."""
FEW = 2
ENOUGH = 1 << 16
"""Numbers of a value at its places; of as many, only places along a further axis are looked at."""
MOST = 1 << 19
"""Numbers that are read for that; long rows are fewer."""

Choose = Callable[[int, int], Any]
"""(how many there are, how many of them) → their places, in order."""


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

    def single(self, graph: Graph, places: Any) -> Part:
        """The same at single numbers, by the graph that makes so many of them."""
        leaves = [np.take(leaf, places) for leaf in self.slabs.leaves]  # flat
        return Part(Slabs(survey_of(graph), self.slabs.D, leaves, alone=False), graph.outputs[0])


def count_of(width: int, numbers: int = 1) -> int:
    """At how many places an axis so long is looked at, where each has so many numbers."""
    return min(width, max(FEW, min(MANY, width // 8, MOST // max(numbers, 1))))


def at_places(parts: Sequence[Part], claimed: Any, choose: Choose) -> tuple[list[Part], Any, int, int] | None:
    """Values of one shape, and what is claimed of their sum, at some of the places along an axis; and at how many, of how many.

    None where there is no axis along which all of them can be cut.
    """
    if claimed.size > FULL:
        graphs = [pointwise(part.slabs.graph, part.output, SINGLE) for part in parts]
        if all(graph is not None for graph in graphs):
            places = choose(claimed.size, SINGLE)
            few = [part.single(graph, places) for part, graph in zip(parts, graphs, strict=True) if graph is not None]
            return few, np.take(claimed, places), SINGLE, claimed.size
    found = _axis(parts)
    if found is None:
        return None
    least = claimed.size, claimed.size
    seen: list[int] = []
    while found is not None:
        axis, count = found
        seen.append(axis)
        places, least = choose(claimed.shape[axis], count), min(least, (count, claimed.shape[axis]))
        parts = [part.at(plan, places) for part in parts if (plan := part.plan(axis)) is not None]
        claimed = taken(claimed, axis, places)
        enough = max(part.slabs.survey.heaviest[part.output] for part in parts) < ENOUGH
        found = None if enough else _axis(parts, seen)
    return list(parts), claimed, *least


def _axis(parts: Sequence[Part], but: Sequence[int] = ()) -> tuple[int, int] | None:
    """The axis along which least has to be looked at, and at how many places; a further one if that is half as much at most."""
    costs: dict[tuple[int, int], float] = {}
    largest = max(part.slabs.survey.heaviest[part.output] for part in parts)
    for axis, width in enumerate(parts[0].shape):
        plans = [part.plan(axis) for part in parts]
        count = count_of(width, largest // max(width, 1))
        if axis in but or count >= width or any(plan is None for plan in plans):
            continue
        cost = sum(plan.before + plan.cut * count / width for plan in plans if plan is not None)
        if not but or cost <= sum(plan.cut for plan in plans if plan is not None) / 2:
            costs[axis, count] = cost
    return min(costs, key=lambda found: costs[found], default=None)


@lru_cache(maxsize=512)
def pointwise(graph: Graph, value: int, count: int) -> Graph | None:
    """The graph that makes so many numbers of a value from as many of each leaf; None where they depend on others."""
    size = graph.types[value].size
    if any(leaf.type.size != size for leaf in graph.leaves):
        return None
    known = {i: i for i in range(len(graph.leaves))}
    leaves = tuple(Leaf(Type(leaf.type.kind, (count,)), leaf.name) for leaf in graph.leaves)
    nodes: list[Any] = []
    for made, node in enumerate(graph.nodes, len(leaves)):
        arguments = tuple(known[i] for i in node.arguments if i in known)
        if len(arguments) < len(node.arguments) or graph.types[made].size != size:
            continue
        if node.op == "reshape":
            known[made] = arguments[0]
        elif node.op in POINTWISE:
            nodes.append(replace(node, arguments=arguments))
            known[made] = len(leaves) + len(nodes) - 1
        elif node.op == "constant" and not isinstance(node.given["value"], Tensor):
            params = tuple((name, (count,) if name == "shape" else x) for name, x in node.params)
            nodes.append(replace(node, params=params))
            known[made] = len(leaves) + len(nodes) - 1
    return Graph(leaves, tuple(nodes), (known[value],)) if value in known else None


def taken(given: Any, axis: int, places: Any) -> Any:
    """A value, with its bounds if it has any, at some places along an axis."""
    if not isinstance(given, Bound):
        return np.take(given, places, axis)
    value, certain, likely = (
        None if a is None else np.take(np.broadcast_to(a, given.shape), places, axis)
        for a in (given.value, given.certain, given.likely)
    )
    return Bound(value, certain, certain if given.likely is given.certain else likely)

"""Where a derived value comes from: the graph and the recorded leaves, so that it can be looked at again, closer or otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backproof.ir.build import Builder
from backproof.ir.graph import Graph
from backproof.session.tape import compile_tape, run_backward
from backproof.trace.step import Call

Numbers = Any


@dataclass(frozen=True)
class Origin:
    """An output of a region, or, where a leaf is named, what the region adds to that leaf's gradient."""

    graph: Graph
    leaves: Callable[[], list[Numbers]] = field(repr=False)
    """The recorded inputs, read when they are wanted."""
    output: int = 0
    leaf: int | None = None
    seeds: Mapping[int, Callable[[], Numbers]] = field(default_factory=dict, repr=False)
    """The recorded gradients of the region's outputs, by value of the graph."""
    doubtful: bool = False
    """Whether a decision in it may honestly have been taken otherwise."""
    call: Call | None = None
    reads: tuple[int, ...] = ()

    def derivation(self) -> tuple[Graph, list[Numbers], int]:
        """A graph, its leaves and an output that are the derived value; of a gradient, the graph of the backward pass."""
        if self.leaf is None:
            return self.graph, self.leaves(), self.output
        b = Builder()
        inputs = [b.leaf(leaf.type) for leaf in self.graph.leaves]
        seeds: list[Any] = [None] * len(self.graph)
        for value in self.seeds:
            seeds[value] = b.leaf(self.graph.types[value])
        values = b.include(self.graph, inputs)
        frozen = {i for i in range(len(inputs)) if i != self.leaf}
        found = run_backward(compile_tape(self.graph, b, values, frozen), seeds)[self.leaf]  # type: ignore[arg-type] # a builder is a domain
        assert found is not None  # it was derived once already
        leaves = [*self.leaves(), *(seed() for seed in self.seeds.values())]
        return b.graph(found), leaves, found.id

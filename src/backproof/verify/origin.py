"""Where a derived value comes from: the graph and the recorded leaves, so that it can be looked at again, closer or otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.slabs import Slabs, survey_of
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

    form: tuple[str, str | None] = ("float32", None)
    """The formats that it was computed and added up in."""
    stored: str = ""
    """The format that it was rounded to, where that is a coarser one."""

    def derivation(self) -> tuple[Graph, list[Numbers], int]:
        """A graph, its leaves and an output that are the derived value; of a gradient, the graph of the backward pass."""
        if self.leaf is None:
            return self.graph, self.leaves(), self.output
        found = gradient_graph(self.graph, self.leaf, tuple(self.seeds))
        assert found is not None  # it was derived once already
        return found, [*self.leaves(), *(seed() for seed in self.seeds.values())], found.outputs[0]

    def evaluation(self, D: Bounded) -> tuple[Slabs, int]:
        """The derivation in a domain, and the value of it that is the derived one."""
        graph, leaves, output = self.derivation()
        return Slabs(survey_of(graph), D, leaves), output

    def rounded(self, D: Bounded, found: Bound) -> Bound:
        """What was found, in the format that it is stored in."""
        return D.cast(found, to=self.stored) if self.stored else found

    def bound(self) -> Bound:
        """The derived value with its bounds."""
        D = Bounded(*self.form)
        slabs, output = self.evaluation(D)
        return self.rounded(D, slabs.value(output))


@lru_cache(maxsize=512)
def gradient_graph(graph: Graph, leaf: int, seeds: tuple[int, ...]) -> Graph | None:
    """The backward pass to a leaf, as a graph: its leaves are the graph's own and the gradients of `seeds`. None if nothing gets there."""
    b = Builder()
    inputs = [b.leaf(given.type) for given in graph.leaves]
    arrived: list[Any] = [None] * len(graph)
    for value in seeds:
        arrived[value] = b.leaf(graph.types[value])
    values = b.include(graph, inputs)
    frozen = {i for i in range(len(inputs)) if i != leaf}
    found = run_backward(compile_tape(graph, b, values, frozen), arrived)[leaf]  # type: ignore[arg-type] # a builder is a domain
    return None if found is None else b.graph(found)

"""The tape: a graph's values and a flat program, run backward by one short loop over a dense array of gradients.

`proofs/` holds the theorem about this loop: on the tape of any graph it never errs, and leaves in the array exactly what
backpropagation, as defined on the graph, assigns to every value. The loop here is that loop, in Python; `certify` compares it
with the definition (`ir.backprop`) on each graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from backproof.engine.domain import Domain
from backproof.errors import SessionError
from backproof.ir.graph import Graph, Node
from backproof.ir.primitive import Value


@dataclass(frozen=True, slots=True)
class Step:
    """What the loop does at one node: which values the rules read, and to whom each rule's result is added."""

    value: int
    arguments: tuple[int, ...]
    params: dict[str, Any]
    pulls: tuple[tuple[int, Callable[..., Value]], ...]
    """(the parent's id, the rule that gives its contribution)."""


@dataclass(frozen=True, slots=True)
class Tape:
    """A graph, the values it had in a domain, and the program of its backward pass."""

    graph: Graph
    domain: Domain
    values: Sequence[Value]
    steps: tuple[Step, ...]
    wanted: tuple[bool, ...]
    """For each value, whether its gradient is computed: it depends on a leaf of reals that is not frozen."""

    def __len__(self) -> int:
        return len(self.graph)


Gradients = list[Value | None]
"""One entry per value; None is the zero tensor, not yet written out."""


def expect_gradients(given: Any) -> None:
    """Refuse what no backward pass gave."""
    if not isinstance(given, list):
        raise SessionError(f"expected the gradients that a backward pass gave, got {type(given).__name__}")
    strange = next((entry for entry in given if entry is not None and not hasattr(entry, "shape")), None)
    if strange is not None:
        raise SessionError(f"expected the gradients that a backward pass gave, got {type(strange).__name__} among them")


def compile_tape(graph: Graph, domain: Domain, values: Sequence[Value], frozen: Collection[int] = ()) -> Tape:
    """The tape of a graph at these values. No gradient goes to frozen leaves, nor to what depends on them alone."""
    wanted = wanted_values(graph, frozen)
    steps = []
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        if wanted[value]:
            pulls = tuple((node.arguments[i], rule) for i, rule in _rules(node, wanted))
            steps.append(Step(value, node.arguments, node.given, pulls))
    return Tape(graph, domain, values, tuple(steps), wanted)


def wanted_values(graph: Graph, frozen: Collection[int] = ()) -> tuple[bool, ...]:
    """For each value, whether a leaf of reals that is not frozen leads to it through rules that carry a gradient back."""
    wanted = [leaf.type.kind == "real" and i not in frozen for i, leaf in enumerate(graph.leaves)]
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        wanted.append(graph.types[value].kind == "real" and bool(_rules(node, wanted)))
    return tuple(wanted)


def _rules(node: Node, wanted: Sequence[bool]) -> list[tuple[int, Callable[..., Value]]]:
    """The (input, rule) pairs through which a node hands gradients on."""
    found = [(i, node.primitive.pull(i)) for i, parent in enumerate(node.arguments) if wanted[parent]]
    return [(i, rule) for i, rule in found if rule is not None]


def run_backward(tape: Tape, gradients: Gradients) -> Gradients:
    """The reverse loop: at each node, from the last to the first, add each contribution to its parent's entry."""
    D, values = tape.domain, tape.values
    add = D.add
    for step in reversed(tape.steps):
        gy = gradients[step.value]
        if gy is None:
            continue  # zero: every contribution would be zero
        x = tuple([values[argument] for argument in step.arguments])
        y = values[step.value]
        for parent, rule in step.pulls:
            contribution = rule(D, x, y, gy, **step.params)
            known = gradients[parent]
            gradients[parent] = contribution if known is None else add(known, contribution)
    return gradients


def backward(tape: Tape, out: int, seed: Value) -> Gradients:
    """The dense array: zero everywhere but for the seed at `out`, then the loop."""
    if not 0 <= out < len(tape):
        raise SessionError(f"output %{out} does not exist; the tape's values go from %0 to %{len(tape) - 1}")
    kind = tape.graph.types[out]
    if kind.kind != "real":
        raise SessionError(f"{tape.graph.name(out)} is {kind}; only reals have gradients")
    if tuple(seed.shape) != kind.shape:
        raise SessionError(
            f"the seed of {tape.graph.name(out)} must have its shape, {list(kind.shape)}, and has {list(seed.shape)}"
        )
    gradients: Gradients = [None] * len(tape)
    gradients[out] = seed
    return run_backward(tape, gradients)

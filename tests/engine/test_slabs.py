"""What is evaluated a slab at a time is what is evaluated at once: every number and every bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backproof.engine import slabs
from backproof.engine.bounded import Bounded
from backproof.engine.evaluate import evaluate
from backproof.engine.slabs import Slabs, Survey
from backproof.ir.build import Builder
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.graph import Graph
from backproof.ir.types import Type, integer, real
from backproof.session.tape import compile_tape, run_backward


def composed(name: str, *kinds: Type, **given: Any) -> Graph:
    b = Builder()
    return b.graph(COMPOSITIONS[name].function(*map(b.leaf, kinds), **given))


def normalized() -> Graph:
    b = Builder()
    x, weight, bias = b.leaf(real(3, 4, 9)), b.leaf(real(9)), b.leaf(real(9))
    return b.graph(COMPOSITIONS["layer_norm"].function(x, 9, weight, bias))


def rearranged() -> Graph:
    """Through the operations that only move numbers, and a sum along the way."""
    b = Builder()
    x, index = b.leaf(real(6, 8, 5)), b.leaf(integer(4))
    y = b.concat(x, b.flip(x, axes=(1,)), axis=1)
    y = b.pad(y, low=(0, 1, 0), high=(0, 0, 0), interior=(0, 0, 0))[:, 3:15]
    y = b.transpose(b.reshape(y, shape=(6, 3, 4, 5)), axes=(0, 2, 1, 3))
    y = b.gather(y, index, axis=2)
    return b.graph(b.cumsum(y, axis=1, reverse=False))


GRAPHS = {
    "layer norm": normalized(),
    "softmax": composed("softmax", real(12, 9), dim=1),
    "a linear layer": composed("linear", real(4, 5, 9), real(7, 9), real(7)),
    "attention": composed("attention", *3 * (real(3, 2, 5, 4),), is_causal=True),
    "cross entropy": composed("cross_entropy", real(12, 9), integer(12)),
    "gelu": composed("gelu", real(12, 9)),
    "batch norm": composed("batch_norm", real(6, 4, 9), training=True),
    "a table of vectors": composed("embedding", integer(3, 5), real(7, 4)),
    "a convolution": composed("conv", real(4, 3, 9, 9), real(6, 3, 3, 3), real(6), padding=1),
    "pooling": composed("max_pool", real(4, 3, 9, 9), kernel_size=2),
    "moves": rearranged(),
}


def leaves_of(graph: Graph) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        rng.integers(0, 4, leaf.type.shape) if leaf.type.kind == "int" else rng.normal(size=leaf.type.shape)
        for leaf in graph.leaves
    ]


def backward(graph: Graph, leaf: int) -> Graph:
    """The graph of a leaf's gradient; the last leaf is the gradient of the output."""
    b = Builder()
    inputs = [b.leaf(given.type) for given in graph.leaves]
    seed = b.leaf(graph.types[graph.outputs[0]])
    values = b.include(graph, inputs)
    seeds: list[Any] = [None] * len(graph)
    seeds[graph.outputs[0]] = seed
    found = run_backward(compile_tape(graph, b, values), seeds)[leaf]  # type: ignore[arg-type] # a builder is a domain
    assert found is not None
    return b.graph(found)


CASES = {f"{name}, forward": graph for name, graph in GRAPHS.items()} | {
    f"{name}, gradient of {leaf}": backward(graph, leaf) for name, graph in GRAPHS.items() for leaf in graph.real_leaves
}


@pytest.mark.parametrize("room", [1, 16, 100])
@pytest.mark.parametrize("name", CASES)
def test_slabs_are_the_whole(name: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "SLAB", room)
    monkeypatch.setattr(slabs, "PRODUCT_SLAB", room)
    graph = CASES[name]
    output, leaves, D = graph.outputs[0], leaves_of(graph), Bounded("float32")
    whole = evaluate(graph, D, leaves)[output]

    found = Slabs(Survey(graph), D, leaves).value(output)

    own = evaluate(graph, Bounded("float64"), leaves)[output].certain  # sums of products may be in another order
    assert np.all(abs(found.value - whole.value) <= (0.0 if own is None else 2 * own))
    for mine, theirs in ((found.certain, whole.certain), (found.likely, whole.likely)):
        assert (mine is None) == (theirs is None)
        assert mine is None or np.allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if "pooling" not in name])
def test_all_of_them_can_be_cut(name: str) -> None:
    """Along some axis, into slabs that read less than they make; a scalar is made of values that can."""
    survey = Survey(CASES[name])
    output = survey.graph.outputs[0]

    plans = [survey.best(value) for value in range(len(survey.graph.leaves), len(survey.graph))]

    assert survey.best(output) is not None or (not survey.graph.types[output].shape and any(plans))


def test_a_large_value_is_never_held_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "SLAB", 64)
    largest = []

    class Watching(Bounded.__mro__[1]):  # type: ignore[misc,name-defined] # the domain that both are
        def __init__(self) -> None:
            self.inner = Bounded("float32")
            super().__init__()

        def value(self, given: Any, kind: Type) -> Any:
            return self.inner.value(given, kind)

        def array(self, value: Any) -> Any:
            return value.value

        def apply(self, primitive: Any, *x: Any, **params: Any) -> Any:
            found = self.inner.apply(primitive, *x, **params)
            largest.append(found.value.size)
            return found

    graph = composed("cross_entropy", real(500, 9), integer(500))
    Slabs(Survey(graph), Watching(), leaves_of(graph)).value(graph.outputs[0])

    assert max(largest) <= 500  # the rows' own losses; not the 4500 numbers that they are made of

"""A large equation is judged alike with and without native runs: an honest claim holds, and a single wrong number is found where it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from backproof.engine import fused, slabs
from backproof.engine.domain import float32, float64
from backproof.engine.evaluate import evaluate
from backproof.engine.native.fused import library
from backproof.ir.build import Builder
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.graph import Graph
from backproof.ir.types import integer, real
from backproof.verify.equation import Total
from backproof.verify.origin import Origin
from backproof.verify.piecewise import judged_piecewise

ROWS, COLUMNS = 600, 500


def composed(name: str, **given: Any) -> Graph:
    b = Builder()
    return b.graph(COMPOSITIONS[name].function(b.leaf(real(ROWS, COLUMNS)), **given))


def multiplied() -> Graph:
    b = Builder()
    left, right = b.leaf(real(ROWS, COLUMNS)), b.leaf(real(COLUMNS, ROWS))
    return b.graph(b.dot_general(left, right, contract=((1,), (0,)), batch=((), ())))


# Each with what is beyond its certain bounds, which know nothing of the order of a sum: some 500 units of the sizes that meet in it.
GRAPHS = {
    "layer norm": (composed("layer_norm", normalized_shape=COLUMNS), 1e-3),
    "softmax": (composed("softmax"), 1e-6),
    "gelu": (composed("gelu", approximate="tanh"), 1e-5),
    "a product": (multiplied(), 1e-2),
}


@pytest.fixture(params=["natively", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "one by one":
        monkeypatch.setattr(slabs, "library", lambda: None)
        monkeypatch.setattr(fused, "library", lambda: None)
    elif library() is None:
        pytest.skip("there is no C compiler")
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", GRAPHS)
def test_one_wrong_number_is_found_where_it_is(name: str) -> None:
    graph, off = GRAPHS[name]
    leaves = [
        np.random.default_rng(i).normal(size=leaf.type.shape).astype(np.float32) for i, leaf in enumerate(graph.leaves)
    ]
    (output,) = graph.outputs
    total = Total()
    total.add(None, Origin(graph, lambda: leaves, output=output))
    claim = evaluate(graph, float32(), leaves)[output]
    exact = evaluate(graph, float64(), leaves)[output]

    honest, _ = judged_piecewise(claim, total, "float32")
    assert honest.verdict == "holds"

    wrong = claim.copy()
    at = (417, 123)
    wrong[at] = exact[at] + off
    found, _ = judged_piecewise(wrong, total, "float32")
    assert (found.verdict, found.at) == ("broken", at)


@pytest.mark.usefixtures("way")
def test_rows_that_are_scattered_over_a_product_are_put_where_they_belong() -> None:
    """A table of words that is also the matrix of the last layer: what comes back from both is added up."""
    words, width, read = 12000, 40, 64
    b = Builder()
    index, rows = b.leaf(integer(read)), b.leaf(real(read, width))
    scattered = b.graph(b.scatter_add(index, rows, axis=0, size=words))
    b = Builder()
    left, right = b.leaf(real(words, 32)), b.leaf(real(32, width))
    product = b.graph(b.dot_general(left, right, contract=((1,), (0,)), batch=((), ())))
    rng = np.random.default_rng(0)
    places = rng.choice(words, read, replace=False)
    places[1] = places[0]
    there = [places, rng.normal(size=(read, width)).astype(np.float32)]
    factors = [rng.normal(size=shape).astype(np.float32) for shape in ((words, 32), (32, width))]
    total = Total()
    for graph, leaves in ((scattered, there), (product, factors)):
        total.add(None, Origin(graph, partial(list, leaves), output=graph.outputs[0]))
    claim = factors[0] @ factors[1]
    np.add.at(claim, *there)

    assert judged_piecewise(claim, total, "float32")[0].verdict == "holds"

    at = (int(places[-1]), 5)
    claim[at] -= there[1][-1, 5]
    found, _ = judged_piecewise(claim, total, "float32")
    assert (found.verdict, found.at) == ("broken", at)

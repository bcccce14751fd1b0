"""What is evaluated at some places of a value is the value there, with its bounds; and a rough bound is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_slabs import CASES, composed, leaves_of

from backproof.engine import places
from backproof.engine.bounded import Bounded
from backproof.engine.evaluate import evaluate
from backproof.engine.places import Part, at_places, count_of, pointwise, taken
from backproof.engine.rough import Rough, heavy, rough
from backproof.engine.slabs import Slabs, Survey
from backproof.errors import DomainError
from backproof.ir.build import Builder
from backproof.ir.types import integer, real


def parts_of(name: str) -> tuple[Any, Part]:
    graph, D = CASES[name], Bounded("float32")
    leaves, output = leaves_of(graph), graph.outputs[0]
    return evaluate(graph, D, leaves)[output], Part(Slabs(Survey(graph), D, leaves), output)


@pytest.mark.parametrize("name", CASES)
def test_some_places_are_those_of_the_whole(name: str) -> None:
    whole, part = parts_of(name)
    rng = np.random.default_rng(2)
    for axis, width in enumerate(whole.shape):
        plan = part.plan(axis)
        if plan is None:
            continue
        chosen = np.sort(rng.choice(width, max(width // 2, 1), replace=False))

        few = part.at(plan, chosen)

        found, wanted = few.slabs.value(few.output), taken(whole, axis, chosen)
        assert np.allclose(found.value, wanted.value, rtol=1e-12, atol=1e-12)
        if wanted.certain is not None:
            assert np.allclose(found.certain, wanted.certain, rtol=1e-6)
            assert np.allclose(found.likely, wanted.likely, rtol=1e-6)


@pytest.mark.parametrize("enough", [1, 1 << 16])
@pytest.mark.parametrize("name", CASES)
def test_a_claim_is_looked_at_in_the_same_places(name: str, enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "count_of", lambda width, numbers: max(1, width // 2))
    monkeypatch.setattr(places, "SINGLE", 20)
    monkeypatch.setattr(places, "FULL", 40)
    monkeypatch.setattr(places, "ENOUGH", enough)
    whole, part = parts_of(name)
    rng = np.random.default_rng(3)

    found = at_places([part], whole.value, lambda width, count: np.sort(rng.choice(width, count, replace=False)))

    if found is not None:
        ((few,), claimed, count, width) = found
        assert count < width
        assert np.allclose(few.slabs.value(few.output).value, claimed, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("width", "count"), [(1, 1), (2, 2), (8, 2), (64, 8), (256, 32), (50257, 32)])
def test_of_a_long_axis_few_places_are_enough(width: int, count: int) -> None:
    assert count_of(width) == count
    assert count_of(width, places.MOST) == min(width, 2)


def test_of_a_function_of_single_numbers_any_will_do() -> None:
    """However its numbers lie; and not where one is read by many."""
    gelu, table = CASES["gelu, gradient of 0"], CASES["layer norm, forward"]
    whole, part = parts_of("gelu, gradient of 0")
    graph = pointwise(gelu, gelu.outputs[0], 5)
    assert graph is not None
    assert pointwise(table, table.outputs[0], 5) is None

    few = part.single(graph, chosen := np.array([0, 7, 8, 60, 100]))

    found = few.slabs.value(few.output)
    assert np.allclose(found.value, whole.value.reshape(-1)[chosen], rtol=1e-12)
    assert np.allclose(found.likely, whole.likely.reshape(-1)[chosen], rtol=1e-6)


SHAPE = (64, 20_000)


def logits() -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    x = (8 * rng.standard_normal(SHAPE, np.float32)).astype(np.float32)
    target = rng.integers(0, SHAPE[1], SHAPE[0])
    target[::7] = -100
    return x, target


def test_a_loss_is_known_roughly() -> None:
    """As it is with a bound for every number: the same value, and a bound that covers its own rounding and that of float32."""
    graph = composed("cross_entropy", real(*SHAPE), integer(SHAPE[0]))
    slabs = Slabs(Survey(graph), Bounded("float32", brief=True), logits())
    (few,) = heavy(slabs, graph.outputs[0])
    exact = evaluate(graph, Bounded("float32"), logits())

    found = rough(slabs, few)

    assert found.shape == exact[few].shape
    off = abs(found.value - exact[few].value)
    assert np.all(off <= found.likely)
    assert off.any()
    assert np.all(exact[few].likely <= 2 * found.likely)
    assert np.all(found.likely <= 2 * exact[few].likely.max())
    slabs.know(few, found)
    whole = exact[graph.outputs[0]]
    assert abs(slabs.plainly(graph.outputs[0]).value - whole.value) <= whole.likely


def test_a_domain_of_few_functions_knows_no_other() -> None:
    b = Builder()
    x = b.leaf(real(3, 4))
    graph = b.graph(b.tanh(x))
    with pytest.raises(DomainError, match="tanh"):
        evaluate(graph, Rough(), [np.zeros((3, 4), np.float32)])
    with pytest.raises(DomainError, match="float64"):
        evaluate(graph, Rough(), [np.zeros((3, 4))])


def test_an_infinity_has_no_rough_bound() -> None:
    x = np.zeros((2, 3), np.float32)
    x[0, 0] = np.inf
    b = Builder()
    graph = b.graph(b.logsumexp(b.leaf(real(2, 3)), axes=(1,)))
    with pytest.raises(DomainError, match="infinity"):
        evaluate(graph, Rough(), [x])

"""Combinations of an axis are those of the whole, and honest errors of the whole are no larger than what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_slabs import CASES, leaves_of

from backproof.engine.bounded import Bounded
from backproof.engine.evaluate import evaluate
from backproof.engine.projected import NotLinearError, Projection, combined, norms, own_growth
from backproof.ir.build import Builder
from backproof.ir.types import real

LINEAR = {
    "a linear layer, forward": (0, 1, 2),
    "a linear layer, gradient of 0": (0, 1, 2),
    "a linear layer, gradient of 1": (0, 1),
    "a linear layer, gradient of 2": (0,),
    "a convolution, forward": (0, 1),
    "a convolution, gradient of 0": (0, 1),
    "a convolution, gradient of 1": (0, 1),
    "a table of vectors, gradient of 1": (1,),
}
"""What is linear along which axes."""


def shadow_of(name: str, axis: int) -> tuple[Any, Any, Any]:
    graph, rng = CASES[name], np.random.default_rng(1)
    output, leaves, D = graph.outputs[0], leaves_of(graph), Bounded("float32")
    whole = evaluate(graph, D, leaves)[output]
    weights = rng.standard_normal((whole.shape[axis], 3))
    return whole, weights, Projection(graph, D, leaves, weights).shadow(output, axis)


@pytest.mark.parametrize(("name", "axis"), [(name, axis) for name, axes in LINEAR.items() for axis in axes])
def test_it_combines_the_result_and_bounds_its_errors(name: str, axis: int) -> None:
    whole, weights, shadow = shadow_of(name, axis)

    assert np.allclose(shadow.value, combined(whole.value, axis, weights), rtol=1e-11, atol=1e-11)
    norm = np.linalg.norm(np.broadcast_to(whole.likely, whole.shape), axis=axis, keepdims=True)
    assert np.all(shadow.growth * shadow.size >= norm * (1 - 1e-5) - 1e-36)  # but for what underflows
    assert np.all(shadow.growth * shadow.size <= 20 * norm + 1e-36)


@pytest.mark.parametrize("contract", [((1,), (0,)), ((0,), (0,)), ((1,), (1,))])
def test_a_large_product_has_a_bound_from_norms(contract: Any) -> None:
    """It is made in float32: the threshold is no less than with all magnitudes, and has room for what that rounds."""
    rng = np.random.default_rng(3)
    left, right = 500, 600
    x = rng.standard_normal((left, 400) if contract[0] == (1,) else (400, left), np.float32)
    y = rng.standard_normal((400, right) if contract[1] == (0,) else (right, 400), np.float32)
    b = Builder()
    graph = b.graph(b.dot_general(b.leaf(real(*x.shape)), b.leaf(real(*y.shape)), contract=contract, batch=((), ())))
    D = Bounded("float32")
    whole = evaluate(graph, D, [x, y])[2]
    for axis in (0, 1):
        weights = rng.standard_normal((whole.shape[axis], 3), np.float32).astype(np.float64)

        shadow = Projection(graph, D, [x, y], weights).shadow(2, axis)

        norm = np.linalg.norm(whole.likely, axis=axis, keepdims=True)
        assert np.all(shadow.growth * shadow.size >= norm)
        assert np.all(shadow.growth * shadow.size <= 2 * norm)
        made = combined(whole.value.astype(np.float32), axis, weights)
        assert np.all(abs(made - shadow.value) <= own_growth(whole.shape[axis]) * shadow.size)


@pytest.mark.parametrize(
    "name", ["softmax, forward", "gelu, forward", "layer norm, gradient of 0", "attention, forward"]
)
def test_what_is_not_linear_is_refused(name: str) -> None:
    with pytest.raises(NotLinearError):
        shadow_of(name, 0)


def test_a_batch_of_products_is_not_combined_along_the_batch() -> None:
    b = Builder()
    x, y = b.leaf(real(5, 4, 3)), b.leaf(real(5, 3, 4))
    graph = b.graph(b.dot_general(x, y, contract=((2,), (1,)), batch=((0,), (0,))))
    projection = Projection(graph, Bounded("float32"), leaves_of(graph), np.ones((5, 2)))

    with pytest.raises(NotLinearError):
        projection.shadow(graph.outputs[0], 0)


@pytest.mark.parametrize("shape", [(300, 700), (7, 300, 70), (2, 3, 4)])
def test_an_array_is_combined_along_any_axis(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    for axis in range(len(shape)):
        weights = rng.standard_normal((shape[axis], 4))

        value, norm = combined(x, axis, weights), norms(x, (axis,))

        assert np.allclose(value, np.moveaxis(np.tensordot(x, weights, (axis, 0)), -1, axis), atol=1e-4)
        assert np.allclose(norm, np.linalg.norm(x, axis=axis, keepdims=True), rtol=1e-4)
        assert np.all(norm >= np.linalg.norm(x.astype(np.float64), axis=axis, keepdims=True))

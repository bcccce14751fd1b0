"""The jvp of every primitive is its derivative, and so is the jvp of its gradient: compared with difference quotients.

The quotients are extrapolated to step 0 (Richardson), and judge with the error that they state of themselves: the distance of the last
two extrapolations, and the rounding of the function's values divided by the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import Point, law, points
from test_law_adjoint import every_derivative

from backproof.engine.domain import bounded, float64
from backproof.engine.evaluate import evaluate, pushforward
from backproof.ir.backprop import backprop
from backproof.ir.build import Builder
from backproof.ir.graph import Graph
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.types import real
from backproof.numerics import FORMATS

Array = np.ndarray[Any, Any]
UNIT = FORMATS["float64"].unit
STEP, HALVINGS = 2.0**-8, 4  # small enough to cross no kink of numbers that are `apart`


def slope(function: Callable[[float], Array], noise: Array | float) -> tuple[Array, Array]:
    """d/dt f at 0, and how far that may be off, if f itself may be off by `noise`."""
    steps = [STEP / 2**k for k in range(HALVINGS)]
    table = [(function(h) - function(-h)) / (2 * h) for h in steps]
    previous = table[-1]
    for order in range(1, HALVINGS):
        previous = table[-1]
        table = [b + (b - a) / (4**order - 1) for a, b in pairwise(table)]
    # Each extrapolation adds at most a third to the noise of a quotient, which is noise/h at the smallest step.
    return table[-1], 4 * abs(table[-1] - previous) + 4 * noise / steps[-1] + 16 * UNIT * abs(table[-1])


def direction(point: Point, i: int) -> Array:
    """A tangent of few bits, so that x + step·tangent is exact, and of size ≤ 1."""
    return np.rint(point.like(point.types[i], 10 + i) / 3 * 2.0**12) / 2.0**12


WITHOUT = {"sign", "stop_gradient"}  # from reals to reals, and their derivative is 0: one by nature, one by decree


@pytest.mark.parametrize("op", PRIMITIVES)
@law(4)
@given(data=st.data())
def test_what_takes_reals_to_reals_has_a_derivative_in_each(op: str, data: st.DataObject) -> None:
    point = data.draw(points(op))
    reals = [i for i, kind in enumerate(point.types) if kind.kind == point.type.kind == "real"]
    assert list(point.differentiable) == ([] if op in WITHOUT else reals)


@every_derivative
@law(20)
@given(data=st.data())
def test_the_jvp_is_the_derivative(op: str, data: st.DataObject) -> None:
    point, D = data.draw(points(op)), float64()
    x = point.x("apart")
    y = bounded("float64").apply(
        point.primitive, *(bounded("float64").value(*g) for g in zip(x, point.types, strict=True)), **point.params
    )
    noise = 0.0 if y.certain is None else 2 * y.certain
    for i in point.differentiable:
        dx = direction(point, i)

        def moved(t: float, i: int = i, dx: Array = dx) -> Array:
            return np.asarray(D.apply(point.primitive, *x[:i], x[i] + t * dx, *x[i + 1 :], **point.params))

        wanted, room = slope(moved, noise)

        push = point.primitive.push(i)
        assert push is not None
        found = push(D, x, y.value, dx, **point.params)

        assert np.all(abs(found - wanted) <= room + UNIT * abs(found))


def gradient_graph(point: Point) -> tuple[Graph, list[int]]:
    """Σ gy·f(x) as a graph, with the gradients of its real inputs as outputs; the last leaf is gy."""
    builder = Builder()
    leaves = [builder.leaf(kind) for kind in point.types]
    seed = builder.leaf(point.type)
    y = builder.apply(point.op, *leaves, **point.params)
    inner = builder.graph(y)
    refs = [*leaves, seed, y]
    gradients = backprop(inner, builder, refs, {y.id: seed})
    along = [i for i in point.differentiable if gradients[i] is not None]
    return builder.graph(*(gradients[i] for i in along)), along


@every_derivative
@law(12)
@given(data=st.data())
def test_the_jvp_of_the_gradient_is_the_second_derivative(op: str, data: st.DataObject) -> None:
    point, D = data.draw(points(op)), float64()
    graph, along = gradient_graph(point)
    gy = point.like(point.type, 20)
    x = point.x("apart")
    directions = {i: direction(point, i) for i in along}

    def gradients(t: float) -> list[Array]:
        moved = [v + t * directions[i] if i in directions else v for i, v in enumerate(x)]
        values = evaluate(graph, D, [*moved, gy])
        return [np.asarray(values[output]) for output in graph.outputs]

    bounds = evaluate(graph, bounded("float64"), [*x, gy])
    values = evaluate(graph, D, [*x, gy])
    tangents = pushforward(graph, D, values, directions)

    for k, output in enumerate(graph.outputs):
        certain = bounds[output].certain
        wanted, room = slope(lambda t, k=k: gradients(t)[k], 0.0 if certain is None else 2 * certain)
        found = np.zeros(wanted.shape) if tangents[output] is None else tangents[output]
        assert np.all(abs(found - wanted) <= room + 16 * UNIT * abs(found))


@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_the_second_derivative_of_a_product_is_right_where_factors_are_zero(zeros: int) -> None:
    x = np.array([0.0] * zeros + [2.0, -3.0, 5.0][zeros - 1 :])
    builder = Builder()
    leaf = builder.leaf(real(*x.shape))
    y = builder.prod(leaf, axes=(0,))
    one = builder.constant(value=1.0, shape=())
    gradient = backprop(builder.graph(y), builder, [leaf, y, one], {y.id: one})[0]
    graph = builder.graph(gradient)
    values = evaluate(graph, float64(), [x])
    for j in range(len(x)):
        (tangent,) = (pushforward(graph, float64(), values, {0: np.eye(len(x))[j]})[output] for output in graph.outputs)
        wanted = [0.0 if i == j else np.prod(np.delete(x, [i, j])) for i in range(len(x))]
        assert np.array_equal(tangent, wanted)


KINKS: list[tuple[str, dict[str, Any], list[list[float]], list[list[float]]]] = [
    ("relu", {}, [[-1.0, 0.0, 1.0]], [[0.0, 0.0, 1.0]]),
    ("abs", {}, [[-1.0, 0.0, 1.0]], [[-1.0, 0.0, 1.0]]),
    ("sign", {}, [[-1.0, 0.0, 1.0]], []),
    ("maximum", {}, [[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]], [[0.0, 0.5, 1.0], [1.0, 0.5, 0.0]]),
    ("minimum", {}, [[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]], [[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]),
    ("max", {"axes": (0,)}, [[2.0, 1.0, 2.0]], [[0.5, 0.0, 0.5]]),
    ("min", {"axes": (0,)}, [[1.0, 1.0, 2.0]], [[0.5, 0.5, 0.0]]),
    ("prod", {"axes": (0,)}, [[0.0, 2.0, 3.0]], [[6.0, 0.0, 0.0]]),
    ("pow", {}, [[0.0, 0.0, 2.0, 0.0], [1.0, 0.0, 0.0, 2.0]], [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, math.log(2), 0.0]]),
    ("pow", {}, [[0.0, -2.0], [-1.0, 3.0]], [[-math.inf, 12.0], [0.0, 0.0]]),
]


@pytest.mark.parametrize(("op", "params", "x", "slopes"), KINKS, ids=[f"{case[0]}-{i}" for i, case in enumerate(KINKS)])
def test_derivatives_at_kinks_and_ties_are_the_stated_ones(
    op: str, params: dict[str, Any], x: list[list[float]], slopes: list[list[float]]
) -> None:
    D, inputs = float64(), tuple(np.array(v) for v in x)
    with np.errstate(all="ignore"):
        y = np.asarray(D.apply(PRIMITIVES[op], *inputs, **params))
        found = [pull(D, inputs, y, np.ones_like(y), **params) for pull in PRIMITIVES[op].vjp if pull is not None]  # type: ignore[union-attr] # none is variadic
    assert len(found) == len(slopes)
    for slope_found, slope_wanted in zip(found, slopes, strict=True):
        assert np.array_equal(slope_found, slope_wanted)


def test_the_first_of_equals_takes_the_derivative_of_a_pooled_maximum() -> None:
    D, x = float64(), np.array([[[1.0, 1.0, 0.0]]])
    params = {"window": (2,), "stride": (1,), "padding": ((0, 0),), "dilation": (1,)}
    pull = PRIMITIVES["max_pool"].pull(0)
    assert pull is not None
    assert pull(D, (x,), D.max_pool(x, **params), np.array([[[1.0, 10.0]]]), **params).tolist() == [[[1.0, 10.0, 0.0]]]

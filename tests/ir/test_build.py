"""Building graphs: operators mean what NumPy's mean, and what is wrong is refused at once, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices, mutually_broadcastable_shapes

from backproof.engine.domain import float64
from backproof.engine.evaluate import evaluate
from backproof.errors import GraphError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph, Leaf, Node
from backproof.ir.types import Type, boolean, integer, real

Array = np.ndarray[Any, Any]
fast = settings(max_examples=80, derandomize=True, database=None, deadline=None)


def run(function: Callable[..., Ref], *x: Array) -> Array:
    builder = Builder()
    leaves = [builder.leaf(real(*v.shape)) for v in x]
    y = function(*leaves)
    return np.asarray(evaluate(builder.graph(y), float64(), list(x))[y.id])


def numbers(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape) + 1).uniform(0.5, 2, shape)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


@pytest.mark.parametrize("sign", OPERATORS)
@fast
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=3))
def test_operators_broadcast_as_numpy_does(sign: str, shapes: Any) -> None:
    a, b = (numbers(*shape) for shape in shapes.input_shapes)
    assert np.array_equal(run(OPERATORS[sign], a, b), OPERATORS[sign](a, b))


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "**", "<", ">=", "==", "!="])
@pytest.mark.parametrize("other", [2, 0.5, True, [1.0, 2.0], np.array([3, 4]), np.float32(1.5)], ids=repr)
def test_operators_take_plain_numbers_on_either_side(sign: str, other: Any) -> None:
    if other is True:
        with pytest.raises(GraphError):
            run(lambda a: OPERATORS[sign](a, other), numbers(2))
        return
    a, plain = numbers(2), np.asarray(other, dtype=float)
    assert np.array_equal(run(lambda ref: OPERATORS[sign](ref, other), a), OPERATORS[sign](a, plain))
    if sign in "**+-/":
        assert np.array_equal(run(lambda ref: OPERATORS[sign](other, ref), a), OPERATORS[sign](plain, a))


def test_operators_of_one_value_are_numpy_s() -> None:
    a = numbers(3) - 1.0
    assert np.array_equal(run(abs, a), abs(a))
    assert np.array_equal(run(lambda ref: +ref, a), a)
    assert np.array_equal(run(lambda ref: -ref, a), -a)


def test_a_value_is_gone_through_along_its_first_axis() -> None:
    a = numbers(3, 2)
    assert np.array_equal(
        run(lambda ref: sum((row * i for i, row in enumerate(ref)), ref[0] * 0.0), a), a[1] + 2 * a[2]
    )
    assert len(Builder().leaf(real(3, 2))) == 3


def test_what_has_no_meaning_while_a_graph_is_made_says_so_and_adds_nothing() -> None:
    x, number = (builder := Builder()).leaf(real(2)), builder.leaf(real())
    positive = x > 0.0
    before = len(builder)
    for wrong, match in (
        (lambda: bool(positive), "no truth value"),
        (lambda: bool(x), "no truth value"),
        (lambda: np.asarray(x), "no array"),
        (lambda: len(number), "no length"),
        (lambda: list(number), "no length"),
        (lambda: x + 10**400, "too large"),
        (lambda: x * None, "not of NoneType"),
    ):
        with pytest.raises(GraphError, match=match):
            wrong()
    assert len(builder) == before
    assert (x == "text") is False  # no numbers to compare with
    assert {x: 1}[x] == 1  # and it is still a key


def test_a_builder_that_is_closed_adds_nothing_and_says_why() -> None:
    x = (builder := Builder()).leaf(real(2))
    builder.close("it is over")
    with pytest.raises(GraphError, match="it is over"):
        x + x
    assert len(builder) == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((5, 2, 3), (3, 4)),
        ((3,), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((2, 3), (6, 5, 3, 4)), ((5, 2, 3), (5, 3, 4)),
        ((1, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((2, 0), (0, 3)), ((0, 2, 3), (3, 4)),
    ],
)  # fmt: skip
def test_matrix_products_are_numpy_s(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = numbers(*left), numbers(*right)
    found, wanted = run(lambda p, q: p @ q, a, b), a @ b
    assert found.shape == wanted.shape
    assert np.allclose(found, wanted, rtol=1e-14, atol=0)  # at most 3 terms, all positive


@fast
@given(data=st.data(), shape=st.lists(st.integers(0, 4), max_size=3))
def test_basic_indexing_is_numpy_s(data: st.DataObject, shape: list[int]) -> None:
    key = data.draw(basic_indices(tuple(shape), allow_newaxis=False))
    steps = [item.step for item in (key if isinstance(key, tuple) else (key,)) if isinstance(item, slice)]
    x = numbers(*shape)
    if any(step is not None and step < 0 for step in steps):
        with pytest.raises(GraphError, match="positive steps"):
            run(lambda ref: ref[key], x)
        return
    assert np.array_equal(run(lambda ref: ref[key], x), x[key])


@pytest.mark.parametrize("key", [None, "a", 1.0, True, 7, (0, 0, 0), (slice(None, None, -1),)], ids=repr)
def test_other_indices_are_refused(key: Any) -> None:
    with pytest.raises(GraphError):
        run(lambda ref: ref[key], numbers(2, 3))


def test_constants_that_are_equal_and_not_the_same_are_kept_apart() -> None:
    builder = Builder()
    made = [builder.constant(value=value, shape=()) for value in (0.0, -0.0, 0, False, 1, 1.0, True, 0.0, -0.0)]
    assert len({ref.id for ref in made}) == 7
    values = evaluate(builder.graph(*made), float64(), [])
    assert [math.copysign(1, values[made[i].id]) for i in (0, 1, 7, 8)] == [1, -1, 1, -1]


def test_infinities_are_values_and_no_warnings() -> None:
    assert run(lambda x: x.builder.log(x - x), numbers(2)).tolist() == [-math.inf] * 2
    assert run(lambda x: x.builder.exp(x * 10_000.0), numbers(2)).tolist() == [math.inf] * 2


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_leaf_after_a_node_is_refused() -> None:
    builder = Builder()
    builder.neg(builder.leaf(real(2)))
    with pytest.raises(GraphError, match="late comes after 1 nodes"):
        builder.leaf(real(2), "late")


def test_values_of_another_graph_are_refused() -> None:
    here, there = Builder(), Builder()
    with pytest.raises(GraphError, match="another graph"):
        here.add(here.leaf(real()), there.leaf(real()))
    with pytest.raises(GraphError, match="expected a value"):
        here.neg(1.0)  # type: ignore[arg-type]


def test_unknown_names_are_refused_with_those_that_exist() -> None:
    builder = Builder()
    x = builder.leaf(real(2))
    with pytest.raises(AttributeError, match="tanh"):
        _ = builder.tahn
    with pytest.raises(GraphError, match="tanh"):
        builder.apply("tahn", x)
    with pytest.raises(GraphError, match=r"unknown: axis; missing: axes"):
        builder.sum(x, axis=0)


def test_what_fails_inside_an_atomic_block_leaves_nothing() -> None:
    builder = Builder()
    x, before = builder.leaf(real(2)), builder.constant(value=2.0, shape=())

    def fail_halfway() -> None:
        with builder.atomic():
            builder.add(x, builder.constant(value=1.0, shape=()))

    with pytest.raises(GraphError):
        fail_halfway()
    assert len(builder) == 2
    assert builder.constant(value=2.0, shape=()).id == before.id
    assert builder.constant(value=1.0, shape=()).id == 2


def test_a_graph_can_be_put_into_another() -> None:
    inner = Builder()
    a = inner.leaf(real(2))
    square = inner.graph(inner.mul(a, a, name="square"))

    outer = Builder()
    b = outer.leaf(real(2))
    values = outer.include(square, [outer.neg(b)])

    graph = outer.graph(values[-1])
    assert graph.name(values[-1].id) == "square"
    assert evaluate(graph, float64(), [[1.0, 3.0]])[-1].tolist() == [1.0, 9.0]
    with pytest.raises(GraphError, match="1 leaves, and got 0"):
        outer.include(square, [])


CONV = {"stride": (1,), "padding": ((0, 0),), "input_dilation": (1,), "window_dilation": (1,), "groups": 1}


@pytest.mark.parametrize(
    ("types", "op", "params", "says"),
    [
        ((real(2), real(3)), "add", {}, r"shape \[3\], input 0 has \[2\]"),
        ((real(2), integer(2)), "add", {}, "input 1 is int"),
        ((real(2, 3), real(2, 3)), "dot_general", {"contract": ((1,), (0,)), "batch": ((), ())}, "equal sizes"),
        ((real(2),), "sum", {"axes": (0, 0)}, "distinct"),
        ((real(2),), "sum", {"axes": (-1,)}, "from 0 to 0"),
        ((real(2),), "sum", {"axes": 0}, "do not fit"),
        ((real(0),), "max", {"axes": (0,)}, "no extreme of nothing"),
        ((real(0),), "argmax", {"axis": 0}, "no largest of nothing"),
        ((real(4),), "reshape", {"shape": (-1, 2)}, "whole numbers|cannot reshape"),
        ((real(4),), "reshape", {"shape": (2.0, 2.0)}, "whole numbers"),
        ((real(4),), "slice", {"start": (0,), "stop": (5,), "step": (1,)}, "stop ≤ 4"),
        ((real(1, 1, 3), real(1, 1, 2)), "conv", CONV | {"input_dilation": (0,)}, "at least 1"),
        ((real(1, 3, 3), real(1, 1, 2)), "conv", CONV | {"groups": 2}, "2 groups"),
        ((real(1, 1, 1),), "max_pool", {"window": (2,), "stride": (1,), "padding": ((2, 1),), "dilation": (3,)}, "hold nothing"),
        ((real(1, 1, 0),), "max_pool", {"window": (2,), "stride": (1,), "padding": ((1, 1),), "dilation": (1,)}, "hold nothing"),
        ((integer(), real(2, 3)), "scatter_add", {"axis": 5, "size": 1}, "from axis 5"),
        ((integer(2),), "cast", {"to": "float32"}, "cast to real first"),
        ((real(2),), "cast", {"to": "float24"}, "bfloat16"),
        ((boolean(2), boolean(2)), "lt", {}, "only numbers"),
    ],
)  # fmt: skip
def test_a_use_that_does_not_fit_is_refused_with_its_place_and_reason(
    types: tuple[Type, ...], op: str, params: dict[str, Any], says: str
) -> None:
    builder = Builder()
    leaves = [builder.leaf(kind) for kind in types]
    with pytest.raises(GraphError, match=says) as caught:
        builder.apply(op, *leaves, name="mine", **params)
    assert str(caught.value).startswith(f"value %{len(types)} (mine)")


def test_a_graph_is_checked_when_it_is_made() -> None:
    leaf = Leaf(real(2))
    for nodes, outputs in (
        ((Node("neg", (1,)),), (1,)),
        ((Node("neg", (0,)),), (2,)),
        ((Node("neg", (0, 0)),), (1,)),
        ((Node("neg", (0,), (("axis", 0),)),), (1,)),
        ((Node("nge", (0,)),), (1,)),
        ((), (-1,)),
    ):
        with pytest.raises(GraphError):
            Graph((leaf,), nodes, outputs)


@pytest.mark.parametrize(
    "text", ["real", "real[2", "real[-1]", "float[2]", "real[2,]", "real[1_0]", "real[٣]", "real[" + "9" * 19 + "]"]
)
def test_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(GraphError):
        Type.parse(text)
    for kind in (real(), integer(2, 0), boolean(1)):
        assert Type.parse(str(kind)) == kind

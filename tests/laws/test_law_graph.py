"""Graphs: text and JSON round-trip, the digest names what is computed, hostile input is refused, backpropagation is the gradient."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graphs import anything, smooth
from hypothesis import given
from hypothesis import strategies as st
from points import law
from test_law_derivative import UNIT, slope

from backproof.engine.domain import bounded, float64
from backproof.engine.evaluate import evaluate, pushforward
from backproof.errors import GraphError, InputError
from backproof.ir.backprop import backprop
from backproof.ir.graph import Graph, Node
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.text import digest, from_json, from_text, read_graph, to_json, to_text

Array = np.ndarray[Any, Any]


@law(200)
@given(graph=anything())
def test_text_and_json_are_read_back_as_they_were(graph: Graph) -> None:
    for write, read in ((to_text, from_text), (to_json, from_json)):
        again = read(write(graph))
        assert again == graph
        assert write(again) == write(graph)
        assert digest(again) == digest(graph)
        assert read_graph(write(graph)) == graph


def test_numbers_that_are_no_decimals_round_trip() -> None:
    for value in (float("inf"), float("-inf"), -0.0, 5e-324, 0.1, 1e308):
        graph = Graph((), (Node("constant", (), (("value", value), ("shape", ()))),), (0,))
        assert repr(from_json(to_json(graph)).nodes[0].given["value"]) == repr(value)
        assert repr(from_text(to_text(graph)).nodes[0].given["value"]) == repr(value)
    nan = Graph((), (Node("constant", (), (("value", float("nan")), ("shape", ()))),), (0,))
    assert digest(from_text(to_text(from_json(to_json(nan))))) == digest(nan)


# ── digest ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@law(100)
@given(graph=anything())
def test_the_digest_does_not_depend_on_names(graph: Graph) -> None:
    renamed = Graph(
        tuple(replace(leaf, name=f"leaf{i}") for i, leaf in enumerate(graph.leaves)),
        tuple(replace(node, name="") for node in graph.nodes),
        graph.outputs,
    )
    assert digest(renamed) == digest(graph)


@law(200)
@given(graph=anything(), data=st.data())
def test_the_digest_changes_with_any_change(graph: Graph, data: st.DataObject) -> None:
    changes = [replace(graph, outputs=(*graph.outputs, 0))] if len(graph) else []
    for i, node in enumerate(graph.nodes):
        for other in [
            *(replace(node, op=op) for op in PRIMITIVES if op != node.op),
            *(replace(node, arguments=tuple(order)) for order in [node.arguments[::-1]] if order != node.arguments),
            *(
                replace(node, arguments=(v, *node.arguments[1:]))
                for v in range(len(graph))
                if node.arguments[:1] not in ((v,), ())
            ),
            *(replace(node, params=changed) for changed in changed_params(node)),
        ]:
            try:
                changes.append(replace(graph, nodes=(*graph.nodes[:i], other, *graph.nodes[i + 1 :])))
            except GraphError:
                continue
    for other in changes:
        assert digest(other) != digest(graph)
    assert len({digest(other) for other in changes}) == len(set(changes))


def changed_params(node: Node) -> list[tuple[tuple[str, Any], ...]]:
    found = []
    for at, (key, value) in enumerate(node.params):
        if isinstance(value, bool):
            new = not value
        elif isinstance(value, (int, float)):
            new = value + 1
        elif isinstance(value, tuple) and value and isinstance(value[-1], int):
            new = (*value[:-1], value[-1] + 1)
        else:
            continue
        found.append((*node.params[:at], (key, new), *node.params[at + 1 :]))
    return found


def test_the_digest_is_the_same_today_as_ever() -> None:
    graph = from_text(
        "%0 x = leaf : real[2,3]\n%1 w = leaf : real[3,4]\n"
        "%2 = dot_general(%0, %1, contract=[[1], [0]], batch=[[], []]) : real[2,4]\n%3 y = tanh(%2) : real[2,4]\noutput %3\n"
    )
    assert digest(graph) == DIGEST


DIGEST = "sha256:470647552251d027d16299cd357990e8c4347bbab9065c948e618e477cde18b0"

# ── hostile input ───────────────────────────────────────────────────────────────────────────────────────────────────

NASTY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(
        ["", "real[2]", "real", "int[]", "add", "sum", "%1", "\ud800", "a" * 99, "real[" + "9" * 30 + "]"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["float", "real", "int", "bool", "shape", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def refused_or_read(read: Any, text: str | bytes) -> None:
    """Either it is a graph, or a clear refusal; never another exception."""
    try:
        graph = read(text)
    except (GraphError, InputError):
        return
    assert isinstance(graph, Graph)
    digest(graph)
    to_text(graph).encode()
    to_json(graph).encode()


@law(300)
@given(graph=anything(), data=st.data())
def test_damaged_text_is_refused_or_read_and_nothing_else(graph: Graph, data: st.DataObject) -> None:
    write, read = data.draw(st.sampled_from([(to_text, from_text), (to_json, from_json)]))
    text = write(graph)
    at = data.draw(st.integers(0, len(text)))
    end = min(len(text), at + data.draw(st.integers(0, 6)))
    put = data.draw(st.sampled_from(['"', *"[]{},9\n é٣", "", "-1", "1.5", "%7", "null", "true", "1e999"]))
    refused_or_read(read, text[:at] + put + text[end:])
    refused_or_read(read, text[:at])


@law(300)
@given(graph=anything(), data=st.data())
def test_json_with_anything_anywhere_is_refused_or_read_and_nothing_else(graph: Graph, data: st.DataObject) -> None:
    tree = json.loads(to_json(graph))
    for _ in range(data.draw(st.integers(1, 2))):
        place, key = data.draw(st.sampled_from(list(places(tree))))
        place[key] = data.draw(NASTY)
    refused_or_read(from_json, json.dumps(tree))


def places(tree: Any) -> Any:
    """Every (container, key) of a JSON tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key
        yield from places(value)


CONSTANT = (
    '{{"format": "backproof.graph.v1", "leaves": [], "outputs": [0], "nodes": ['
    '{{"op": "constant", "arguments": [], "params": {{"value": {}, "shape": {}}}, "name": ""}}]}}'
)


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ('{"real": [1.0], "shape": null}', "[1]"),
        ('{"real": [1.0], "shape": [-1]}', "[1]"),
        ('{"real": [1.0], "shape": [1.0]}', "[1]"),
        ('{"real": ["1.5"], "shape": [1]}', "[1]"),
        ('{"int": [1.5], "shape": [1]}', "[1]"),
        ('{"int": [36893488147419103232], "shape": [1]}', "[1]"),
        ('{"int": [true], "shape": [1]}', "[1]"),
        ('{"bool": [2], "shape": [1]}', "[1]"),
        ('{"real": [[1.0], [2.0, 3.0]], "shape": [3]}', "[3]"),
        ('{"real": 1.0, "shape": []}', "[]"),
        ('"text"', "[]"),
        ("[1, 2]", "[]"),
        ("36893488147419103232", "[]"),
        ("null", "[]"),
        ("1.0", "[2.0]"),
        ("1.0", "2"),
        ("1.0", "[9223372036854775807, 2]"),
        ("1.0", str([1] * 33)),
        ("1.0", "[" * 700 + "]" * 700),
        ("1.0", "[" * 100_000 + "]" * 100_000),
        ("1.0", "[" + "9" * 5000 + "]"),
    ],
)
def test_a_constant_of_the_wrong_sort_is_refused(value: str, shape: str) -> None:
    with pytest.raises((GraphError, InputError)):
        from_json(CONSTANT.format(value, shape))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "output",
        "%0 = leaf : real[2]",
        "%0 = leaf : real[2]\noutput %0 %",
        "%0 = leaf : real[2]\noutput garbage %0",
        "%0 = leaf : real[2]\noutput %0\noutput %0",
        "%0 = leaf : real[2]\n%1 = neg(%0) : real[3]\noutput %1",
        "%0 = leaf : real[2]\n%1 = neg(%0,) : real[2]\noutput %1",
        "%0 = leaf : real[2]\n%1 = add(%0 %0) : real[2]\noutput %1",
        "%0 = leaf : real[2]\n%1 = neg(%1) : real[2]\noutput %1",
        "%0 = leaf : real[2]\n%2 = neg(%0) : real[2]\noutput %2",
        "%0 = leaf : real[2]\n%1 = neg(%0) : real[2]\n%2 = leaf : real[2]\noutput %2",
        '%0 "a = leaf : real[2]\noutput %0',
        "%0 = leaf : real[2]\n%1 = sum(%0, axes=[0], axes=[0]) : real[]\noutput %1",
        "%" + "9" * 5000 + " = leaf : real[]\noutput %0",
        "%0 = leaf : real[" + "9" * 5000 + "]\noutput %0",
        "%0 = iota(size=" + "[" * 5000 + ") : int[]\noutput %0",
    ],
)
def test_text_that_is_no_graph_is_refused(text: str) -> None:
    if text == "output":
        assert len(from_text(text)) == 0  # a graph of nothing is one
        return
    with pytest.raises((GraphError, InputError)):
        from_text(text)


def test_keys_that_stand_twice_are_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        from_json('{"format": "backproof.graph.v1", "format": "x", "leaves": [], "nodes": [], "outputs": []}')


def test_the_order_of_parameters_in_json_does_not_matter() -> None:
    text = CONSTANT.format("1.0", "[2]").replace('"value": 1.0, "shape": [2]', '"shape": [2], "value": 1.0')
    assert from_json(text).nodes[0].params == (("value", 1.0), ("shape", (2,)))


# ── backpropagation ─────────────────────────────────────────────────────────────────────────────────────────────────


@law(60)
@given(drawn=smooth())
def test_backpropagation_is_the_gradient(drawn: tuple[Graph, list[Any]]) -> None:
    graph, leaves = drawn
    D, B, (output,) = float64(), bounded("float64"), graph.outputs
    values = evaluate(graph, D, leaves)
    noise = evaluate(graph, B, leaves)[output].certain
    gradients = backprop(graph, D, values, {output: np.array(1.0)})
    rng = np.random.default_rng(1)
    for leaf, numbers in enumerate(leaves):
        if leaf not in graph.real_leaves:
            assert gradients[leaf] is None
            continue
        grid = np.rint(numbers * 2.0**20) / 2.0**20
        moved_leaves = [grid if i == leaf else v for i, v in enumerate(leaves)]
        values = evaluate(graph, D, moved_leaves)
        found = backprop(graph, D, values, {output: np.array(1.0)})[leaf]
        direction = np.rint(rng.uniform(-1, 1, numbers.shape) * 2.0**6) / 2.0**6

        def at(t: float, leaf: int = leaf, grid: Array = grid, direction: Array = direction) -> Array:
            return np.asarray(
                evaluate(graph, D, [grid + t * direction if i == leaf else v for i, v in enumerate(leaves)])[output]
            )

        wanted, room = slope(at, 4 * noise)
        tangent = pushforward(graph, D, values, {leaf: direction})[output]
        along = 0.0 if found is None else np.sum(found * direction)
        scale = 0.0 if found is None else np.sum(abs(found * direction))
        depth = 8 * len(graph) * UNIT * scale + noise
        assert abs(along - (0.0 if tangent is None else tangent)) <= depth + 64 * noise
        assert abs(along - wanted) <= room + depth

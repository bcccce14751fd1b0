"""What compositions are among themselves, whatever any framework does."""

import numpy as np
import pytest
from agreement import Case, cotangents
from cases import CASES

from backproof.engine.domain import float64, prime_field
from backproof.engine.evaluate import evaluate, pushforward
from backproof.engine.field import P
from backproof.ir.backprop import backprop
from backproof.ir.build import Builder
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.text import digest, from_json, from_text, to_json, to_text
from backproof.ir.types import Type
from backproof.session.certify import certify

KINDS = {"f": "real", "i": "int", "b": "bool"}
FIRST = list({case.name: case for case in reversed(CASES) if all(x.size for x in case.arrays)}.values())


def graph_of(case: Case):
    B = Builder()
    leaves = [B.leaf(Type(KINDS[x.dtype.kind], x.shape)) for x in case.arrays]
    return B.graph(*case.mine(*leaves))


def inner(pairs):
    return (
        sum(int(np.sum(a.astype(object) * b.astype(object))) for a, b in pairs if a is not None and b is not None) % P
    )


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.name)
def test_reverse_mode_is_the_transpose_of_forward_mode(case: Case):
    graph, field, rng = graph_of(case), prime_field(3), np.random.default_rng(5)
    draw = lambda shape: rng.integers(0, P, shape, dtype=np.uint64)
    leaves = [draw(x.shape) if x.dtype.kind == "f" else x for x in case.arrays]
    values = evaluate(graph, field, leaves)
    seeds = {y: draw(graph.types[y].shape) for y in graph.outputs}
    tangents = {i: draw(graph.types[i].shape) for i in graph.real_leaves}

    pushed = pushforward(graph, field, values, tangents)
    pulled = backprop(graph, field, values, seeds)

    assert inner((pushed[y], seed) for y, seed in seeds.items()) == inner((dx, pulled[i]) for i, dx in tangents.items())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_composition_is_certified(case: Case):
    found = certify(graph_of(case), trials=1, seed=3)

    assert found.holds, str(found)
    assert found.error < 1e-9


@pytest.mark.parametrize("case", FIRST, ids=lambda case: case.name)
def test_a_composition_is_read_back_as_it_was_written(case: Case):
    graph = graph_of(case)

    assert from_json(to_json(graph)) == graph
    assert digest(from_text(to_text(graph))) == digest(graph)


@pytest.mark.parametrize(
    "params",
    [{}, {"stride": 2, "padding": 1}, {"stride": (3, 2), "dilation": 2, "groups": 2}, {"padding": (0, 2), "groups": 2}],
    ids=str,
)
def test_a_transposed_convolution_is_the_transpose_of_the_convolution(params):
    x, w = cotangents([(2, 4, 8, 9), (6, 4 // params.get("groups", 1), 3, 2)], 0)
    y = run("conv", (x, w), **params)
    (gy,) = cotangents([y.shape], 1)
    first = run("conv_transpose", (gy, w), **params)
    missing = [a - b for a, b in zip(x.shape[2:], first.shape[2:], strict=True)]

    gx = run("conv_transpose", (gy, w), **params, output_padding=missing)

    assert np.sum(y * gy) == pytest.approx(np.sum(x * gx), rel=1e-12)


def run(name, arrays, **params):
    B = Builder()
    leaves = [B.leaf(Type(KINDS[np.asarray(x).dtype.kind], np.asarray(x).shape)) for x in arrays]
    ref = COMPOSITIONS[name].function(*leaves, **params)
    return evaluate(B.graph(ref), float64(), arrays)[ref.id]


def gradient(name, x, **params):
    B = Builder()
    leaf = B.leaf(Type("real", x.shape))
    ref = COMPOSITIONS[name].function(leaf, **params)
    graph = B.graph(ref)
    values = evaluate(graph, float64(), [x])
    return backprop(graph, float64(), values, {ref.id: np.ones(ref.shape)})[0]


def test_a_square_root_has_no_slope_at_and_below_0():
    x = np.array([-4.0, 0.0, 4.0])

    assert run("safe_sqrt", (x,)).tolist() == [0, 0, 2]
    assert gradient("safe_sqrt", x).tolist() == [0, 0, 0.25]


def test_clamp_passes_or_stops_the_derivative_at_its_ends():
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])

    assert gradient("clamp", x, lo=-1, hi=1).tolist() == [0, 1, 1, 1, 0]
    assert gradient("clamp", x, lo=-1, hi=1, ends="stop").tolist() == [0, 0, 1, 0, 0]


def test_a_query_that_may_see_nothing_gets_zeros_and_no_derivative():
    q, k, v = cotangents([(2, 3), (4, 3), (4, 5)], 0)
    mask = np.array([[True, False, True, True], [False] * 4])

    found = run("attention", (q, k, v), attn_mask=mask)

    assert (found[1] == 0).all()
    assert (found[0] != 0).all()


def test_smooth_maxima_lie_above_the_maxima_and_come_near_them():
    (x,) = cotangents([(1, 2, 6, 6)], 0)
    hard = run("max_pool", (x,), kernel_size=3)

    soft, sharp = (run("smooth_max_pool", (x,), kernel_size=3, beta=beta) for beta in (1.0, 1000.0))

    assert (soft >= hard).all()
    assert (np.abs(sharp - hard) <= np.log(9) / 1000).all()


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in ("softplus", "logsigmoid", "log_softmax")], ids=lambda c: c.id
)
def test_what_could_overflow_does_not(case: Case):
    with np.errstate(all="raise", under="ignore"):
        graph = graph_of(case)
        arrays = [x * 1e3 for x in case.arrays]
        values = evaluate(graph, float64(), arrays)
        found = backprop(graph, float64(), values, {y: np.ones(graph.types[y].shape) for y in graph.outputs})

    assert all(np.isfinite(values[y]).all() for y in graph.outputs)
    assert np.isfinite(found[0]).all()

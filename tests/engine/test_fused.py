"""Runs of operations that are evaluated natively: the same numbers, and never more of a bound, than one operation after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backproof.engine import fused as module
from backproof.engine import slabs
from backproof.engine.bounded import Bound, Bounded
from backproof.engine.fused import DECIDES, POINTWISE, quickly
from backproof.engine.native.fused import BLOCK, library
from backproof.engine.runs import fused
from backproof.engine.slabs import Slabs, survey_of
from backproof.engine.sums import floor_of
from backproof.ir.build import Builder, Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.graph import Graph
from backproof.ir.types import real
from backproof.numerics import FORMATS, likely
from backproof.session.tape import compile_tape, run_backward
from backproof.verify.equation import measured

pytestmark = pytest.mark.skipif(library() is None, reason="there is no C compiler, and nothing is evaluated so")

CLOSE = (
    2.0**-40
)  # the native functions are within 2⁻⁵⁰ of their results; sums of some thousand numbers are added in another order
Write = Callable[..., Ref]


def graph_of(write: Write, *shapes: tuple[int, ...]) -> Graph:
    b = Builder()
    return b.graph(write(*(b.leaf(real(*shape)) for shape in shapes)))


def gradient_of(write: Write, *shapes: tuple[int, ...]) -> Graph:
    """The gradient of the first leaf, seeded with one more."""
    b = Builder()
    leaves = [b.leaf(real(*shape)) for shape in shapes]
    inner = graph_of(write, *shapes)
    seed = b.leaf(inner.types[inner.outputs[0]])
    values = b.include(inner, leaves)
    arrived: list[Any] = [None] * len(inner)
    arrived[inner.outputs[0]] = seed
    frozen = set(range(1, len(shapes)))
    found = run_backward(compile_tape(inner, b, values, frozen), arrived)[0]  # type: ignore[arg-type] # a builder is a domain
    return b.graph(found)


def both(graph: Graph, leaves: list[Any], D: Bounded | None = None) -> tuple[Bound, Bound]:
    """Evaluated natively, and one operation after the other."""
    D = D or Bounded("float32", brief=True)
    natively = Slabs(survey_of(graph), D, leaves).plainly(graph.outputs[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slabs, "library", lambda: None)
        plainly = Slabs(survey_of(graph), D, leaves).plainly(graph.outputs[0])
    return natively, plainly


def require_alike(natively: Bound, plainly: Bound, *, tight: float = 0.99) -> None:
    """The values agree, and the native bound is no larger than the other, and hardly smaller."""
    scale = np.max(abs(plainly.value), initial=0.0)
    assert np.all(abs(natively.value - plainly.value) <= CLOSE * (abs(plainly.value) + 1e-3 * scale))
    if plainly.likely is None:
        assert natively.likely is None or not np.any(natively.likely)
        return
    assert natively.likely is not None
    spoken = np.isfinite(plainly.likely)
    found, wanted = natively.likely[spoken], plainly.likely[spoken]
    assert np.all(found <= wanted * (1 + CLOSE) + CLOSE * 2.0**-24 * scale)
    assert np.all(found >= tight * wanted * (1 - CLOSE))


def run_of(graph: Graph) -> Any:
    return fused(graph, graph.outputs[0], Bounded("float32", brief=True), [True] * len(graph.leaves))


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def of(name: str, *more: Any, **given: Any) -> Write:
    """A composition of these leaves, and of what else it takes."""
    return lambda x, *leaves: COMPOSITIONS[name].function(x, *more, *leaves, **given)


softmax = of("softmax", dim=-1)


COMPOSED: dict[str, tuple[Write, tuple[tuple[int, ...], ...]]] = {
    "layer norm": (of("layer_norm", 48), ((6, 24, 48), (48,), (48,))),
    "rms norm": (of("rms_norm", 64), ((40, 64), (64,))),
    "softmax": (softmax, ((9, 130),)),
    "log softmax": (of("log_softmax", dim=-1), ((9, 130),)),
    "gelu by tanh": (of("gelu", approximate="tanh"), ((8, 200),)),
    "silu": (of("silu"), ((8, 200),)),
    "log sum exp": (lambda x: x.builder.apply("logsumexp", x, axes=(1,)), ((12, 100),)),
    "a sum over rows": (lambda x: x.builder.apply("sum", x * x, axes=(0,)), ((100, 24),)),
    "a sum along rows": (lambda x: x.builder.apply("sum", x * x, axes=(1,)), ((24, 100),)),
    "the smallest": (lambda x: x.builder.apply("min", x * x, axes=(1,)), ((24, 100),)),
    "single numbers": (lambda x, y: x * y + x / (y * y + 1.0) - 0.3, ((40, 40), (40, 40))),
}
LONG = {
    "layer norm": (of("layer_norm", 2 * BLOCK + 7), ((3, 2 * BLOCK + 7), (2 * BLOCK + 7,), (2 * BLOCK + 7,))),
    "softmax": (softmax, ((3, 3 * BLOCK + 1),)),
    "log sum exp": (COMPOSED["log sum exp"][0], ((3, 3 * BLOCK + 1),)),
    "a sum over rows": (COMPOSED["a sum over rows"][0], ((5, BLOCK + 9),)),
}


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.parametrize("backward", [False, True])
def test_compositions_are_evaluated_alike(name: str, backward: bool) -> None:
    write, shapes = COMPOSED[name]
    graph = gradient_of(write, *shapes) if backward else graph_of(write, *shapes)
    leaves = [normal(*leaf.type.shape, seed=i) for i, leaf in enumerate(graph.leaves)]
    require_alike(*both(graph, leaves))


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("backward", [False, True])
def test_rows_that_are_longer_than_a_block_are_evaluated_alike(name: str, backward: bool) -> None:
    write, shapes = LONG[name]
    graph = gradient_of(write, *shapes) if backward else graph_of(write, *shapes)
    leaves = [normal(*leaf.type.shape, seed=i) for i, leaf in enumerate(graph.leaves)]
    require_alike(*both(graph, leaves))


@pytest.mark.parametrize("name", ["layer norm", "softmax", "single numbers", "log sum exp", "a sum over rows"])
def test_it_is_a_single_run(name: str) -> None:
    write, shapes = COMPOSED[name]
    graph = graph_of(write, *shapes)
    found = run_of(graph)
    assert found is not None
    assert set(found.reads) <= set(range(len(graph.leaves)))


def where(a: Ref, b: Ref) -> Ref:
    return a.builder.apply("where", a.builder.apply("gt", a, b), a, b)


@pytest.mark.parametrize("name", [name for name in POINTWISE if name not in (*DECIDES, "where")])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.0, 1e-7, 1e-3, 0.5]))
def test_each_operation_has_the_value_and_no_more_of_a_bound(name: str, seed: int, spread: float) -> None:
    """Of operands that have bounds, too: the native one is simpler, and never larger."""
    random = np.random.default_rng(seed)
    b = Builder()
    arity = 2 if name in ("add", "sub", "mul", "div", "maximum", "minimum") else 1
    leaves = [b.leaf(real(8, 160)) for _ in range(arity)]
    graph = b.graph(b.apply(name, *leaves))
    given_ = []
    for place in range(arity):
        values = random.normal(size=(8, 160)) * 10.0 ** random.integers(-3, 2)
        if name != "div" or place == 0:
            values[:, ::9] = 0.0  # what is 0 is rounded to 0
        values = abs(values) + 1e-3 if name in ("log", "sqrt", "rsqrt") else values
        error = spread * abs(values) * random.uniform(size=values.shape)
        given_.append(Bound(values, error, error) if spread else values)
    natively, plainly = both(graph, given_)
    assert np.all(abs(natively.value - plainly.value) <= CLOSE * abs(plainly.value))
    if plainly.likely is not None:
        assert natively.likely is not None
        finite = np.isfinite(plainly.likely)
        assert np.all(natively.likely[finite] <= plainly.likely[finite] * (1 + CLOSE))


def test_a_wide_bound_of_what_weighs_nothing_does_not_widen_a_log_sum_exp() -> None:
    """As a masked score has: the whole analysis knows that it moves nothing, and this one leaves it to that."""
    value, error = normal(12, 100).astype(np.float64), np.full((12, 100), 1e-6)
    value[:, 7], error[:, 7] = -1e6, 1e3
    natively, plainly = both(graph_of(COMPOSED["log sum exp"][0], (12, 100)), [Bound(value, error, error)])
    assert np.all(plainly.likely < 1e-4)
    assert not np.any(natively.likely > plainly.likely * (1 + CLOSE))


def test_what_is_chosen_by_something_exact_is_chosen_in_the_run() -> None:
    graph = graph_of(where, (30, 40), (30, 40))
    assert run_of(graph) is not None
    require_alike(*both(graph, [normal(30, 40), normal(30, 40, seed=1)]))


def test_what_is_chosen_by_something_rounded_is_not() -> None:
    """Its doubt is a matter of the whole analysis."""
    graph = graph_of(lambda a, b: where(a * b, b), (30, 40), (30, 40))
    leaves = [normal(30, 40), normal(30, 40, seed=1)]
    assert run_of(graph) is None
    require_alike(*both(graph, leaves), tight=1.0)


def test_doubt_about_what_is_decided_is_carried_into_the_run() -> None:
    def write(a: Ref, b: Ref) -> Ref:
        decided = a.builder.apply("gt", a * b, b)
        return a.builder.apply("cast", decided, to="real") * b

    ones = normal(30, 40)
    ones[::3] = 1.0  # a·b and b are the same there, up to a rounding
    natively, plainly = both(graph_of(write, (30, 40), (30, 40)), [ones, normal(30, 40, seed=1)])
    assert np.any(plainly.likely > 1e-3)
    require_alike(natively, plainly)


def test_operands_are_read_as_they_lie() -> None:
    """Turned around, cut, spread out, in other types: nothing is copied, and nothing is confused."""

    def write(x: Ref, w: Ref) -> Ref:
        b = x.builder
        turned = b.apply("transpose", x, axes=(1, 0))
        cut = b.apply("slice", turned, start=(0, 2), stop=(128, 130), step=(1, 1))
        return cut * b.apply("broadcast", w, shape=(128, 128), axes=(1,)) + b.apply(
            "broadcast", w, shape=(128, 128), axes=(0,)
        )

    graph = graph_of(write, (132, 128), (128,))
    for kind in (np.float32, np.float64, np.int32, np.float16):
        x = (10 * normal(128, 132)).astype(kind).T
        require_alike(*both(graph, [x, normal(256)[::2]]))


@pytest.mark.parametrize("computing", ["float32", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_whole_numbers_that_stay_small_are_added_without_rounding(computing: str, axis: int) -> None:
    graph = graph_of(lambda x: x.builder.apply("sum", x, axes=(axis,)), (40, 40))
    for leaf in (np.ones((40, 40), np.float32), normal(40, 40)):
        for D in (Bounded(computing, brief=True), Bounded(computing, "float32", brief=True)):
            natively, plainly = both(graph, [leaf], D)
            require_alike(natively, plainly)
            assert (plainly.likely is None) == bool(np.all(leaf == 1))


def test_one_number_that_is_everywhere_may_be_exact() -> None:
    def write(x: Ref, one: Ref) -> Ref:
        everywhere = x.builder.apply("broadcast", one, shape=(40, 40), axes=())
        return x.builder.apply("where", x.builder.apply("gt", x, everywhere), everywhere * 2.0, everywhere * everywhere)

    natively, plainly = both(graph_of(write, (40, 40), ()), [normal(40, 40), np.float32(3.0)])
    require_alike(natively, plainly)
    assert plainly.likely is None


def test_a_weight_that_is_changed_before_it_is_spread_along_columns_is_not_taken_for_one_of_rows() -> None:
    def write(x: Ref, w: Ref) -> Ref:
        return x * x.builder.apply("broadcast", w * w + 1.0, shape=(64, 64), axes=(1,))

    require_alike(*both(graph_of(write, (64, 64), (64,)), [normal(64, 64), normal(64, seed=2)]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("name", ["softmax", "layer norm", "single numbers"])
def test_what_is_not_a_number_or_overflows_is_never_within_a_bound(bad: float, name: str) -> None:
    """Its row is left to the whole analysis: a claim that differs there is not accepted."""
    write, shapes = COMPOSED[name]
    graph = graph_of(write, *shapes)
    leaves = [normal(*leaf.type.shape, seed=i) for i, leaf in enumerate(graph.leaves)]
    leaves[0].reshape(-1)[5] = bad
    natively, plainly = both(graph, leaves)
    with np.errstate(invalid="ignore"):
        away = abs(plainly.value + 1.0 - natively.value) <= natively.likely
    lost = ~np.isfinite(plainly.value) | ~np.isfinite(plainly.likely)
    assert not np.any(away & lost & ~np.isfinite(plainly.value))
    kept = ~lost & np.isfinite(natively.likely)
    assert np.all(natively.likely[kept] <= plainly.likely[kept] * (1 + CLOSE) + 1e-30)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), wide=st.sampled_from([np.float32, np.float64]))
def test_a_claim_is_measured_alike(seed: int, wide: Any) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(1 << 10, 1 << 13))
    value = random.normal(size=size)
    bound = abs(value) * 1e-7 + 1e-12
    claim = (value + bound * random.uniform(-2, 2, size=size)).astype(wide)
    found = quickly(claim, value, bound)
    assert found is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "library", lambda: None)
        plain = measured(claim, Bound(value, bound, bound))
    assert (found[0], found[3]) == (plain.ratio, plain.at[0])
    assert math.isclose(found[1], plain.norm, rel_tol=1e-12)
    assert math.isclose(found[2], plain.lean, rel_tol=1e-6, abs_tol=1e-15)


def test_a_claim_with_what_is_not_finite_is_left_to_the_whole_measure() -> None:
    value, bound = normal(2048).astype(np.float64), np.full(2048, 1e-6)
    for place in (0, 2047):
        for bad in (np.nan, np.inf):
            claim = value.copy()
            claim[place] = bad
            assert quickly(claim, value, bound) is None
            assert measured(claim, Bound(value, bound, bound)).ratio == math.inf


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from([(8, 64, 8), (5, 1000, 3), (64, 7, 64)]))
def test_a_bound_by_some_of_the_terms_is_never_more_than_by_all(seed: int, shape: tuple[int, int, int]) -> None:
    """Of products with few terms that matter, and with many."""
    random = np.random.default_rng(seed)
    rows, terms, columns = shape
    a = random.normal(size=(rows, terms)) * (random.uniform(size=(rows, terms)) < random.uniform(0.01, 1))
    b = random.normal(size=(terms, columns)) * 10.0 ** random.integers(-20, 20)
    graph = graph_of(
        lambda x, y: x.builder.apply("dot_general", x, y, contract=((1,), (0,)), batch=((), ())),
        (rows, terms),
        (terms, columns),
    )
    leaves = [a.astype(np.float32), b.astype(np.float32)]
    whole, brief = (Slabs(survey_of(graph), Bounded("float32", brief=few), leaves).value(2) for few in (False, True))
    if whole.likely is None:
        return
    assert np.all(brief.likely <= whole.likely * (1 + CLOSE))
    every = floor_of(np.matmul, leaves, whole.value, terms, FORMATS["float32"], float(likely(terms, 2.0**-24)))
    assert np.all(every <= whole.likely * (1 + CLOSE))

"""What an honest execution computes stays inside the certain bound: forward, jvp and vjp, in every format that can be had.

Executions: float32 of NumPy and of torch; bfloat16 and float16, simulated, their sums in the format itself and in float32.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import array_api_compat.torch as torch_namespace
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import Point, law, points
from simulated import simulated

from backproof.engine.bounded import Bound
from backproof.engine.domain import Domain, bounded, float32, namespace
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.types import Type, real
from backproof.numerics import FORMATS

Array = np.ndarray[Any, Any]
EXECUTIONS: dict[str, tuple[Domain, Domain, str]] = {
    "NumPy float32": (float32(), bounded("float32"), "float32"),
    "torch float32": (namespace(torch_namespace, "float32"), bounded("float32"), "float32"),
    "bfloat16": (simulated("bfloat16", "bfloat16"), bounded("bfloat16"), "bfloat16"),
    "bfloat16, sums in float32": (simulated("bfloat16", "float32"), bounded("bfloat16", "float32"), "bfloat16"),
    "float16": (simulated("float16", "float16"), bounded("float16"), "float16"),
    "float16, sums in float32": (simulated("float16", "float32"), bounded("float16", "float32"), "float16"),
}
LOOSENESS: dict[str, list[float]] = defaultdict(list)
UNLIKELY: dict[str, list[int]] = defaultdict(lambda: [0, 0])


@pytest.fixture(scope="module", autouse=True)
def report(request: pytest.FixtureRequest) -> Iterator[None]:
    """The figures of the run: median looseness for each primitive, and how often the likely bound was exceeded."""
    yield
    if not LOOSENESS:
        return
    medians = {op: float(np.median(seen)) for op, seen in sorted(LOOSENESS.items())}
    exceeded, all_seen = (sum(counts[k] for counts in UNLIKELY.values()) for k in (0, 1))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n  bound / error, median: " + ", ".join(f"{op} {figure:.1f}" for op, figure in medians.items()))
        print(f"  likely bound exceeded: {exceeded} of {all_seen} numbers")


def check(label: str, wanted: Bound, found: Any, D: Domain, *, measured: bool = True) -> None:
    """The execution's numbers against the bounds; truth values and indices may differ only in doubt."""
    found = np.asarray(D.array(found))
    if wanted.value.dtype.kind != "f":
        doubt = np.zeros(found.shape, dtype=bool) if wanted.certain is None else wanted.certain
        assert np.all((found == wanted.value) | doubt)
        return
    with np.errstate(invalid="ignore"):
        error = abs(found.astype(np.float64) - wanted.value)
    error = np.where(found == wanted.value, 0.0, error)
    certain = np.zeros(error.shape) if wanted.certain is None else wanted.certain
    likely = np.zeros(error.shape) if wanted.likely is None else wanted.likely
    assert not np.isnan(certain).any()
    assert np.all(likely <= certain)
    assert np.all((error <= certain) | np.isinf(certain)), (error.max(), certain)
    UNLIKELY[label][0] += int(np.count_nonzero(error > likely))
    UNLIKELY[label][1] += error.size
    if measured and error.size and error.max() > 0 and np.isfinite(certain).all():
        LOOSENESS[label].append(float(certain.max() / error.max()))


def given_numbers(point: Point, style: str, format_name: str) -> tuple[Array, ...]:
    return tuple(representable(x, format_name) for x in point.x(style))


def representable(x: Array, format_name: str) -> Array:
    return FORMATS[format_name].round(x) if x.dtype.kind == "f" else x


def values(D: Domain, x: tuple[Array, ...], types: tuple[Type, ...]) -> tuple[Any, ...]:
    return tuple(D.value(number, kind) for number, kind in zip(x, types, strict=True))


@pytest.mark.parametrize("op", PRIMITIVES)
def test_forward_jvp_and_vjp_stay_inside_the_certain_bound_and_it_is_not_loose(op: str) -> None:
    @law(30)
    @given(point=points(op), execution=st.sampled_from(list(EXECUTIONS)), style=st.sampled_from(["plain", "tied"]))
    def run(point: Point, execution: str, style: str) -> None:
        D, B, name = EXECUTIONS[execution]
        x = given_numbers(point, style, name)
        honest, bounds = values(D, x, point.types), values(B, x, point.types)
        with np.errstate(all="ignore"):
            y, z = (R.apply(point.primitive, *v, **point.params) for R, v in ((D, honest), (B, bounds)))
            check(op, z, y, D)
            for rule, kind, salt in rules(point):
                t = representable(point.like(kind, salt), name)
                found = rule(D, honest, y, D.value(t, kind), **point.params)
                wanted = rule(B, bounds, z, B.value(t, kind), **point.params)
                check(op, wanted, found, D)

    run()
    seen = LOOSENESS.get(op, [])
    assert len(seen) < 20 or np.median(seen) <= 50  # a median of fewer says nothing


def rules(point: Point) -> Iterator[tuple[Any, Type, int]]:
    """The derivative's formulas, each with the type of what it is applied to."""
    for i in point.differentiable:
        yield point.primitive.push(i), point.types[i], 10 + i
        yield point.primitive.pull(i), point.type, 20


@pytest.mark.parametrize("execution", EXECUTIONS)
def test_long_sums_stay_inside_the_likely_bound_too(execution: str) -> None:
    D, B, name = EXECUTIONS[execution]
    rng = np.random.default_rng(3)
    params = {"contract": ((1,), (0,)), "batch": ((), ())}
    for length in (100, 200):
        a, b = (representable(rng.normal(size=shape), name) for shape in ((20, length), (length, 20)))
        wanted = B.dot_general(B.value(a, real(*a.shape)), B.value(b, real(*b.shape)), **params)
        found = D.array(D.dot_general(D.value(a, real(*a.shape)), D.value(b, real(*b.shape)), **params))
        check("long sums", wanted, found, float32())
    exceeded, all_seen = UNLIKELY["long sums"]
    assert exceeded == 0, all_seen


# ── operands that carry errors ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("op", [op for op in PRIMITIVES if op != "constant"])
@law(30)
@given(data=st.data(), style=st.sampled_from(["plain", "tied"]), size=st.sampled_from([1e-6, 1e-3, 0.1]))
def test_errors_of_the_operands_are_carried(op: str, data: st.DataObject, style: str, size: float) -> None:
    point = data.draw(points(op))
    check_carried(point, point.x(style), size, 4)


DECIDING = [
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "argmax",
    "argsort",
    "topk",
    "pool_argmax",
    "max_pool",
    "max",
    "relu",
    "sign",
]


@pytest.mark.parametrize("op", DECIDING)
@law(60)
@given(data=st.data())
def test_every_decision_that_errors_may_turn_is_in_doubt(op: str, data: st.DataObject) -> None:
    """Numbers nearer to each other than their errors, so that many decisions turn."""
    point, size = data.draw(points(op)), 2.0**-6
    rng = point.rng(6)
    x = tuple(
        size / 4 * rng.integers(-4, 5, kind.shape) if kind.kind == "real" else v
        for kind, v in zip(point.types, point.x(), strict=True)
    )
    check_carried(point, x, size, 12)


def check_carried(point: Point, x: tuple[Array, ...], size: float, tries: int) -> None:
    """Operands moved anywhere within their errors: the result stays within its own, and what is decided otherwise was in doubt."""
    D, rng = bounded("float64"), point.rng(7)
    grid = 2.0**-30  # on which adding an error is exact
    x = tuple(np.rint(v / grid) * grid if v.dtype.kind == "f" else v for v in x)
    errors = [
        np.rint(size * rng.integers(0, 2, v.shape) * rng.random(v.shape) / grid) * grid if v.dtype.kind == "f" else None
        for v in x
    ]
    bounds = tuple(Bound(v.value, e, e) for v, e in zip(values(D, x, point.types), errors, strict=True))
    with np.errstate(all="ignore"):
        wanted = D.apply(point.primitive, *bounds, **point.params)
        for _ in range(tries):
            moved = tuple(
                v if e is None else v + e * rng.integers(-1, 2, v.shape) for v, e in zip(x, errors, strict=True)
            )
            found = D.apply(point.primitive, *values(D, moved, point.types), **point.params)
            check(point.op + " of errors", wanted, found.value, float32(), measured=False)


@law(200)
@given(data=st.data(), op=st.sampled_from(["gather", "scatter_add", "gather_along", "scatter_along", "where"]))
def test_an_index_in_doubt_may_be_any_other(op: str, data: st.DataObject) -> None:
    point, B = data.draw(points(op)), bounded("float32")
    position = 1 if op.startswith("gather") else 0
    rng, x = point.rng(7), list(given_numbers(point, "plain", "float32"))
    doubt = rng.random(x[position].shape) < 0.3
    bounds = list(values(B, tuple(x), point.types))
    bounds[position] = Bound(bounds[position].value, doubt, doubt)
    wanted = B.apply(point.primitive, *bounds, **point.params)
    for salt in range(3):
        other = Point(op, point.types, point.params, point.domains, point.seed + 1 + salt).x()[position]
        x[position] = np.where(doubt, other, point.x()[position])
        found = float32().apply(point.primitive, *values(float32(), tuple(x), point.types), **point.params)
        check(op + " in doubt", wanted, found, float32(), measured=False)


# ── chains ──────────────────────────────────────────────────────────────────────────────────────────────────────────

LINKS = {
    **{op: (op, {}) for op in ("neg", "exp", "expm1", "tanh", "sigmoid", "erf", "sin", "cos", "relu", "abs")},
    "cumsum": ("cumsum", {"axis": 1, "reverse": False}),
    "flip": ("flip", {"axes": (0,)}),
    "transposed": ("transpose", {"axes": (1, 0)}),
    **{op: (op, {}) for op in ("add", "sub", "mul", "maximum", "minimum", "div")},
    "matmul": ("dot_general", {"contract": ((1,), (0,)), "batch": ((), ())}),
    "argsort": ("argsort", {"axis": 1, "descending": True}),
    "max": ("max", {"axes": (1,)}),
    "logsumexp": ("logsumexp", {"axes": (1,)}),
    "prod": ("prod", {"axes": (1,)}),
    "sum": ("sum", {"axes": (0,)}),
}


def follow(D: Domain, links: list[str], x: Array, w: Array) -> list[Any]:
    """Each link of the chain applied to what the one before gave, together with w where it takes two."""
    current, other = D.value(x, real(*x.shape)), D.value(w, real(*w.shape))
    found = []
    for link in links:
        op, params = LINKS[link]
        two = PRIMITIVES[op].arity == 2
        step = D.apply(PRIMITIVES[op], *((current, other) if two else (current,)), **params)
        found.append(step)
        if op == "argsort":
            step = D.gather_along(current, step, axis=1)
        elif len(step.shape) < len(x.shape):
            step = D.broadcast(step, shape=x.shape, axes=(1,) if op == "sum" else (0,))
        current = step
        found.append(step)
    return found


@law(150)
@given(
    links=st.lists(st.sampled_from(list(LINKS)), min_size=2, max_size=4),
    execution=st.sampled_from(list(EXECUTIONS)),
    size=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_chain_of_primitives_stays_inside_the_certain_bound(
    links: list[str], execution: str, size: int, seed: int
) -> None:
    D, B, name = EXECUTIONS[execution]
    rng = np.random.default_rng(seed)
    x, w = (representable(rng.uniform(-2, 2, (size, size)), name) for _ in range(2))
    with np.errstate(all="ignore"):
        for found, wanted in zip(follow(D, links, x, w), follow(B, links, x, w), strict=True):
            check("a chain", wanted, found, D)

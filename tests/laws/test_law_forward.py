"""Each primitive computes what its mathematics says, and what its shape rule foretells, in every domain."""

from __future__ import annotations

import array_api_compat.torch as torch_namespace
import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import GENERATORS, Point, law, points
from slow import SLOW

from backproof.engine.bounded import Bound
from backproof.engine.domain import Domain, bounded, exact, float32, float64, namespace, prime_field
from backproof.errors import DomainError
from backproof.ir.primitives import PRIMITIVES
from backproof.numerics import FORMATS, gamma

every_primitive = pytest.mark.parametrize("op", PRIMITIVES)
DOMAINS = {
    "float64": float64(),
    "float32": float32(),
    "exact": exact(surrogates=True),
    "field": prime_field(3),
    "bounded": bounded("float32"),
    "torch": namespace(torch_namespace),
    "strict": namespace(array_api_strict),
}
NATIVE = {"real": "f", "int": "i", "bool": "b"}


def test_every_primitive_has_a_generator_and_a_slow_definition() -> None:
    assert set(GENERATORS) == set(PRIMITIVES)
    assert set(SLOW) == set(PRIMITIVES)


def run(D: Domain, point: Point, style: str = "plain") -> np.ndarray:
    x = [D.value(given, kind) for given, kind in zip(point.x(style), point.types, strict=True)]
    return D.apply(point.primitive, *x, **point.params)


def magnitude(point: Point, style: str) -> np.ndarray | float:
    """For sums, what their terms add up to in size: the scale of their rounding."""
    if point.op in ("sum", "cumsum", "dot_general", "conv", "sum_pool", "scatter_add", "scatter_along"):
        sizes = (abs(x) if x.dtype.kind == "f" else x for x in point.x(style))
        return SLOW[point.op](*sizes, **point.params)
    return 0.0


def terms(point: Point) -> int:
    return max([1, *(kind.size for kind in point.types)])


@every_primitive
@law(60)
@given(data=st.data(), style=st.sampled_from(["plain", "tied", "whole"]))
def test_float64_agrees_with_the_slow_definition(op: str, data: st.DataObject, style: str) -> None:
    point = data.draw(points(op))
    wanted = SLOW[op](*point.x(style), **point.params)

    found = float64().array(run(DOMAINS["float64"], point, style))

    assert found.shape == wanted.shape == point.type.shape
    if point.type.kind != "real":
        assert np.array_equal(found, wanted)
        return
    # Sums round as γₙ of their terms' magnitudes, and so does a product; an elementary function is within 4 units on either side.
    unit = FORMATS["float64"].unit
    room = gamma(terms(point), unit) * magnitude(point, style) + (8 + terms(point) * (op == "prod")) * unit * abs(
        wanted
    )
    room = room + (16 * unit if op == "logsumexp" else 0.0)
    assert np.all(abs(found - wanted) <= room)


@every_primitive
@pytest.mark.parametrize("name", ["torch", "strict"])
@law(20)
@given(data=st.data(), style=st.sampled_from(["plain", "tied", "whole"]))
def test_any_array_namespace_agrees_with_numpy(op: str, name: str, data: st.DataObject, style: str) -> None:
    point = data.draw(points(op))
    wanted = DOMAINS["float64"].array(run(DOMAINS["float64"], point, style))

    found = DOMAINS[name].array(run(DOMAINS[name], point, style))

    assert found.shape == wanted.shape
    assert found.dtype.kind == wanted.dtype.kind
    if point.type.kind != "real":
        assert np.array_equal(found, wanted)
        return
    unit = FORMATS["float64"].unit
    room = 2 * gamma(terms(point), unit) * magnitude(point, style) + (16 + terms(point) * (op == "prod")) * unit * abs(
        wanted
    )
    assert np.all(abs(found - wanted) <= room + (32 * unit if op == "logsumexp" else 0.0))


@every_primitive
@pytest.mark.parametrize("name", DOMAINS)
@law(12)
@given(data=st.data())
def test_the_shape_rule_foretells_shape_and_kind(op: str, name: str, data: st.DataObject) -> None:
    point, D = data.draw(points(op)), DOMAINS[name]

    found = run(D, point, "whole")

    value = found.value if isinstance(found, Bound) else found
    assert tuple(value.shape) == point.type.shape
    carrier = {"exact": "O", "field": "u"}.get(name, "f")
    assert np.asarray(D.array(found)).dtype.kind == (carrier if point.type.kind == "real" else NATIVE[point.type.kind])
    if isinstance(found, Bound) and found.certain is not None:
        for error in (found.certain, found.likely):
            assert error.shape == found.shape
            assert error.dtype.kind == ("f" if point.type.kind == "real" else "b")


RATIONAL = [
    op
    for op in PRIMITIVES
    if op not in ("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "logsumexp")
]


@pytest.mark.parametrize("op", RATIONAL)
@law(25)
@given(data=st.data())
def test_exact_agrees_with_float64_on_small_whole_numbers(op: str, data: st.DataObject) -> None:
    point = data.draw(points(op))
    wanted = SLOW[op](*point.x("whole"), **point.params)

    found = run(exact(), point, "whole")

    assert found.shape == wanted.shape
    assert np.array_equal(found.astype(wanted.dtype), wanted)


@pytest.mark.parametrize("op", sorted(set(PRIMITIVES) - set(RATIONAL)))
@law(5)
@given(data=st.data())
def test_exact_refuses_what_leaves_the_rationals(op: str, data: st.DataObject) -> None:
    point = data.draw(points(op))
    with pytest.raises(DomainError, match="leaves the rationals"):
        run(exact(), point, "whole")

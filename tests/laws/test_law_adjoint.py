"""The vjp of every primitive is the transpose of its jvp: ⟨jvp(dx), gy⟩ = ⟨dx, vjp(gy)⟩, along every input that has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import Point, law, points

from backproof.engine.bounded import Bound
from backproof.engine.domain import ArrayDomain, Domain, bounded, exact, prime_field
from backproof.engine.field import P
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.types import Type
from backproof.numerics import FORMATS, gamma

DIFFERENTIABLE = [op for op, primitive in PRIMITIVES.items() if primitive.differentiable]
TRANSCENDENTAL = ("exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "logsumexp")
every_derivative = pytest.mark.parametrize("op", DIFFERENTIABLE)


def both_ways(D: Domain, point: Point, i: int, x: tuple[Any, ...], dx: Any, gy: Any) -> tuple[Any, Any]:
    """The tangent that dx becomes, and the cotangent that gy becomes."""
    y = D.apply(point.primitive, *x, **point.params)
    push, pull = point.primitive.push(i), point.primitive.pull(i)
    assert push is not None
    assert pull is not None
    return push(D, x, y, dx, **point.params), pull(D, x, y, gy, **point.params)


def values(D: Domain, point: Point, style: str) -> tuple[Any, ...]:
    return tuple(D.value(given, kind) for given, kind in zip(point.x(style), point.types, strict=True))


def elements(point: Point, kind: Type, salt: int) -> np.ndarray[Any, Any]:
    return point.rng(salt).integers(0, P, kind.shape, dtype=np.uint64)


def total(a: Any, b: Any) -> Any:
    """Σ a·b in Python's own whole numbers and fractions."""
    return sum(p * q for p, q in zip(np.asarray(a).ravel().tolist(), np.asarray(b).ravel().tolist(), strict=True))


def test_a_rule_of_forward_mode_has_its_rule_of_reverse_mode() -> None:
    for primitive in PRIMITIVES.values():
        if not primitive.variadic:
            assert [rule is None for rule in primitive.jvp] == [rule is None for rule in primitive.vjp]


@every_derivative
@law(30)
@given(data=st.data())
def test_in_the_field_exactly(op: str, data: st.DataObject) -> None:
    point, D = data.draw(points(op)), prime_field(5)
    x = tuple(
        elements(point, kind, k) if kind.kind == "real" else D.value(number, kind)
        for k, (kind, number) in enumerate(zip(point.types, point.x("whole"), strict=True))
    )
    for i in point.differentiable:
        dx, gy = elements(point, point.types[i], 10 + i), elements(point, point.type, 20)

        dy, gx = both_ways(D, point, i, x, dx, gy)

        assert dy.shape == gy.shape
        assert gx.shape == dx.shape
        assert (total(dy, gy) - total(dx, gx)) % P == 0


@every_derivative
@law(20)
@given(data=st.data())
def test_over_whole_numbers_exactly(op: str, data: st.DataObject) -> None:
    check_exactly(exact(surrogates=True), data.draw(points(op)))


@pytest.mark.parametrize("op", sorted(set(DIFFERENTIABLE) - {*TRANSCENDENTAL, "pow"}))
@law(15)
@given(data=st.data())
def test_over_the_rationals_exactly(op: str, data: st.DataObject) -> None:
    check_exactly(exact(), data.draw(points(op)))


def check_exactly(D: ArrayDomain, point: Point) -> None:
    x = values(D, point, "whole")
    for i in point.differentiable:
        dx = D.value(point.like(point.types[i], 10 + i, "whole"), point.types[i])
        gy = D.value(point.like(point.type, 20, "whole"), point.type)

        dy, gx = both_ways(D, point, i, x, dx, gy)

        assert dy.shape == gy.shape
        assert gx.shape == dx.shape
        assert total(dy, gy) == total(dx, gx)


@every_derivative
@law(20)
@given(data=st.data(), style=st.sampled_from(["plain", "tied"]))
def test_in_float64_within_the_bound_of_both_sides(op: str, data: st.DataObject, style: str) -> None:
    point, D = data.draw(points(op)), bounded("float64")
    x = values(D, point, style)
    for i in point.differentiable:
        dx, gy = point.like(point.types[i], 10 + i), point.like(point.type, 20)

        dy, gx = both_ways(D, point, i, x, D.value(dx, point.types[i]), D.value(gy, point.type))

        room = slack(dy, gy) + slack(gx, dx)
        assert abs(np.sum(dy.value * gy) - np.sum(dx * gx.value)) <= room


def slack(found: Bound, weight: np.ndarray[Any, Any]) -> float:
    """How far Σ found·weight may be off: its own rounding, and the bound of what it sums."""
    error = 0.0 if found.certain is None else found.certain
    n = gamma(found.value.size + 1, FORMATS["float64"].unit)
    return float(np.sum(error * abs(weight)) + n * np.sum(abs(found.value * weight)))

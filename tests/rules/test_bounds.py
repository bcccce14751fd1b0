"""The bounds: rigorous on random values, and tight enough to see a lost sign."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backproof.engine.scalar_domain import FLOATS
from backproof.receipt import canonical_number
from backproof.rules.ball import BALLS, Ball, nine_digit_radius

values = st.floats(1e-6, 1e6).flatmap(lambda x: st.sampled_from([x, -x]))


def ball(x):
    stored = float(canonical_number(x))
    mid = np.array([stored])
    return Ball(mid, nine_digit_radius(mid))


def holds(found, exact):
    return abs(Fraction(float(found.mid[0])) - exact) <= Fraction(float(found.rad[0]))


@given(values)
def test_nine_digits_stay_within_their_radius(x):
    assert holds(ball(x), Fraction(x))


@given(values, values)
def test_arithmetic_on_balls_contains_the_exact_result(x, y):
    a, b = ball(x), ball(y)

    assert holds(a + b, Fraction(x) + Fraction(y))
    assert holds(a - b, Fraction(x) - Fraction(y))
    assert holds(a * b, Fraction(x) * Fraction(y))
    assert holds(a / b, Fraction(x) / Fraction(y))


@given(st.floats(-20, 20).filter(lambda x: abs(x) > 1e-9))
def test_functions_of_balls_contain_the_value_at_the_unrounded_point(x):
    for name in ("exp", "relu", "step"):
        found = getattr(BALLS, name)(ball(x))
        exact = getattr(FLOATS, name)(np.array([x]))
        assert abs(found.mid - exact) <= found.rad + 4e-16 * abs(exact)


@given(st.floats(1e-6, 1e6))
def test_log_and_sqrt_of_balls_contain_the_value_at_the_unrounded_point(x):
    for name in ("log", "sqrt"):
        found = getattr(BALLS, name)(ball(x))
        exact = getattr(FLOATS, name)(np.array([x]))
        assert abs(found.mid - exact) <= found.rad + 4e-16 * (1 + abs(exact))


def test_division_by_a_ball_around_zero_bounds_nothing():
    with np.errstate(invalid="ignore"):
        found = ball(1.0) / Ball(np.array([1e-12]), np.array([1e-9]))

    assert np.isinf(found.rad).all()


@pytest.mark.parametrize("x", [0.0, -0.0])
def test_zero_stands_for_itself_alone(x):
    assert nine_digit_radius(np.array([x])).tolist() == [0.0]

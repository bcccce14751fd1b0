"""The bounds: rigorous on random values, and tight enough to see a lost sign."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backproof.engine.scalar import Optimizer, apply_optimizer
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


@given(st.floats(-1e3, 1e3), st.floats(0.0, 1e6), st.floats(-1e3, 1e3), st.floats(1e-12, 1.0), st.integers(1, 50))
def test_no_update_of_adam_is_larger_than_the_limit_of_its_bound(m, v, g, epsilon, t):
    adam = Optimizer("adam", 0.1, beta1=0.9, beta2=0.999, epsilon=epsilon, t=float(t))
    state = {"m": np.array([[m]]), "v": np.array([[v]])}
    wide = {
        key: Ball(value, np.abs(value) + 1.0) for key, value in state.items()
    }  # may be 0, so no quotient is bounded

    update, *_ = apply_optimizer(FLOATS, adam, np.zeros((1, 1)), np.array([[g]]), state)
    with np.errstate(all="ignore"):
        exact = {key: Ball(value, np.zeros((1, 1))) for key, value in state.items()}
        gradient = Ball(np.array([[g]]), np.array([[1e6]]))
        found, *_ = apply_optimizer(BALLS, adam_of_balls(adam), Ball(*np.zeros((2, 1, 1))), gradient, exact)
        unknown, *_ = apply_optimizer(BALLS, adam_of_balls(adam), Ball(*np.zeros((2, 1, 1))), gradient, wide)

    assert abs(update - found.mid) <= found.rad < np.inf
    assert not found.rad > unknown.rad  # less is known of what is wider


@pytest.mark.parametrize("rate", [1e-8, 0.1, 30.0])
def test_a_first_update_of_adam_is_at_most_the_learning_rate_whatever_its_gradient(rate):
    adam = adam_of_balls(Optimizer("adam", rate, beta1=0.9, beta2=0.999, epsilon=1e-8, t=1.0))
    none = Ball(*np.zeros((2, 1, 1)))

    with np.errstate(all="ignore"):
        update, *_ = apply_optimizer(BALLS, adam, none, Ball(np.zeros((1, 1)), np.ones((1, 1))), {"m": none, "v": none})

    assert rate <= update.rad <= 1.001 * rate


def adam_of_balls(adam):
    numbers = {key: getattr(adam, key) for key in ("learning_rate", "beta1", "beta2", "epsilon", "t")}
    return adam._replace(**{key: Ball(np.array([value]), np.array([0.0])) for key, value in numbers.items()})


def test_division_by_a_ball_around_zero_bounds_nothing():
    with np.errstate(invalid="ignore"):
        found = ball(1.0) / Ball(np.array([1e-12]), np.array([1e-9]))

    assert np.isinf(found.rad).all()


@pytest.mark.parametrize("x", [0.0, -0.0])
def test_zero_stands_for_itself_alone(x):
    assert nine_digit_radius(np.array([x])).tolist() == [0.0]

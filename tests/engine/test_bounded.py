"""The bounded domain at its edges: overflow, underflow, masks, infinities, decisions, and numbers that formats cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.domain import bounded
from backproof.errors import UsageError
from backproof.ir.tensor import Tensor
from backproof.ir.types import integer, real

INF = float("inf")
LARGEST = float(np.finfo(np.float32).max)


def leaf(D: Any, numbers: Any, error: Any = None) -> Bound:
    value = D.value(numbers, real(*np.shape(numbers))).value
    return Bound(
        value, *(2 * (None if error is None else np.broadcast_to(np.asarray(error, dtype=float), value.shape),))
    )


def test_a_sum_whose_parts_overflow_has_no_bound_though_its_value_is_small() -> None:
    D = bounded("float16")
    x = leaf(D, [60000.0, 60000.0, -60000.0, -60000.0])
    assert D.sum(x, axes=(0,)).certain == INF
    assert D.dot_general(x, leaf(D, [1.0] * 4), contract=((0,), (0,)), batch=((), ())).certain == INF
    assert D.cumsum(x, axis=0, reverse=False).certain[-1] == INF
    assert bounded("float16", "float32").sum(x, axes=(0,)).certain < 0.1


def test_a_product_that_underflows_on_the_way_is_off_by_what_follows() -> None:
    D = bounded("float32")
    found = D.prod(leaf(D, [1e-30, 1e-30, 1e30, 1e30]), axes=(0,))
    honest = np.float32(1e-30) * np.float32(1e-30) * np.float32(1e30) * np.float32(1e30)
    assert abs(float(honest) - found.value) <= found.certain


@pytest.mark.parametrize("masked", [-INF, -LARGEST], ids=["infinity", "the lowest number"])
def test_a_mask_keeps_its_bounds(masked: float) -> None:
    """Masked scores, shifted by their maximum and exponentiated: exactly 0, whatever the other scores' errors are."""
    D = bounded("float32")
    scores = leaf(D, [[1.0, 2.0, 3.0]], 1e-6)
    mask = D.constant(value=Tensor.of(np.array([[0.0, 0.0, masked]])), shape=(1, 3))
    masked = D.add(scores, mask)
    shifted = D.sub(masked, D.broadcast(D.max(masked, axes=(1,)), shape=(1, 3), axes=(0,)))
    weights = D.exp(shifted)
    assert np.isfinite(weights.certain).all()
    assert weights.value[0, 2] == 0
    assert weights.certain.max() < 1e-5
    assert weights.certain[0, 2] < 1e-30
    assert np.isfinite(D.logsumexp(masked, axes=(1,)).certain).all()


@pytest.mark.parametrize("error", [1e-9, 0.3, 0.999, 1.001, 5.0, 600.0])
@pytest.mark.parametrize("x", [-1e4, -600.0, -3.0, 0.0, 4.0])
def test_an_exponential_is_bounded_at_both_ends_of_its_argument(x: float, error: float) -> None:
    bound = bounded("float64").exp(leaf(bounded("float64"), [x], error))
    with np.errstate(over="ignore"):
        for end in (np.exp(x - error), np.exp(x + error)):
            assert abs(end - np.exp(x)) <= bound.certain[0] * (1 + 1e-12)


def test_what_is_beyond_a_format_is_an_infinity_in_it() -> None:
    D = bounded("float32")
    found = D.cast(leaf(D, [-1e300, 1.0, LARGEST]), to="float32")
    assert found.value.tolist() == [-INF, 1.0, LARGEST]
    assert found.certain[0] == 0
    assert D.cast(leaf(D, [-1e300], 1e-3), to="float32").certain[0] == INF


def test_the_logarithm_of_a_zero_in_doubt_has_no_bound() -> None:
    D = bounded("float32")
    assert D.log(leaf(D, [0.0], 1e-30)).certain[0] == INF
    assert D.log(leaf(D, [0.0])).certain[0] == 0
    assert D.sqrt(leaf(D, [1e-9], 1e-8)).certain[0] == INF
    assert D.pow(leaf(D, [0.0], 1e-3), leaf(D, [2.0])).certain[0] == INF
    assert D.div(leaf(D, [1.0]), leaf(D, [1e-3], 1e-2)).certain[0] == INF


def test_what_overflows_the_format_has_no_bound() -> None:
    D = bounded("float16")
    assert D.exp(leaf(D, [12.0])).certain[0] == INF
    assert D.exp(leaf(D, [10.0])).certain[0] < 500


def test_a_result_that_vanishes_may_be_flushed() -> None:
    D = bounded("float32")
    tiny = D.mul(leaf(D, [2.0**-70]), leaf(D, [2.0**-70]))
    assert tiny.certain[0] >= tiny.value[0]


def test_constants_that_the_format_cannot_hold_carry_their_rounding() -> None:
    D = bounded("bfloat16")
    assert D.constant(value=0.5, shape=(2,)).certain is None
    assert np.all(D.constant(value=0.1, shape=(2,)).certain >= abs(0.1 - 0.10009765625))


def test_a_broadcast_index_is_looked_at_as_a_whole_when_it_becomes_a_number() -> None:
    D = bounded("float32")
    index = D.broadcast(D.value([1, 2**24 + 1], integer(2)), shape=(3, 2), axes=(1,))
    found = D.cast(index, to="real")
    assert found.certain is not None
    assert np.all(found.certain[:, 1] >= 1)


def test_a_change_of_kind_to_what_it_is_keeps_the_error() -> None:
    D = bounded("float32")
    assert D.cast(leaf(D, [1.0], 0.25), to="real").certain[0] == 0.25
    assert D.cast(leaf(D, [1.0], 0.25), to="bfloat16").certain[0] > 0.25


def test_decisions_are_in_doubt_only_where_errors_reach() -> None:
    D = bounded("float32")
    close, far = leaf(D, [[1.0, 1.05, 3.0], [1.0, 2.0, 3.0]], 0.1), leaf(D, [[1.0, 2.0, 3.0]] * 2)
    assert D.gt(close, leaf(D, [[1.08] * 3] * 2)).certain.tolist() == [[True, True, False], [True, False, False]]
    assert D.argsort(close, axis=1, descending=False).certain.tolist() == [[True, True, False], [False] * 3]
    assert D.topk(close, k=1, axis=1).certain is None
    assert D.argmax(far, axis=1).certain is None


def test_exact_equals_are_not_in_doubt_though_others_carry_errors() -> None:
    D = bounded("float32")
    x = leaf(D, [1.0, 1.0, 0.0], [0.0, 0.0, 0.1])
    assert D.argmax(x, axis=0).certain is None


def test_an_index_in_doubt_makes_doubtful_only_what_it_may_touch() -> None:
    D = bounded("float32")
    index = Bound(np.array([0, 1]), *(2 * (np.array([True, False]),)))
    read = D.gather(leaf(D, [1.0, 2.0, 4.0]), index, axis=0)
    assert read.certain[1] == 0
    assert 3 <= read.certain[0] < 6
    written = D.scatter_add(index, leaf(D, [[1.0, 3.0]]), axis=1, size=4)
    assert np.all((written.certain >= 1) & (written.certain < 1.001))


def test_sums_in_a_wider_format_are_bounded_more_tightly() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 500)), rng.normal(size=(500, 4))
    params = {"contract": ((1,), (0,)), "batch": ((), ())}
    narrow, wide = (
        D.dot_general(leaf(D, a), leaf(D, b), **params) for D in (Bounded("bfloat16"), Bounded("bfloat16", "float32"))
    )
    assert np.all(wide.certain < narrow.certain / 50)
    assert np.all(narrow.likely < narrow.certain)


def test_tf32_rounds_the_operands_of_products_and_stores_float32() -> None:
    D = bounded("tf32")
    a, b = leaf(D, [[1 + 2.0**-12]]), leaf(D, [[1.0]])
    found = D.dot_general(a, b, contract=((1,), (0,)), batch=((), ()))
    assert found.certain[0, 0] >= 2.0**-12
    assert D.add(a, b).certain[0, 0] < 2.0**-20


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="there are"):
        bounded("float24")


def test_small_whole_numbers_are_added_without_rounding() -> None:
    D = bounded("bfloat16")
    assert D.sum(leaf(D, [1.0] * 256), axes=(0,)).certain is None
    assert D.sum(leaf(D, [1.0] * 257), axes=(0,)).certain > 0
    assert D.sum(leaf(D, [1.0, 0.5]), axes=(0,)).certain > 0
    ones = leaf(D, np.ones((4, 4)))
    assert D.dot_general(ones, ones, contract=((1,), (0,)), batch=((), ())).certain is None


def test_a_number_that_cannot_be_the_largest_has_no_part_in_its_error() -> None:
    D = bounded("float32")
    x = leaf(D, [[1.0, 2.0, -LARGEST]], np.array([[1e-6, 1e-7, 2e31]]))
    assert D.max(x, axes=(1,)).certain[0] == pytest.approx(1e-7, rel=1e-5)
    near = leaf(D, [[1.0, 1.0 - 1e-7]], np.array([[1e-8, 3e-6]]))
    assert D.max(near, axes=(1,)).certain[0] == pytest.approx(2.9e-6, rel=1e-5)
    assert D.min(near, axes=(1,)).certain[0] == pytest.approx(3e-6, rel=1e-5)
    same = leaf(D, [[-INF, -INF]], 0.0)
    assert D.max(same, axes=(1,)).certain[0] == 0
    assert D.max(leaf(D, [[7.0, 7.0]], 1e-20), axes=(1,)).certain[0] == pytest.approx(1e-20, rel=1e-5)


def test_what_is_infinite_becomes_any_whole_number() -> None:
    D = bounded("float32")
    assert D.cast(leaf(D, [1.5, -2.0]), to="int").certain is None
    np.testing.assert_array_equal(D.cast(leaf(D, [1.5, -INF, np.nan]), to="int").certain, [False, True, True])
    np.testing.assert_array_equal(D.cast(leaf(D, [1.5, INF, 2.0], 1e-3), to="int").certain, [False, True, True])


def test_of_sums_products_quotients_and_roots_what_is_0_is_exact() -> None:
    D = bounded("float32")
    x, y = leaf(D, [0.0, 0.1, -0.3]), leaf(D, [1 / 3, 0.1, 0.0])
    for found, exact in (
        (D.sub(x, y), [False, True, False]),
        (D.mul(x, y), [True, False, True]),
        (D.sqrt(D.abs(x)), [True, False, False]),
        (D.add(x, leaf(D, [0.0, 0.0, 0.0], 1e-9)), [False, False, False]),
    ):
        np.testing.assert_array_equal(found.certain == 0, exact)
    assert np.all(D.mul(leaf(D, [1e-40]), leaf(D, [1e-40])).certain > 0)  # this is not 0, and underflows


def test_a_whole_number_and_another_are_added_and_multiplied_without_rounding() -> None:
    D = bounded("bfloat16")
    three, tenth = (D.constant(value=value, shape=(2, 2)) for value in (3.0, 0.1))
    assert D.sub(three, D.constant(value=1.0, shape=(2, 2))).certain is None
    assert D.mul(three, D.constant(value=101.0, shape=(2, 2))).certain.min() > 0
    assert D.mul(tenth, three).certain.min() > 0

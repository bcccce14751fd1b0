"""The domains one by one: what they read, what they refuse, and the arithmetic that is theirs alone."""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backproof.engine import field
from backproof.engine.domain import DOMAINS, Domain, domain_named, exact, float64, prime_field
from backproof.engine.evaluate import evaluate
from backproof.engine.exact import rational
from backproof.engine.field import P
from backproof.errors import DomainError
from backproof.ir.build import Builder
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.types import Type, boolean, integer, real

fast = settings(max_examples=100, derandomize=True, database=None, deadline=None)
elements = st.integers(0, P - 1) | st.sampled_from([0, 1, 2, P - 1, P - 2, 2**32, 2**32 - 1, 2**60, 2**60 - 1])


def as_field(numbers: list[int]) -> Any:
    return np.array(numbers, dtype=np.uint64)


# ── what a domain reads ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_has_every_primitive_and_knows_its_name(name: str) -> None:
    D = domain_named(name)
    assert all(callable(getattr(D, op)) for op in PRIMITIVES)
    assert D.name.startswith(name)
    assert np.asarray(D.array(D.zeros((2, 0)))).shape == (2, 0)


def test_an_unknown_domain_is_refused_with_those_that_exist() -> None:
    with pytest.raises(DomainError, match="bounded"):
        domain_named("complex")


@pytest.mark.parametrize(
    "D", [float64(), exact(), prime_field(), domain_named("bounded"), domain_named("float32")], ids=lambda D: D.name
)
@pytest.mark.parametrize(
    ("given_value", "kind"),
    [
        ([1.0, 2.0], real(3)),
        (1.0, real(1)),
        ([1.5], integer(1)),
        (np.array([1.5]), integer(1)),
        (np.array([np.nan]), integer(1)),
        (np.array([np.inf]), integer(1)),
        ([2], boolean(1)),
        ([0.5], boolean(1)),
        (["one"], real(1)),
        ([None], real(1)),
        ([[1.0], [2.0, 3.0]], real(2)),
        ([1j], real(1)),
        ([2**70], integer(1)),
    ],
)
def test_what_is_not_of_the_type_is_refused(D: Domain, given_value: Any, kind: Type) -> None:
    with pytest.raises(DomainError):
        D.value(given_value, kind)


def test_values_do_not_go_stale_when_the_domain_computes() -> None:
    given_array = np.array([1.0, 2.0])
    D = float64()
    D.relu(D.neg(D.value(given_array, real(2))))
    assert np.array_equal(given_array, [1.0, 2.0])


def test_evaluate_names_the_leaf_that_is_wrong() -> None:
    builder = Builder()
    graph = builder.graph(builder.neg(builder.leaf(real(2), "weight")))
    with pytest.raises(DomainError, match=r"leaf weight.*real\[2\]"):
        evaluate(graph, float64(), [[1.0]])
    with pytest.raises(DomainError, match="1 leaves, and got 0"):
        evaluate(graph, float64(), [])


# ── the field ───────────────────────────────────────────────────────────────────────────────────────────────────────


@fast
@given(pairs=st.lists(st.tuples(elements, elements), min_size=1, max_size=20), shift=st.integers(0, 130))
def test_field_arithmetic_is_that_of_python_s_whole_numbers(pairs: list[tuple[int, int]], shift: int) -> None:
    a, b = (as_field([pair[k] for pair in pairs]) for k in (0, 1))
    assert field.add(a, b).tolist() == [(p + q) % P for p, q in pairs]
    assert field.multiply(a, b).tolist() == [p * q % P for p, q in pairs]
    assert field.negative(a).tolist() == [-p % P for p, _ in pairs]
    assert field.rotate(a, shift).tolist() == [p * 2**shift % P for p, _ in pairs]
    assert int(field.total_of(a, None)) == sum(p for p, _ in pairs) % P
    K = prime_field().kernels
    assert K.subtract(a, b).tolist() == [(p - q) % P for p, q in pairs]
    products = K.prod(np.stack([a, b]), axis=(0, 1))
    assert int(products) == np.prod([int(n) for pair in pairs for n in pair], dtype=object) % P
    assert K.cumulative_sum(a, axis=0).tolist() == [sum(p for p, _ in pairs[: k + 1]) % P for k in range(len(pairs))]


@pytest.mark.parametrize("terms", [0, 1, 1023, 1024, 1025, 3000])
def test_field_matrix_products_are_exact_at_every_length(terms: int) -> None:
    rng = np.random.default_rng(terms)
    a, b = (rng.integers(P - 2**20, P, shape, dtype=np.uint64) for shape in ((2, terms), (terms, 3)))
    wanted = a.astype(object) @ b.astype(object) % P if terms else np.zeros((2, 3))
    assert np.array_equal(field.matmul(a, b).astype(object), wanted)


@fast
@given(value=st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_becomes_the_element_that_it_is(value: float) -> None:
    D = prime_field()
    fraction = Fraction(value)
    wanted = fraction.numerator * pow(fraction.denominator, -1, P) % P
    assert int(D.value(value, real())) == wanted
    if isinstance(value, int):
        whole = D.value(value, integer())
        assert int(D.cast(whole, to="real")) == value % P


def test_field_elements_are_reduced_when_read() -> None:
    assert prime_field().value(as_field([P, P + 1, 2**64 - 1]), real(3)).tolist() == [0, 1, (2**64 - 1) % P]


def test_symbols_depend_on_name_argument_and_seed_and_on_nothing_else() -> None:
    x = as_field([1, 2, 3])
    D, same, other = prime_field(1), prime_field(1), prime_field(2)
    assert np.array_equal(D.exp(x), same.exp(x))
    assert not np.any(D.exp(x) == other.exp(x))
    assert not np.any(D.exp(x) == D.tanh(x))
    assert D.exp(x)[1] == D.exp(x[1:2])[0]
    assert np.all(D.exp(x) < P)
    assert D.gt(np.arange(4000, dtype=np.uint64), np.zeros(4000, dtype=np.uint64)).mean() == pytest.approx(
        0.5, abs=0.05
    )


# ── the rationals ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_rounded_in_the_exact_domain() -> None:
    D = exact()
    third = D.div(D.value(1, real()), D.value(3, real()))
    assert third[()] == Fraction(1, 3)
    assert D.mul(third, D.value(3, real()))[()] == 1
    assert rational(0.1) == Fraction(3602879701896397, 36028797018963968)
    assert type(D.value(2.0, real())[()]) is int


def test_the_exact_domain_refuses_what_has_no_value() -> None:
    D = exact()
    zero, half = D.value(0, real()), D.value(Fraction(1, 2), real())
    for attempt in (lambda: D.div(half, zero), lambda: D.pow(zero, D.value(-1, real())), lambda: D.pow(half, half)):
        with pytest.raises(DomainError):
            attempt()
    for number in (float("nan"), float("inf"), True):
        with pytest.raises(DomainError):
            D.value(number, real())


@pytest.mark.parametrize("flint", [True, False], ids=["python-flint", "without"])
@pytest.mark.parametrize("fractions", [False, True], ids=["whole", "fractions"])
def test_large_exact_products_agree_with_small_ones(
    fractions: bool, flint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not flint:
        monkeypatch.setitem(sys.modules, "flint", None)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, (20, 20)).astype(object) for _ in range(2))
    if fractions:
        a = a * Fraction(1, 7)
    D = exact()
    left, right = D.value(a, real(20, 20)), D.value(b, real(20, 20))
    whole = D.dot_general(left, right, contract=((1,), (0,)), batch=((), ()))
    rows = [D.dot_general(left[i : i + 1], right, contract=((1,), (0,)), batch=((), ())) for i in range(20)]
    assert np.array_equal(whole, np.concatenate(rows))
    assert {type(value) for value in whole.ravel()} <= {int, Fraction}

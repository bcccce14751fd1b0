from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backproof.receipt import NumberRangeError, canonical_number, js_exponential, js_number
from backproof.receipt.numbers import canonical_decimal

CANONICAL = {
    1e-12: "0.00000000000100000000",
    1e-13: "0.000000000000100000000",
    0.5: "0.500000000",
    1.0: "1.00000000",
    -0.0: "0.000000000",
    9999999.99: "9999999.99",
    123456.789: "123456.789",
    -0.012345678949999999: "-0.0123456789",
}


@pytest.mark.parametrize("value", CANONICAL)
def test_a_number_has_nine_digits_and_no_exponent(value):
    assert canonical_number(value) == CANONICAL[value]


@pytest.mark.parametrize("value", [1e-14, 1e7, 9999999.999, math.inf, math.nan])
def test_a_number_out_of_range_is_refused(value):
    with pytest.raises(NumberRangeError):
        canonical_number(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.9999999995", "1.00000000"),
        ("9.999999995", "10.0000000"),
        ("0.01234567895", "0.0123456790"),
        ("0.01234567885", "0.0123456788"),
        ("-0.000", "0.000000000"),
    ],
)
def test_a_decimal_is_rounded_half_to_even(text, expected):
    assert canonical_decimal(text) == expected


@pytest.mark.parametrize("text", ["1e-7", "01.5", ".5", "+1", "", "1.", "9999999.999"])
def test_a_text_that_is_no_plain_decimal_is_refused(text):
    with pytest.raises(NumberRangeError):
        canonical_decimal(text)


@given(st.floats(1e-13, 9.9999999e6).flatmap(lambda x: st.sampled_from([x, -x])))
def test_reading_a_canonical_number_and_writing_it_again_changes_nothing(x):
    text = canonical_number(x)

    assert canonical_number(float(text)) == text
    assert abs(float(text) - x) <= 5.000001e-9 * abs(x)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5e-10, "-1.5e-10"),
        (5e-324, "5e-324"),
        (1.0, "1"),
        (0.1, "0.1"),
        (-0.0, "0"),
        (123.456, "123.456"),
        (3, "3"),
    ],
)
def test_javascript_spells_numbers_its_own_way(value, expected):
    assert js_number(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_javascript_text_reads_back_as_the_same_number(x):
    assert float(js_number(x)) == x


def test_exponential_text_has_an_unpadded_exponent():
    assert js_exponential(9.997697515e-7) == "9.997697515e-7"
    assert js_exponential(0.0) == "0.000000000e+0"
    assert js_exponential(math.nan) == "NaN"
    assert js_exponential(9.9999999999) == "1.000000000e+1"

"""Rounding, units in the last place and ranks: against torch's casts, NumPy's neighbours, and each format's own bit patterns."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backproof.errors import UsageError
from backproof.numerics import FORMATS, NOT_COMPARABLE, Format, format_named, gamma, likely, ulp_distance

Array = np.ndarray[Any, Any]
TORCH = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float8_e4m3": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}
BITS = {
    "float16": (torch.int16, 16),
    "bfloat16": (torch.int16, 16),
    "float8_e4m3": (torch.int8, 8),
    "float8_e5m2": (torch.int8, 8),
}
small_formats = pytest.mark.parametrize("name", BITS)


def patterns(name: str) -> Array:
    """Every number of a small format, as float64, in the order of its bits."""
    kind, width = BITS[name]
    bits = torch.arange(-(2 ** (width - 1)), 2 ** (width - 1)).to(kind)
    return bits.view(TORCH[name]).to(torch.float64).numpy()


def finite_ascending(name: str) -> Array:
    found = patterns(name)
    return np.unique(found[np.isfinite(found)])


def same(a: Array, b: Array) -> bool:
    """Equal to the bit, and NaN where the other is."""
    return bool(np.all((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b)))


def test_hard_cases_of_float32_are_rounded_as_numpy_rounds_them() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.integers(0, 2**63, 200_000).view(np.float64),
            np.ldexp(rng.uniform(-2, 2, 200_000), rng.integers(-160, 130, 200_000)),
            rng.integers(-(2**24), 2**24, 100_000) * 2.0**-150,  # halfway between subnormals
            np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4028235677973366e38, 3.4028235677973362e38]),
        ]
    )
    with np.errstate(all="ignore"):
        assert same(FORMATS["float32"].round(x), x.astype(np.float32).astype(np.float64))


@pytest.mark.parametrize("name", TORCH)
def test_rounding_is_torch_s_cast(name: str) -> None:
    """From float32, which torch casts once: a cast from float64 may go by way of float32 and round twice."""
    rng = np.random.default_rng(1)
    low, high = (-140, 120) if name in ("bfloat16", "float32", "float64") else (-30, 20)
    bits = rng.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate(
        [
            np.ldexp(rng.uniform(-2, 2, 100_000), rng.integers(low, high, 100_000)).astype(np.float32),
            bits[~np.isnan(bits)],
            np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype=np.float32),
        ]
    )
    if name == "float8_e4m3":  # which has no infinity: torch saturates, ml_dtypes and this library say NaN
        x = x[abs(x) <= 464]
    wanted = torch.from_numpy(x).to(TORCH[name]).to(torch.float64).numpy()
    assert same(FORMATS[name].round(x), wanted)


@pytest.mark.parametrize(
    ("name", "dtype"), [("float8_e4m3", ml_dtypes.float8_e4m3fn), ("float8_e5m2", ml_dtypes.float8_e5m2)]
)
def test_rounding_to_eight_bits_is_that_of_ml_dtypes_beyond_the_largest_too(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [np.ldexp(rng.uniform(-2, 2, 20_000), rng.integers(-30, 30, 20_000)), [464.0, 465.0, np.inf, -np.inf]]
    )
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        assert same(FORMATS[name].round(x), x.astype(dtype).astype(np.float64))


@small_formats
def test_ties_between_neighbours_go_to_even_and_beside_them_to_the_nearer(name: str) -> None:
    numbers = finite_ascending(name)
    below, above = numbers[:-1], numbers[1:]
    middle = (below + above) / 2
    x = np.concatenate([middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)])
    found = FORMATS[name].round(x).reshape(3, -1)
    even = np.where(FORMATS[name].rank(below) % 2 == 0, below, above)
    assert np.array_equal(found, np.stack([even, below, above]))


@small_formats
def test_overflow_begins_half_a_unit_beyond_the_largest(name: str) -> None:
    fmt = FORMATS[name]
    edge = fmt.largest + fmt.ulp(fmt.largest) / 2
    beyond = math.inf if fmt.infinity else math.nan
    assert fmt.round(np.nextafter(edge, 0)) == fmt.largest
    # Half a unit beyond goes to even: to what would be the next power of two, but in e4m3, whose largest is even.
    assert same(
        fmt.round(np.array([edge, 2 * edge, -2 * edge])),
        np.array([fmt.largest if not fmt.infinity else beyond, beyond, -beyond]),
    )


@small_formats
def test_the_facts_of_a_format_are_those_of_its_bit_patterns(name: str) -> None:
    fmt, numbers = FORMATS[name], finite_ascending(name)
    positive = numbers[numbers > 0]
    assert fmt.largest == numbers[-1]
    assert fmt.tiniest == positive[0]
    assert fmt.unit == (positive[positive > 1][0] - 1) / 2
    assert np.array_equal(fmt.round(numbers), numbers)
    normal = positive[positive >= fmt.smallest_normal]
    assert normal[0] == fmt.smallest_normal
    assert np.all(np.diff(normal) <= 2 * fmt.unit * normal[:-1])
    assert np.diff(positive)[0] == fmt.tiniest


@small_formats
def test_ranks_count_every_number(name: str) -> None:
    numbers = finite_ascending(name)
    ranks = FORMATS[name].rank(numbers)
    assert np.array_equal(np.diff(ranks), np.ones(len(numbers) - 1))
    assert FORMATS[name].rank(0.0) == FORMATS[name].rank(-0.0) == 0


@pytest.mark.parametrize(("name", "dtype"), [("float64", np.float64), ("float32", np.float32)])
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(data=st.data(), steps=st.integers(0, 5))
def test_the_distance_to_numpy_s_nth_neighbour_is_n(name: str, dtype: Any, data: st.DataObject, steps: int) -> None:
    width = 8 * np.dtype(dtype).itemsize
    start = dtype(data.draw(st.floats(allow_nan=False, allow_infinity=False, width=width)))
    limit = np.finfo(dtype).max
    toward = dtype(-limit if start > 0 else limit)  # always one way, and never beyond the largest
    end = start
    for _ in range(steps):
        end = np.nextafter(end, toward)
    assert ulp_distance(start, end, FORMATS[name]) == ulp_distance(end, start, FORMATS[name]) == steps
    if np.isfinite(start) and abs(start) < limit:
        size = dtype(abs(start))
        assert FORMATS[name].ulp(start) == float(np.nextafter(size, dtype(np.inf))) - float(size)


def test_distances_beyond_all_numbers() -> None:
    for fmt in FORMATS.values():
        assert ulp_distance(math.nan, math.nan, fmt) == 0
        assert ulp_distance(math.nan, 1.0, fmt) == NOT_COMPARABLE
        assert fmt.ulp(0.0) == fmt.tiniest
        assert np.isnan(fmt.ulp(math.inf))
        if fmt.infinity:
            assert ulp_distance(math.inf, fmt.largest, fmt) == 1
            assert ulp_distance(math.inf, math.inf, fmt) == 0
            assert ulp_distance(-math.inf, math.inf, fmt) >= ulp_distance(-fmt.largest, fmt.largest, fmt)
    assert ulp_distance(-1e308, 1e308, FORMATS["float64"]) == NOT_COMPARABLE
    assert ulp_distance(1.0, -1.0, FORMATS["float32"]) == 2 * 127 * 2**23
    assert np.array_equal(
        ulp_distance([1.0, np.nan], [1.0 + 2.0**-23, np.inf], FORMATS["float32"]), [1, NOT_COMPARABLE]
    )


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(x=st.floats(allow_nan=False, allow_infinity=False), name=st.sampled_from(list(FORMATS)))
def test_rounding_changes_no_more_than_the_unit_says(x: float, name: str) -> None:
    fmt: Format = FORMATS[name]
    rounded = float(fmt.round(x))
    assert fmt.round(rounded) == rounded or math.isnan(rounded)
    if math.isfinite(rounded):
        assert abs(rounded - x) <= max(fmt.unit * abs(x), fmt.tiniest / 2)
        assert 2 * abs(rounded - x) <= fmt.ulp(x)
    else:
        assert abs(x) > fmt.largest


def test_gamma_bounds_every_product_of_roundings() -> None:
    for fmt in FORMATS.values():
        for n in (0, 1, 2, 5):
            worst = math.expm1(n * math.log1p(fmt.unit)), -math.expm1(-n * math.log1p(fmt.unit))
            # In float64 the factor itself is rounded, which is the last digit of what is compared.
            assert max(worst) <= gamma(n, fmt.unit) * (1 + 2.0**-50)
    assert gamma(1 / 2.0**-8, 2.0**-8) == math.inf
    assert gamma(10**6, 2.0**-8) == math.inf
    assert np.array_equal(gamma(np.array([0, 1, 256]), 2.0**-8), [0, 2.0**-8 / (1 - 2.0**-8), math.inf])


def test_the_likely_factor_never_exceeds_the_certain_one() -> None:
    n = np.arange(0, 10**6, 999)
    assert np.all(likely(n, 2.0**-24) <= gamma(n, 2.0**-24))
    assert likely(10**6, 2.0**-24) == 9 * 10**3 * 2.0**-24


def test_an_unknown_format_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match="bfloat16"):
        format_named("float24")

"""The gap of two tensors, against plain NumPy in float64."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backproof.verify.traces.gap import BLOCK, gap


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "bool"])
@pytest.mark.parametrize("size", [1, 7, BLOCK - 1, BLOCK, 2 * BLOCK + 3])
def test_it_is_what_numpy_says(dtype, size):
    rng = np.random.default_rng(size)
    b = rng.standard_normal(size).astype(dtype)
    a = (b + 1e-3 * rng.standard_normal(size)).astype(dtype)
    x, y = a.astype(np.float64), b.astype(np.float64)

    found = gap(a, b)

    assert found.largest == pytest.approx(np.max(np.abs(x - y)), rel=1e-6)
    assert found.scale == pytest.approx(max(np.max(np.abs(x)), np.max(np.abs(y))), rel=1e-3)
    assert found.differing == np.count_nonzero(a != b)
    if y.any():
        assert found.l2 == pytest.approx(np.linalg.norm(x - y) / np.linalg.norm(y), rel=1e-5)
        assert found.slope == pytest.approx(x @ y / (y @ y) - 1, abs=1e-9)


@given(
    st.lists(st.floats(width=32), min_size=1, max_size=40),
    st.lists(st.floats(width=32), min_size=1, max_size=40),
)
def test_no_number_is_overlooked(left, right):
    n = min(len(left), len(right))
    a, b = np.array(left[:n], np.float32), np.array(right[:n], np.float32)
    same = (a == b) | (np.isnan(a) & np.isnan(b))

    found = gap(a, b)

    good = np.isfinite(a) & np.isfinite(b)
    assert found.unlike == np.count_nonzero(~good & ~same)
    assert (found.differing == 0) == bool(same.all())
    assert found.nonfinite == (np.count_nonzero(~np.isfinite(a)), np.count_nonzero(~np.isfinite(b)))


def test_layouts_do_not_matter():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)

    assert gap(a, np.asfortranarray(a)).differing == 0
    assert gap(a, a + 1).at == 0


def test_of_nothing_there_is_no_gap():
    assert gap(np.empty((0, 3)), np.empty((0, 3))).size == 0

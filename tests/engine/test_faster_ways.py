"""NumPy's own faster ways give what the plain ways give."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from backproof.engine import arrays, field, native
from backproof.engine.arrays import Kernels, NumPyKernels
from backproof.engine.domain import float64
from backproof.ir.build import Builder
from backproof.ir.types import real
from backproof.session.certify import certify

PLAIN, FAST = Kernels(np, "float64"), NumPyKernels("float64")
WIDTHS = [width for width in (16, 8) if width <= native.width()]  # those that this processor has instructions for


@pytest.fixture(params=WIDTHS)
def width(request, monkeypatch):
    monkeypatch.setattr(native, "width", lambda: request.param)
    return request.param


def _windows(space, window, stride, dilation):
    """How large x must be."""
    return [(n - 1) * stride + (k - 1) * dilation + 1 for n, k in zip(space, window, strict=True)]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("out", [1, 8, 21])
@pytest.mark.parametrize(
    ("n", "channels", "window", "space"),
    [
        (3, 4, (3,), (9,)),
        (1, 1, (1, 1), (1, 1)),
        (2, 50, (3, 3), (4, 5)),
        (2, 3, (9, 11), (2, 2)),
        (1, 2, (2,), (1003,)),
        (2, 2, (2, 1, 2), (3, 4, 2)),
    ],
)
def test_a_native_convolution_is_the_convolution(n, channels, window, space, out, dilation, stride, width):
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (n, channels, *_windows(space, window, stride, dilation))).astype(float)
    w = rng.integers(-9, 9, (out, channels, *window)).astype(float)
    turned = np.flip(np.swapaxes(np.ascontiguousarray(np.swapaxes(w, 0, 1)), 0, 1), axis=-1)
    steps = ((stride,) * len(space), (dilation,) * len(space), 1)

    for kernels in (w, turned):  # in any layout
        found = FAST.convolve(x, kernels, *steps)
        # Whole numbers: equal, whatever the order of the sums.
        assert np.array_equal(found, PLAIN.convolve(x, kernels, *steps))


def test_a_native_convolution_does_not_depend_on_its_threads(width, monkeypatch):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 16, 10, 9)), rng.normal(size=(5, 16, 5, 5))
    found = []
    for count in (1, 2, 3, 400):  # of 90 windows
        monkeypatch.setattr(native, "allowed", lambda count=count: count)
        with ThreadPoolExecutor(4) as pool:
            monkeypatch.setattr(native, "threads", lambda purpose, pool=pool: pool)
            found.append(native.convolve(x, w, (6, 5), (1, 1), (1, 1), width).tobytes())

    assert len(set(found)) == 1


def test_what_is_no_number_goes_into_every_window_that_holds_it(width):
    x, w = np.zeros((2, 1, 6)), np.ones((1, 1, 3))
    x[0, 0, 1], x[1, 0, 5] = np.nan, np.inf

    found = FAST.convolve(x, w, (1,), (1,), 1)

    assert np.array_equal(found, [[[np.nan, np.nan, 0, 0]], [[0, 0, 0, np.inf]]], equal_nan=True)


@pytest.mark.parametrize(
    "x",
    [
        np.ones((2, 3, 5), dtype=np.float32),
        np.frombuffer(bytes(4) + np.ones(30).tobytes(), offset=4).reshape(2, 3, 5),
    ],
    ids=["float32", "unaligned"],
)
def test_what_the_native_convolution_cannot_read_is_left_to_numpy(x, monkeypatch):
    monkeypatch.setattr(native, "convolve", None)

    assert (FAST.convolve(x, np.ones((4, 3, 2), dtype=x.dtype), (1,), (1,), 1) == 6).all()


def _two_convolutions():
    b = Builder()
    x, v, w = b.leaf(real(2, 1, 5, 5), "x"), b.leaf(real(2, 1, 2, 2), "v"), b.leaf(real(3, 2, 2, 2), "w")
    one = {"stride": (1, 1), "input_dilation": (1, 1), "window_dilation": (1, 1), "groups": 1}
    h = b.relu(b.conv(x, v, padding=((0, 0), (0, 0)), **one))
    return b.graph(b.sum(b.conv(h, w, padding=((1, 0), (0, 0)), **one), axes=(0, 1, 2, 3)))


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x, w, *given: native_convolve(x[:, :, ::-1], w, *given),
        lambda x, w, *given: native_convolve(x, np.flip(w, -1), *given),
        lambda x, w, *given: native_convolve(x, w, *given) + (w.shape[2] > 2),  # in the gradient of kernels alone
        lambda x, w, *given: native_convolve(x, w * (np.arange(w.shape[1]) > 0).reshape(1, -1, 1, 1), *given),
    ],
)
def test_a_native_convolution_that_is_wrong_is_found_by_integers(mistake, width, monkeypatch):
    graph = _two_convolutions()
    assert "equal to integers" in certify(graph, seed=0).integers

    monkeypatch.setattr(native, "convolve", mistake)
    found = certify(graph, seed=0)

    assert not found.holds
    assert {refusal.check.split(",")[0] for refusal in found.refusals} == {"float64 = integers"}


native_convolve = native.convolve


@pytest.mark.parametrize("cached", [1, 100, 1000, 1 << 18])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("window", "space"), [((3,), (9,)), ((3, 2), (7, 9)), ((2, 2, 2), (5, 4, 6))])
def test_a_correlation_in_blocks_is_the_correlation(window, space, stride, dilation, cached, monkeypatch):
    monkeypatch.setattr(arrays, "_CACHED", cached)
    rng = np.random.default_rng(0)
    size = [(n - 1) * stride + (k - 1) * dilation + 1 for n, k in zip(space, window, strict=True)]
    x = rng.integers(-9, 9, (3, 4, *size)).astype(float)
    x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, 0)), 0, 1)  # as a layer before would have laid it out
    rows = rng.integers(-9, 9, (1, 5, int(np.prod(window)) * 4)).astype(float)
    given = (x, rows, window, space, (stride,) * len(space), (dilation,) * len(space))

    found = FAST.correlate(*given)

    assert np.array_equal(found, PLAIN.correlate(*given))  # whole numbers: equal, whatever the order of the sums


def test_another_arithmetic_is_asked_for_its_own_products():
    asked = []

    class Own(NumPyKernels):
        def __init__(self):
            super().__init__("float64")
            self.matmul = lambda a, b: asked.append(a.shape) or np.matmul(a, b)

    Own().correlate(np.ones((1, 2, 4)), np.ones((1, 3, 4)), (2,), (3,), (1,), (1,))

    assert asked == [(3, 4)]


def test_threads_do_not_write_into_each_other_s_scratch():
    D, found = float64(), {}
    params = {
        "stride": (1, 1),
        "padding": ((1, 1), (1, 1)),
        "input_dilation": (1, 1),
        "window_dilation": (1, 1),
        "groups": 1,
    }
    rng = np.random.default_rng(0)
    given = [(rng.normal(size=(4, 8, 16, 16)), rng.normal(size=(8, 8, 3, 3))) for _ in range(4)]
    alone = [D.conv(*each, **params) for each in given]

    def work(i):
        found[i] = all(np.array_equal(D.conv(*given[i], **params), alone[i]) for _ in range(30))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == dict.fromkeys(range(4), True)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_a_choice_by_bits_is_a_choice(dtype):
    rng = np.random.default_rng(0)
    shape = (3, 1 << 15)
    condition = rng.random(shape) > 0.5
    a, b = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    if a.dtype.kind == "f":
        a[0, :3], b[0, :3] = [np.nan, np.inf, -0.0], [-np.inf, np.nan, 0.0]
    zero, minus = (np.broadcast_to(np.asarray(value, dtype=dtype), shape) for value in (0.0, -0.0))
    for other in (b, zero, minus, np.asfortranarray(b)):
        found, expected = FAST.where(condition, a, other), np.where(condition, a, other)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()  # to the sign of zero


def test_field_products_in_strips_are_exact(monkeypatch):
    monkeypatch.setattr(field, "_AT_ONCE", 1)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, field.P, shape, dtype=np.uint64) for shape in ((2, 3, 5), (2, 5, 150)))

    found = field.matmul(a, b)

    assert np.array_equal(found, (a.astype(object) @ b.astype(object)) % field.P)


def test_every_corner_of_the_field_is_multiplied_exactly():
    corners = [0, 1, 2, (1 << 32) - 1, 1 << 32, (1 << 60) - 1, 1 << 60, field.P - 2, field.P - 1]
    a, b = np.meshgrid(np.array(corners, dtype=np.uint64), np.array(corners, dtype=np.uint64))

    found = field.multiply(a, b)

    assert found.tolist() == [
        [int(x) * int(y) % field.P for x, y in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)
    ]
    assert field.multiply(a[-1, -1], b[-1, -1]) == (field.P - 1) ** 2 % field.P  # single numbers, without a warning


FORKED = """
import os
import numpy as np
from backproof.engine import threads
from backproof.engine.arrays import NumPyKernels
threads.allowed = lambda: 2
threads.threads.cache_clear()
parts = [np.ones((300, 300))] * 4
stacked = NumPyKernels("float64").stack(parts, 0)
child = os.fork()
if child == 0:
    os._exit(int((NumPyKernels("float64").stack(parts, 0) != stacked).any()))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_is_forked_does_not_wait_for_threads_of_its_parent():
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    assert done.stdout == "0\n", done.stderr

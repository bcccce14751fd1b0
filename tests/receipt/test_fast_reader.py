"""Laws of the fast reader: whatever the bytes, it makes of them what the strict reader makes."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import fast_subjects
import numpy as np
import pytest
from fast_subjects import LINES, SCAN, both, compiled
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from backproof.receipt import bundle, native
from backproof.receipt.columns import columns_of
from backproof.receipt.document import as_receipt
from backproof.receipt.numbers import canonical_number
from backproof.rules.ball import nine_digit_radius, radius_by_exponent

LAW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    return native.bound(ctypes.CDLL(str(compiled(SCAN, tmp_path_factory.mktemp("native"), "-O3"))))


@pytest.fixture(autouse=True)
def _native(scan, monkeypatch):
    monkeypatch.setattr(native, "scanner", lambda: scan)
    monkeypatch.setattr(bundle, "CHUNK", 20_000)  # so that lines cross the seams between two chunks


@st.composite
def mutated(draw) -> bytes:
    """A bundle of one or two kinds of record with some of its bytes changed."""
    kinds = draw(st.lists(st.sampled_from(sorted(LINES)), min_size=1, max_size=2))
    lines = [draw(st.sampled_from(LINES[kind])) for kind in kinds for _ in range(draw(st.integers(1, 4)))]
    content = bytearray(b"".join(lines))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        new = draw(st.sampled_from(CHANGES) | st.binary(max_size=3))
        content[at : at + draw(st.integers(0, 3))] = new
    return bytes(content)


CHANGES = [
    b"",
    b" ",
    b"\n",
    b"\r\n",
    b"0",
    b"9",
    b"-",
    b".",
    b"e",
    b"1e400",
    b"NaN",
    b"\xff",
    b"\xc3\xa9",
    b"\\",
    b'"',
    b"\0",
    b"},",
    b"9" * 40,
]


@LAW
@given(mutated())
def test_the_two_readers_agree_on_any_bytes(content):
    strict, fast = both(content)

    assert fast == strict


def changed(line: bytes, old: bytes, new: bytes) -> bytes:
    assert old in line
    return line.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"learning_rate":0.500000000', b'"learning_rate":-0.500000000'),  # beyond what the format admits
        (b'"learning_rate":0.500000000', b'"learning_rate":0.5'),
        (b'"learning_rate":0.500000000', b'"learning_rate":5e-1'),
        (b'"learning_rate":0.500000000', b'"learning_rate":1e999'),
        (b'"learning_rate":0.500000000', b'"learning_rate":NaN'),
        (b'"learning_rate":0.500000000', b'"learning_rate":0.500000000,"learning_rate":0.500000000'),
        (b'"step":2', b'"step":2.0'),
        (b'"step":2', b'"step":2.5'),
        (b'"step":2', b'"step":-0'),
        (b'"step":2', b'"step":02'),
        (b'"fixture":"mazur', b'"fixture":"ma\\u007aur'),
        (b'"fixture":"mazur', '"fixture":"mäzur'.encode()),
        (b'"fixture":"mazur', b'"fixture":"ma\tzur'),
        (b'"fixture":"mazur', b'"fixture":"ma\xffzur'),
        (b'"step":2,', b'"step":2, '),
        (b"}\n", b"} \n"),
        (b"}\n", b"}\r\n"),
        (b"}\n", b"}"),
        (b"}\n", b"}\n\n  \n"),
        (b'"forward":{', b'"forward":{"h9":{"net":1.0,"out":1.0},'),
    ],
)
def test_the_readers_agree_on_a_change_in_the_middle(old, new):
    first, second, *rest = LINES["mazur"]
    content = b"".join([first, changed(second, old, new), *rest])

    strict, fast = both(content)

    assert fast == strict


def test_lines_that_fit_no_skeleton_for_long_are_read_all_the_same():
    spaced = [json.dumps(json.loads(line)).encode() + b"\n" for line in LINES["mazur"]]
    content = b"".join(line for pair in zip(LINES["mazur"], spaced, strict=True) for line in pair)

    strict, fast = both(content)

    assert fast == strict
    assert len(fast) == 8


digits = st.text("0123456789", min_size=1, max_size=24)
decimals = st.tuples(
    st.sampled_from(["", "-"]),
    digits.map(lambda text: text.lstrip("0") or "0"),
    st.just("") | digits.map(lambda text: f".{text}"),
    st.just("") | st.integers(-330, 330).map(lambda e: f"e{e}") | st.integers(0, 30).map(lambda e: f"E+{e}"),
).map("".join)


@settings(LAW, max_examples=300)
@given(st.lists(decimals | st.floats(allow_nan=False, allow_infinity=False).map(repr), min_size=2, max_size=12))
@example(["9007199254740993", "9007199254740993.0", "0.30000000000000004", "1e-323", "4.9e-324", "-0", "-0.0"])
@example(["18446744073709551616.5", "184467440737095516160.0", "0.000000000000000000000018446744073709551616"])
def test_every_number_is_the_one_that_python_reads(numbers):
    content = b"".join(b'{"x":%s}\n' % number.encode() for number in numbers)

    strict, fast = both(content)

    assert fast == strict


def test_a_number_that_goes_on_for_long_is_not_cut_off():
    content = b'{"x":1.5}\n{"x":0.' + b"3" * 5000 + b"}\n{" + b'"x":1.' + b"0" * 1200 + b"1}\n"

    strict, fast = both(content)

    assert fast == strict


def test_a_line_that_is_too_long_is_refused_by_its_number(monkeypatch):
    monkeypatch.setattr(bundle.reading, "MOST_BYTES", 30_000)
    content = LINES["mazur"][0] * 2 + b'{"x":' + b"1" * 50_000 + b"}\n"

    strict, fast = both(content)

    assert "line 3: longer than one record may be" in fast
    assert fast == strict


def test_the_radius_by_exponent_is_the_radius_of_the_number():
    powers = [float(f"1e{k}") for k in range(-13, 7)]
    texts = [canonical_number(x) for p in powers for x in (p, 1.00000001 * p, 9.99999999 * p, 5.0 * p, -p)]
    values = np.array([float(text) for text in (*texts, canonical_number(0.0))])

    exponents = [columns_exponents(b'{"x":%s}' % text.encode()) for text in (*texts, "0.000000000")]

    assert np.array_equal(radius_by_exponent()[np.concatenate(exponents) + 128], nine_digit_radius(values))


def columns_exponents(line: bytes) -> np.ndarray:
    """The exponent that the scanner sees in a one-number line."""
    document = json.loads(line)
    (columns,) = columns_of([as_receipt(document)])
    limits = bundle.limits_of(columns.shape)
    skeleton = bundle.skeleton_of(line, document, columns.shape, limits)
    data = bytearray(line + b"\0")
    block = bundle._Block(bundle._Kind(columns.shape, limits, sound=True), data, 1)
    assert native.scanner()(skeleton.struct, block.struct, data, 0, len(line), 0, final=True)[0] == 1
    return block.exponents[0, :1].astype(int)


def test_the_scanner_touches_no_byte_that_is_not_its_own(tmp_path):
    """Under the address and undefined-behaviour sanitizers, over mutated lines in buffers of their exact size."""
    library = compiled(SCAN, tmp_path, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    if not Path(runtime.strip()).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    folder = Path(fast_subjects.__file__).parent
    done = subprocess.run(
        [sys.executable, str(folder / "fast_fuzz.py"), str(library), "3000"],
        env={**os.environ, "LD_PRELOAD": runtime.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 100  # lines that fitted all the same

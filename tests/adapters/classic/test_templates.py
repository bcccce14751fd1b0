"""Numbers out of text and into text in C: the same doubles and the same bytes as Python's, ties included."""

import random
import struct
from decimal import Decimal

import numpy as np
import pytest

from backproof.adapters.classic import native
from backproof.adapters.classic.templates import ReadTemplate, Rows, WriteTemplate, read_template
from backproof.receipt.numbers import NumberRangeError, canonical_number

WIDTH = 100


@pytest.fixture(autouse=True)
def _compiled():
    if native.library() is None:
        pytest.skip("the native reader was not built here: nothing to compare")


def numbers(count):
    """Doubles of every size, short decimals, float32 values, decimal ties, and neighbours of powers of ten."""
    rng = random.Random(5)
    kinds = (
        lambda: rng.uniform(-1, 1) * 10 ** rng.randint(-12, 6),
        lambda: struct.unpack("d", struct.pack("Q", rng.getrandbits(63) % (2047 << 52)))[0],
        lambda: rng.randint(-(10**9), 10**9) / 10 ** rng.randint(0, 16),
        lambda: float(np.float32(rng.uniform(-1, 1))),
        lambda: (rng.randint(10**8, 10**9) + 0.5) * 10.0 ** rng.randint(-20, -3),
        lambda: 10.0 ** rng.randint(-14, 7) * (1 + rng.randint(-3, 3) * 2.0**-52),
    )
    return [rng.choice(kinds)() for _ in range(count)]


def test_every_spelling_of_a_number_is_read_as_python_reads_it():
    rng = random.Random(6)
    spellings = (repr, "{:.17e}".format, "{:.9g}".format, "{:.20e}".format, "{:.25g}".format)
    values = numbers(30_000)
    texts = [[rng.choice(spellings)(v) for v in values[i : i + WIDTH]] for i in range(0, len(values), WIDTH)]
    lines = [f'{{"a":[{",".join(row)}]}}\n'.encode() for row in texts]
    rows = Rows.of(len(lines), WIDTH)

    count, used = read_template(lines[0]).read(b"".join(lines), 0, rows)

    assert (count, used) == (len(lines), sum(map(len, lines)))
    assert np.array_equal(rows.numbers[:, :-1], [[float(text) for text in row] for row in texts])
    assert rows.exponents[:, :-1].tolist() == [[exponent_of(text) for text in row] for row in texts]


def exponent_of(text):
    """Of ten, of the first digit that is not 0, as it is written; within what eight bits hold."""
    exponent = Decimal(text).adjusted()
    return -128 if Decimal(text) == 0 else exponent if -128 < exponent < 128 else 127


def test_every_number_is_written_as_the_format_says():
    carried = []
    for value in numbers(30_000):
        try:
            carried.append((value, canonical_number(value)))
        except NumberRangeError:
            assert WriteTemplate((b"", b"\n"), (0,), (False,)).write(np.array([[value]])) is None

    written = WriteTemplate((b"", b"\n"), (0,), (False,)).write(np.array([[value] for value, _ in carried]))

    assert written is not None
    assert bytes(written[0]).decode().split("\n")[:-1] == [text for _, text in carried]


@pytest.mark.parametrize("text", "01 +1 .5 1. 1e 1e+ - NaN Infinity 1e999 0x1 --1 1.5.2 1_0 １".split())
def test_what_is_no_json_number_ends_the_reading(text):
    template = ReadTemplate((b"[", b"]"), (0,), ())

    count, used = template.read(f"[{text}]\n".encode(), 0, Rows.of(1, 1))

    assert (count, used) == (0, 0)


def test_a_line_with_another_label_is_not_of_the_template():
    lines = [b'{"w_i1":1.5,"helper":{"timestamp":"2026-01-01T00:00:00Z"}}\n']
    lines += [lines[0].replace(b"1.5", b"-2e-3").replace(b"01-01", b"12-31")]
    others = [(b"w_i1", b"w_i2"), (b"w_i1", b"wi_1"), (b"00Z", b"0xZ"), (b"}}", b"} }"), (b"1.5", b'"1.5"')]
    template = read_template(lines[0])

    for old, new in others:
        rows = Rows.of(3, 1)
        count, _ = template.read(b"".join([*lines, lines[0].replace(old, new)]), 0, rows)
        assert (count, rows.numbers[1, 0]) == (2, -0.002)

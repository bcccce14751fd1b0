"""exp, log and power against the bits that V8 11.3 gives."""

from __future__ import annotations

import math
import shutil
import struct
import subprocess

import numpy as np
import pytest

from backproof.engine import fdlibm

BITS = (  # function, argument, exponent, result: IEEE 754 words
    ("exp", "3ff0000000000000", "", "4005bf0a8b145769"),
    ("exp", "3fe0000000000000", "", "3ffa61298e1e069c"),
    ("exp", "bfe0000000000000", "", "3fe368b2fc6f960a"),
    ("exp", "3fd62e42fefa39f0", "", "3ff6a09e667f3bcd"),
    ("exp", "bff0a2b23f3bab73", "", "3fd6a09e667f3bcd"),
    ("exp", "3e112e0be826d695", "", "3ff000000044b830"),
    ("exp", "81a56e1fc2f8f359", "", "3ff0000000000000"),
    ("exp", "4034400000000000", "", "41c290d76d1966a9"),
    ("exp", "c04259999999999a", "", "3ca0998b04bdd190"),
    ("exp", "40862c0000000000", "", "7fe81e9b4b52d0c9"),
    ("exp", "c08748cccccccccd", "", "0000000000000001"),
    ("exp", "4059080000000000", "", "48f5daaf24221d5e"),
    ("exp", "bfd828f5c28f5c29", "", "3fe5f03735fa319a"),
    ("exp", "3ff1b1ca75599e57", "", "40082cf9e83a1681"),
    ("exp", "400a666666666666", "", "403b1cd5e7807b7b"),
    ("exp", "c01f147ae147ae14", "", "3f3bab902c420358"),
    ("log", "3fe80b2ec260374d", "", "bfd24b96fb3ab9ed"),
    ("log", "3fb999999999999a", "", "c0026bb1bbb55515"),
    ("log", "4000000000000000", "", "3fe62e42fefa39ef"),
    ("log", "4024000000000000", "", "40026bb1bbb55516"),
    ("log", "01a56e1fc2f8f359", "", "c085963447f87fb5"),
    ("log", "0000000000000001", "", "c0874385446d71c3"),
    ("log", "3ff000001ad7f29b", "", "3e7ad7f2847b6492"),
    ("log", "3fefffffca501acb", "", "be7ad7f2b1049b9f"),
    ("log", "3fe6a09e667f3bcd", "", "bfd62e42fefa39ee"),
    ("log", "3ff6a09e667f3bcd", "", "3fd62e42fefa39f0"),
    ("log", "40fe240c9fbe76c9", "", "40277281cad8a844"),
    ("log", "3fd5555555555555", "", "bff193ea7aad030b"),
    ("log", "7e37e43c8800759c", "", "4085963447f87fb5"),
    ("log", "3fdab25a68b4d2e4", "", "bfebfa9f0d0faaf5"),
    ("power", "3feccccccccccccd", "4010000000000000", "3fe4fec56d5cfaae"),
    ("power", "3feff7ced916872b", "4030000000000000", "3fef7de80e3e9722"),
    ("power", "3feccccccccccccd", "3ff0000000000000", "3feccccccccccccd"),
    ("power", "3feff7ced916872b", "4000000000000000", "3fefef9fcb0c026d"),
    ("power", "3feccccccccccccd", "408f400000000000", "366fee7413dac341"),
    ("power", "3feff7ced916872b", "40b3880000000000", "3f7b8798c0f74e0c"),
    ("power", "3fe0000000000000", "4042800000000000", "3da0000000000000"),
    ("power", "3fefae147ae147ae", "405ec00000000000", "3fd2975d0dbb3ca5"),
    ("power", "3fefff2e48e8a71e", "4053400000000000", "3fefc129239ef4fe"),
    ("power", "3fee666666666666", "4008000000000000", "3feb6f9db22d0e55"),
    ("power", "3ffb333333333333", "c004000000000000", "3fd0fc14c2ee3493"),
    ("power", "3fd3333333333333", "4082c00000000000", "00000000e212a1da"),
)


def number(word):
    return struct.unpack(">d", bytes.fromhex(word))[0]


@pytest.mark.parametrize(("name", "x", "y", "expected"), BITS)
def test_a_function_has_the_bits_of_v8(name, x, y, expected):
    arguments = [number(word) for word in (x, y) if word]

    found = float(getattr(fdlibm, name)(*arguments))

    assert struct.pack(">d", found).hex() == expected


def test_arrays_and_scalars_agree():
    x = np.linspace(-50, 50, 1001)

    assert fdlibm.exp(x).tolist() == [float(fdlibm.exp(value)) for value in x]


def test_the_ends_of_the_range():
    assert math.isinf(float(fdlibm.exp(710.0)))
    assert float(fdlibm.exp(-746.0)) == 0.0
    assert float(fdlibm.log(0.0)) == -math.inf
    assert math.isnan(float(fdlibm.log(-1.0)))
    assert float(fdlibm.power(0.9, 0.0)) == 1.0


def test_a_power_outside_its_domain_is_refused():
    with pytest.raises(ValueError, match="x > 0"):
        fdlibm.power(-1.0, 2.0)


def test_random_values_against_the_node_at_hand():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    rng = np.random.default_rng(0)
    x, beta = rng.normal(0, 10, 3000), 1 - 10 ** -rng.uniform(1, 4, 3000)
    t = rng.integers(1, 5000, 3000).astype(float)
    script = (
        "const a=JSON.parse(require('fs').readFileSync(0));"
        "console.log(JSON.stringify(a.map(([x,b,t])=>[Math.exp(x),Math.log(Math.abs(x)),Math.pow(b,t)])))"
    )
    given = str([list(row) for row in zip(x.tolist(), beta.tolist(), t.tolist(), strict=True)])
    answer = subprocess.run([node, "-e", script], input=given, capture_output=True, text=True, check=True).stdout

    expected = np.array(eval(answer))

    found = np.stack([fdlibm.exp(x), fdlibm.log(np.abs(x)), fdlibm.power(beta, t)], axis=1)
    assert np.array_equal(found, expected)

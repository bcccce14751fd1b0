"""One network in five recorders: C, JAX, PyTorch, Keras and the engine. Any two agree; a mistake in one is named there, on its side."""

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import one_network
import plants
import pytest

from backproof.verify.traces.compare import Options, compare

LACKING = [name for name in ("jax", "optax", "torch", "keras") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")

RECORDERS = ("c", *one_network.SIDES)
# What a recorder has no way to see, or keeps as another quantity: Keras's momentum is −η times PyTorch's.
KNOWN = ("*.opt_*",)

# Who makes which mistake, and what must be said: the kind of finding, its place, and whether its side is blamed. A recorder that knows
# of the change tells it, and then each side does what it tells.
PLANTED = {
    ("jax", "relu"): ("bug", "ln2.agrad", True),
    ("jax", "variance"): ("bug", "ln1.fwd", True),
    ("jax", "rate"): ("bug", "conv1.w_after.weight", True),
    ("torch", "relu"): ("told", "relu1.fwd", False),
    ("torch", "variance"): ("told", "ln1.fwd", False),
    ("torch", "rate"): ("bug", "conv1.w_after.weight", True),
    ("keras", "relu"): ("told", "relu1.fwd", False),
    ("keras", "variance"): ("told", "ln1.fwd", False),
    ("keras", "rate"): ("told", "", False),
    ("engine", "relu"): ("bug", "relu1.fwd", True),
    ("engine", "variance"): ("bug", "ln1.fwd", True),
    ("engine", "rate"): ("bug", "conv1.w_after.weight", True),
    ("c", "relu"): ("bug", "relu1.fwd", True),
    ("c", "variance"): ("bug", "ln1.fwd", True),
    ("c", "rate"): ("bug", "conv1.w_after.weight", True),
}
IN_C = {"relu": "relu leaks", "variance": "unbiased variance", "rate": "rate 5 % too large"}


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> Path:
    """RECORDER/honest, RECORDER/relu, RECORDER/variance and RECORDER/rate, of every recorder."""
    root = tmp_path_factory.mktemp("traces")
    programs = {"honest": plants.build(root / "build")}
    subprocess.run([programs["honest"], "--export", root], check=True)
    for wrong, name in IN_C.items():
        programs[wrong] = plants.planted(root / wrong, plants.PLANTS[name])
    (root / "c").mkdir()
    for name, program in programs.items():
        given = ["--data", root, "--trace", root / "c" / name, "--steps", "1", "--batch", str(one_network.BATCH)]
        subprocess.run([program, *given, "--decay", "0"], check=True, capture_output=True)
    for side in one_network.SIDES:
        command = [sys.executable, one_network.__file__, side, root, root / side]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "KERAS_BACKEND": "jax"})
    return root


@pytest.mark.parametrize(("a", "b"), list(combinations(RECORDERS, 2)))
def test_any_two_agree(traces, a, b):
    found = compare(traces / a / "honest", traces / b / "honest", Options(allow_missing=KNOWN))

    assert [one.says for one in found.all_findings if one.effect != "remark"] == []
    assert found.exit_code(strict=True) == 0
    assert found.compared >= 185
    derived = [local for step in found.steps for seen in step.seen.values() for local in seen.locals]
    assert sum(local is not None for local in derived) > 250


@pytest.mark.parametrize(("a", "wrong", "b"), [(*one, b) for one in PLANTED for b in RECORDERS if b != one[0]])
def test_a_mistake_of_one_is_named_beside_any_other(traces, a, wrong, b):
    kind, place, blamed = PLANTED[a, wrong]

    found = compare(traces / a / wrong, traces / b / "honest", Options(allow_missing=KNOWN))

    first = found.first
    assert first.kind == kind
    column = "" if first.place is None else first.place.column  # an optimizer's settings have no place
    assert column == place or (wrong == "rate" and column == "conv1.w_after.bias")
    assert first.side == ("a" if blamed else "")
    assert found.exit_code(strict=False) == 1

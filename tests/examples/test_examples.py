"""The examples do what they say."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def digits(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import digits

    yield digits
    sys.modules.pop("digits", None)


@pytest.mark.parametrize(("network", "epochs", "reads"), [("mlp", 15, 0.93), ("conv", 15, 0.85)])
def test_a_session_trains_on_digits_as_pytorch_does(digits, network, epochs, reads):
    worst, ours, theirs = digits.train(network, epochs, say=lambda _: None)

    assert worst <= 1e-9
    assert ours == theirs
    assert ours >= reads


@pytest.mark.skipif(shutil.which("cc") is None, reason="the demo compiles a C program")
def test_the_demo_ends_as_it_says_and_leaves_its_pages(tmp_path):
    run = subprocess.run([sys.executable, EXAMPLES / "demo.py", tmp_path], check=False, capture_output=True, text=True)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "all as expected" in run.stdout
    for page in ("run.html", "compare.html", "forged.html"):
        assert (tmp_path / page).stat().st_size > 0

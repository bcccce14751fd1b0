"""The examples do what they say."""

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

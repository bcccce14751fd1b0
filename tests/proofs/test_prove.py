"""The kernel and the oracle accept what the tape computes, and reject one changed number, saying where."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backproof.cli import main
from backproof.errors import DomainError, MissingToolError
from backproof.ir.build import Builder
from backproof.ir.text import to_json
from backproof.ir.types import boolean, integer, real
from backproof.session import prove as module
from backproof.session import theory
from backproof.session.prove import check, prove, record


def classifier():
    """A hidden layer, cross entropy, and a weight decay that is no whole number."""
    b = Builder()
    x, w1, b1 = b.leaf(real(2, 3), "x"), b.leaf(real(3, 4), "w1"), b.leaf(real(4), "b1")
    w2, y = b.leaf(real(4, 3), "w2"), b.leaf(integer(2), "y")
    z = b.relu(x @ w1 + b1) @ w2
    chosen = b.gather_along(z, b.reshape(y, shape=(2, 1)), axis=1)
    loss = b.sum(b.logsumexp(z, axes=(1,)), axes=(0,)) - b.sum(chosen, axes=(0, 1))
    return b.graph(loss + 0.1 * b.sum(w1 * w1, axes=(0, 1)))


def convolution():
    b = Builder()
    x, w, mask = b.leaf(real(1, 2, 5, 5), "x"), b.leaf(real(4, 1, 2, 2), "w"), b.leaf(boolean(1, 4, 2, 2), "mask")
    steps = {"stride": (1, 1), "input_dilation": (1, 1), "window_dilation": (1, 1)}
    y = b.conv(x, w, padding=((0, 1), (1, 0)), groups=2, **steps)
    pooled = b.max_pool(y, window=(2, 2), stride=(2, 2), padding=((0, 0), (0, 0)), dilation=(1, 1))
    kept = b.where(mask, pooled, b.maximum(pooled, b.neg(pooled)))
    spread = b.prod(b.softmax(kept) if hasattr(b, "softmax") else b.sigmoid(kept), axes=(2,))
    return b.graph(b.sum(b.max(spread, axes=(2,)), axes=(0, 1)))


GRAPHS = {"classifier": classifier, "convolution": convolution}


@pytest.mark.parametrize("by", ["kernel", "oracle"])
@pytest.mark.parametrize("name", GRAPHS)
def test_an_honest_graph_is_accepted(name, by):
    found = prove(GRAPHS[name](), seed=3, by=by)

    assert found.holds, str(found)
    assert found.by == by


@pytest.mark.parametrize("by", ["kernel", "oracle"])
def test_one_changed_gradient_entry_is_rejected_and_said_where(by):
    graph = classifier()
    honest = record(graph, seed=0)
    at = honest.graded.index(1)
    numbers = list(honest.gradients[at])
    numbers[5] += 1
    forged = replace(honest, gradients=[*honest.gradients[:at], tuple(numbers), *honest.gradients[at + 1 :]])

    found = check(graph, forged, seed=0, by=by)

    assert not found.holds
    assert (found.difference.what, found.difference.place, found.difference.position) == ("gradient", "%1 leaf (w1)", 5)
    assert found.difference.recorded == found.difference.proved + 1
    assert "w1" in str(found)


@pytest.mark.parametrize("by", ["kernel", "oracle"])
def test_one_changed_value_is_rejected_and_said_where(by):
    graph = classifier()
    honest = record(graph, seed=0)
    out = graph.outputs[0]
    forged = replace(honest, values=[*honest.values[:out], (honest.values[out][0] - 7,)])

    found = check(graph, forged, seed=0, by=by)

    assert (found.difference.what, found.difference.position) == ("value", 0)
    assert found.difference.proved - found.difference.recorded == 7


def test_a_wrong_rule_is_rejected(monkeypatch):
    """The record of a library whose tanh has the wrong slope."""
    from backproof.ir.primitives import PRIMITIVES

    b = Builder()
    x = b.leaf(real(3), "x")
    graph = b.graph(b.sum(b.tanh(x), axes=(0,)))
    wrong = (lambda D, x, y, t: t,)
    monkeypatch.setitem(PRIMITIVES, "tanh", replace(PRIMITIVES["tanh"], jvp=wrong, vjp=wrong))

    found = prove(graph, seed=1, by="oracle")

    assert not found.holds
    assert found.difference.place == "%0 leaf (x)"


def test_what_was_replaced_and_what_was_decided_before_is_said():
    found = prove(classifier(), by="oracle")

    assert "logsumexp" in found.stand_ins
    assert any(said.startswith("0.1 by ") for said in found.stand_ins)
    assert found.frozen["relu"] == 8


def test_large_graphs_go_to_the_oracle(monkeypatch):
    monkeypatch.setattr(module, "KERNEL_WORK", 10)

    assert prove(classifier()).by == "oracle"


def test_the_kept_file_is_what_the_kernel_accepts(tmp_path):
    kept = tmp_path / "Kept.v"
    prove(classifier(), by="oracle", keep=kept)

    done = theory.run((*theory.coqc_flags(theory.checked_theory()), kept.name), tmp_path)

    assert done.returncode == 0, done.stderr
    assert "Closed under the global context" in done.stdout


def test_numbers_that_outgrow_exact_arithmetic_are_refused():
    b = Builder()
    x = b.leaf(real(2))
    for _ in range(40):
        x = x * x + x
    graph = b.graph(b.sum(x, axes=(0,)))

    with pytest.raises(DomainError, match="too deep"):
        record(graph, seed=0)


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(to_json(classifier()))
    return path


def test_the_command_answers_0_and_reports_as_json(written, capsys):
    assert main(["prove", str(written), "--oracle", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["holds"] is True


def test_the_command_answers_1_for_a_rejected_record(written, capsys, monkeypatch):
    honest = module.record

    def forged(graph, seed):
        found = honest(graph, seed)
        return replace(found, gradients=[(found.gradients[0][0] + 1, *found.gradients[0][1:]), *found.gradients[1:]])

    monkeypatch.setattr(module, "record", forged)

    assert main(["prove", str(written), "--oracle"]) == 1
    assert "DOES NOT HOLD" in capsys.readouterr().out


@pytest.mark.without_coq
def test_without_the_kernel_the_command_answers_2_and_never_passes(written):
    environment = {**os.environ, "PATH": "", "PYTHONPATH": str(Path(theory.backproof.__file__).parents[1])}

    for flag in ((), ("--oracle",), ("--kernel",)):
        done = subprocess.run(
            [sys.executable, "-m", "backproof", "prove", str(written), *flag],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 2
        assert "coqc is not on this machine" in done.stderr
        assert "apt-get install coq" in done.stderr
        assert done.stdout == ""


@pytest.mark.without_coq
def test_without_the_theory_it_says_so(monkeypatch, tmp_path):
    package = tmp_path / "site" / "backproof"
    package.mkdir(parents=True)
    monkeypatch.setattr(theory.backproof, "__file__", str(package / "__init__.py"))

    with pytest.raises(MissingToolError, match=r"no proofs/Program\.v"):
        theory.sources()


@pytest.mark.without_coq
def test_a_negative_seed_is_wrong_usage(written):
    assert main(["prove", str(written), "--seed", "-1"]) == 3

"""`bp certify` as a user meets it: files, pipes, exit codes, and messages instead of tracebacks."""

import json
import subprocess
import sys

import pytest

from backproof import cli
from backproof.ir.build import Builder
from backproof.ir.text import to_json, to_text
from backproof.ir.types import real


def graph():
    b = Builder()
    x, w = b.leaf(real(2, 3), "x"), b.leaf(real(3, 2), "w")
    return b.graph(b.sum(b.tanh(x @ w), axes=(0, 1)))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(to_json(graph()))
    return path


def test_an_honest_graph_holds_with_exit_code_0(saved, capsys):
    assert cli.main(["certify", str(saved), "--seed", "3"]) == 0
    assert "holds" in capsys.readouterr().out


def test_json_is_one_object_with_what_the_text_says(saved, capsys):
    assert cli.main(["certify", str(saved), "--json", "--seed", "3"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["holds"] is True
    assert found["seed"] == 3
    assert found["refusals"] == []
    assert 0 < found["error"] < 1e-30


def test_a_broken_rule_is_refused_with_exit_code_1(saved, capsys, monkeypatch):
    from dataclasses import replace

    from backproof.ir.primitives import PRIMITIVES

    monkeypatch.setitem(PRIMITIVES, "tanh", replace(PRIMITIVES["tanh"], vjp=(lambda D, x, y, gy: gy,)))

    assert cli.main(["certify", str(saved)]) == 1
    assert "tanh" in capsys.readouterr().out


def test_a_graph_comes_through_a_pipe_in_either_form():
    for text in (to_json(graph()), to_text(graph())):
        run = subprocess.run(
            [sys.executable, "-m", "backproof", "certify", "-"], input=text, capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stderr) == (0, "")


BAD = {
    "empty": (b"", "there is nothing in it"),
    "cut text": (to_text(graph()).rsplit("output", 1)[0].encode(), "cut short"),
    "a number without end": (b'{"outputs": [' + b"9" * 10_000 + b"]}", "a whole number of 10000 digits"),
    "not JSON": (b"{", "not a graph in JSON"),
    "not UTF-8": (b"\xff\xfe{}", "not UTF-8"),
    "truncated": (to_json(graph()).encode()[:-40], "not a graph in JSON"),
    "NaN token": (to_json(graph()).replace("[0, 1]", "[NaN]").encode(), "not a JSON number"),
    "unknown primitive": (to_json(graph()).replace("tanh", "tanhh").encode(), "no primitive 'tanhh'"),
    "wrong arguments": (
        to_json(graph()).replace('"arguments": [2]', '"arguments": [7]').encode(),
        "does not come before",
    ),
    "another version": (to_json(graph()).replace(".v1", ".v9").encode(), "this version reads"),
    "a wrong type": (to_text(graph()).replace("real[2,2]", "real[9,9]").encode(), "said to be"),
    "deep nesting": (b'{"a":' + b"[" * 100_000, "not a graph"),
    "a duplicate key": (to_json(graph()).replace('"outputs"', '"outputs": [0], "outputs"').encode(), "is in it twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_is_refused_with_exit_code_2_and_a_reason(case, tmp_path, capsys):
    content, reason = BAD[case]
    path = tmp_path / "graph"
    path.write_bytes(content)

    assert cli.main(["certify", str(path)]) == 2

    printed = capsys.readouterr()
    assert reason in printed.err
    assert printed.err.startswith(f"bp: {path}: ")
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("command", ["certify", "prove"])
def test_a_graph_that_no_machine_can_hold_is_refused_before_it_is_tried(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("backproof.session.theory.require", lambda *given: "")
    b = Builder()
    x = b.leaf(real(3), "x")
    path = tmp_path / "graph"
    path.write_text(to_json(b.graph(b.sum(b.broadcast(x, shape=(10**6, 10**6, 3), axes=(2,)), axes=(0, 1, 2)))))

    assert cli.main([command, str(path)]) == 2
    assert "real[1000000,1000000,3]" in capsys.readouterr().err


def test_a_missing_file_a_folder_and_a_hostile_name_are_refused(tmp_path, capsys):
    for name in (str(tmp_path / "nothing"), str(tmp_path), "a\0b"):
        assert cli.main(["certify", name]) == 2
        assert capsys.readouterr().err.startswith("bp: ")


def test_wrong_usage_is_exit_code_3_and_points_at_the_help(saved, capsys):
    for wrong in (
        ["certify"],
        ["certify", str(saved), "--trials", "0"],
        ["certify", str(saved), "--seed", "-1"],
        ["certify", str(saved), "--nonsense"],
        ["certifi"],
    ):
        assert cli.main(wrong) == 3
        assert "bp" in capsys.readouterr().err


def test_a_graph_with_no_real_output_is_told(tmp_path, capsys):
    b = Builder()
    x = b.leaf(real(2))
    path = tmp_path / "graph"
    path.write_text(to_text(b.graph(x > 0.0)))

    assert cli.main(["certify", str(path)]) == 2
    assert "only reals" in capsys.readouterr().err

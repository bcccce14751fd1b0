"""bp compare, bp sweep and bp trace, from the shell's side: what they print, and what they answer with."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from backproof.cli import main
from backproof.trace import Event, Manifest, Probe, TraceWriter

PROBES = (
    Probe("fc", ("input",), "linear", {}, ("weight",)),
    Probe("act", ("fc",), "relu"),
    Probe("out", ("act",), "linear", {}, ("weight",)),
)


def write(folder, factor=1.0, steps=1):
    rng = np.random.default_rng(0)
    writer = TraceWriter(folder, Manifest(framework="by hand", batch=2, probes=PROBES))
    for step in range(steps):
        x, w, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (4, 3), (1, 4)))
        y = (x @ w.T * np.float32(factor)).astype(np.float32)
        with writer.step(step) as sink:
            sink(Event("fc", "w_before", parameter="weight", tensor=w))
            sink(Event("out", "w_before", parameter="weight", tensor=v))
            sink(Event("input", "fwd", tensor=x))
            sink(Event("fc", "fwd", tensor=y))
            sink(Event("act", "fwd", tensor=np.maximum(y, 0)))
            sink(Event("out", "fwd", tensor=np.maximum(y, 0) @ v.T))
    return str(folder)


@pytest.fixture
def traces(tmp_path):
    return write(tmp_path / "a"), write(tmp_path / "b"), write(tmp_path / "c", 1.01)


def test_traces_that_agree(traces, capsys):
    assert main(["compare", traces[0], traces[1]]) == 0
    out = capsys.readouterr().out
    assert "AGREE  6 pairs of tensors in 1 step" in out
    assert "derived from their own inputs: 3 of a, 3 of b" in out
    assert "\x1b" not in out


def test_traces_that_differ(traces, capsys):
    assert main(["compare", traces[0], traces[2]]) == 1
    out = capsys.readouterr().out
    assert "first cause: fc.fwd of b does not follow from what was recorded at its inputs; that of a does" in out
    assert "wrong side: b" in out
    assert "is 1.01 times" in out


def test_the_json_has_the_documented_keys(traces, capsys):
    assert main(["compare", traces[0], traces[2], "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {"verdict", "first", "findings", "flips", "undecided", "missing", "coverage"} <= set(found)
    first = {"probe": "fc", "phase": "fwd", "parameter": None, "sample": None, "step": 0, "side": "b"}
    assert (found["verdict"], found["exit_code"], found["first"]) == ("differ", 1, first)
    assert found["findings"][0]["local"]["ratio"] > 1
    assert found["coverage"]["phases"]["fwd"]["compared"] == 4
    assert {one["state"] for one in found["tensors"]} == {"equal", "finding", "follows"}


def test_the_junit_file_fails_where_the_traces_do(traces, tmp_path, capsys):
    assert main(["compare", traces[0], traces[2], "--junit", str(tmp_path / "report.xml")]) == 1
    suite = ET.fromstring((tmp_path / "report.xml").read_bytes())
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert (failed, suite.get("failures")) == (["fc.fwd"], "1")


def test_colour_when_asked_for(traces, capsys):
    main(["compare", traces[0], traces[2], "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out


def test_missing_tensors(traces, capsys):
    (Path(traces[1]) / "step000" / "act.fwd.npy").unlink()
    assert main(["compare", traces[0], traces[1]]) == 2
    assert "act.fwd was not recorded by b" in capsys.readouterr().out
    assert main(["compare", traces[0], traces[1], "--allow-missing", "act.*"]) == 0
    assert main(["compare", traces[0], traces[1], "--json"]) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["compare", "{a}", "no/such"], 2, "no/such: there is no such folder"),
        (["compare", "{a}"], 3, "required: B"),
        (["compare", "{a}", "{b}", "--layers", "no.yaml"], 2, "no.yaml"),
        (["compare", "{a}", "{b}", "--order", "x,y"], 3, "the traces have"),
        (["compare", "{a}", "{a}/trace.json"], 2, "is a file"),
        (["sweep"], 3, "takes two folders"),
        (["sweep", "--a", "x {{out}}"], 3, "two commands"),
        (["sweep", "--a", "x {{out}}", "--b", "x"], 3, "has no {{out}}"),
        (["sweep", "--a", "x {{out}}", "--b", "x {{out}}", "--batches", "0"], 3, "at least 1"),
        (["trace", "ls", "no/such"], 2, "no such folder"),
        (["trace", "show", "{a}", "fcc.fwd"], 3, "did you mean fc.fwd"),
        (["trace", "show", "{a}", "fc.fwd", "--step", "7"], 3, "there is no step 7"),
    ],
)
def test_what_cannot_be_is_said_and_not_a_traceback(traces, capsys, arguments, code, says):
    filled = [word.format(a=traces[0], b=traces[1]) for word in arguments]
    assert main(filled) == code
    assert says.format() in capsys.readouterr().err


def test_errors_as_json(traces, capsys):
    assert main(["compare", traces[0], "no/such", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["verdict"] == "unreadable"


def test_a_trace_is_listed_and_shown(traces, capsys):
    assert main(["trace", "ls", traces[0]]) == 0
    out = capsys.readouterr().out
    assert "by hand, batch 2" in out
    assert out.index("fc.w_before.weight") < out.index("input.fwd") < out.index("act.fwd")
    assert main(["trace", "show", traces[0], "fc.fwd"]) == 0
    out = capsys.readouterr().out
    assert "2 × 4 float32" in out
    assert "█" in out
    assert main(["trace", "show", traces[0], "fc.w_before.weight", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["shape"] == [4, 3]
    assert main(["trace", "ls", traces[0], "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tensors"]) == 6


def test_a_sweep_over_folders(tmp_path, capsys):
    for side, factor in (("a", 1.0), ("b", 1.0)):
        for batch in ("x", "y"):
            write(tmp_path / side / batch, factor)
    assert main(["sweep", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "AGREE  2 batches: 2 agree" in capsys.readouterr().out
    write(tmp_path / "b" / "y", 1.01)
    assert main(["sweep", str(tmp_path / "a"), str(tmp_path / "b"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [batch["verdict"] for batch in found["batches"]] == ["agree", "differ"]
    assert next(column for column in found["columns"] if column["name"] == "fc.fwd")["kind"] == "sometimes wrong"


def test_a_sweep_runs_commands(tmp_path, capsys):
    script = tmp_path / "make.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom test_compare_command import write\nwrite(sys.argv[1])\n"
    )
    command = f"'{sys.executable}' '{script}' {{out}}"
    arguments = ["sweep", "--a", command, "--b", command, "--batches", "2", "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    assert "AGREE  2 batches" in capsys.readouterr().out


def test_the_bar_stays_off_what_is_no_terminal(traces):
    done = subprocess.run(
        [sys.executable, "-m", "backproof", "compare", traces[0], traces[1], "--json"], capture_output=True, check=True
    )
    assert done.stderr == b""
    assert json.loads(done.stdout)["verdict"] == "agree"


def test_the_page_has_every_key_of_the_json(tmp_path, capsys):
    write(tmp_path / "a")
    write(tmp_path / "b")

    main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"])

    page = (Path(__file__).resolve().parents[2] / "docs" / "traces.md").read_text(encoding="utf-8")
    table = page[page.index("| key | what |") : page.index("A number that is not finite")]
    for key in json.loads(capsys.readouterr().out):
        assert f"`{key}`" in table.replace("`undecided`, `missing`", "`undecided` `missing`")

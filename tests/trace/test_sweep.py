"""Sweeps: real programs over many batches, what fails kept as failed, what is known not done again."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from mill import Run, grind
from mistakes import PLANTED

from backproof.errors import InputError, UsageError
from backproof.verify.traces.aggregate import columns_of, exit_code, verdict_of
from backproof.verify.traces.compare import Options
from backproof.verify.traces.sweep import RESULT, Commands, filled, jobs_in, jobs_of, sweep

HERE = Path(__file__).parent
PROGRAM = """
import sys
sys.path.insert(0, {here!r})
from mill import Run, grind
from mistakes import PLANTED
start, batch, out, index, planted = sys.argv[1:]
if planted == "fails at 1" and index == "1":
    print("out of memory"); sys.exit(3)
wrong = next((p.wrong for p in PLANTED if p.name == planted), None)
run = Run(seed=int(start) + 1, batch=int(batch), jitter=planted != "")
grind(out, run) if wrong is None else grind(out, run, wrong)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "a program.py"
    path.write_text(PROGRAM.format(here=str(HERE)))

    def command(planted=""):
        words = [sys.executable, str(path), "{start}", "{batch}", "{out}", "{index}", planted]
        return " ".join(word if "{" in word else shlex.quote(word) for word in words)

    return command


def _swept(program, out, planted, batches=3):
    return sweep(jobs_of(Commands(program(), program(planted), batches, 4, out)), Options(), workers=2)


def test_honest_programs_agree_on_every_batch(program, tmp_path):
    results = _swept(program, tmp_path / "out", "rounded otherwise")

    assert (verdict_of(results), exit_code(results, strict=True)) == ("agree", 0)
    assert [result["start"] for result in results] == [0, 4, 8]
    assert all(result["loss"]["a"] == pytest.approx(result["loss"]["b"], rel=1e-5) for result in results)
    assert {column.kind for column in columns_of(results)} <= {"noise", "leans"}
    assert len({result["loss"]["a"] for result in results}) == 3


def test_a_mistake_is_in_every_batch(program, tmp_path):
    results = _swept(program, tmp_path / "out", "mean over B − 1")

    columns = {column.name: column for column in columns_of(results)}
    assert exit_code(results, strict=False) == 1
    assert (columns["fc.grad_scaled.weight"].kind, columns["fc.grad_scaled.weight"].differs) == ("wrong", 3)
    assert columns["fc.grad_scaled.weight"].slope[0] == pytest.approx(3 / 4 - 1, abs=1e-5)
    assert columns["fc.grad_raw.weight"].kind in ("noise", "leans")
    assert columns["fc.grad_scaled.weight"].bound[1] > 1e3 > 1 > columns["fc.grad_scaled.weight"].bound[0]


def test_a_failed_batch_loses_nothing_and_is_tried_again(program, tmp_path):
    results = _swept(program, tmp_path / "out", "fails at 1")

    assert [result["verdict"] for result in results] == ["agree", "failed", "agree"]
    assert results[1]["failed"]["side"] == "b"
    assert "exit code 3: out of memory" in results[1]["failed"]["why"]
    assert exit_code(results, strict=False) == 2
    again = _swept(program, tmp_path / "out", "fails at 1")
    assert [bool(result.get("resumed")) for result in again] == [True, False, True]


def test_what_is_asked_otherwise_is_done_again(program, tmp_path):
    _swept(program, tmp_path / "out", "rounded otherwise", batches=1)

    (result,) = _swept(program, tmp_path / "out", "loss gradient doubled", batches=1)

    assert not result.get("resumed")
    assert result["verdict"] == "differ"


def test_a_result_that_was_cut_short_is_done_again(program, tmp_path):
    _swept(program, tmp_path / "out", "rounded otherwise", batches=1)
    path = tmp_path / "out" / "batch0000" / RESULT
    path.write_text(path.read_text()[:50])

    (result,) = _swept(program, tmp_path / "out", "rounded otherwise", batches=1)

    assert (result["verdict"], result.get("resumed")) == ("agree", None)
    assert json.loads(path.read_text())["verdict"] == "agree"


def test_programs_that_cannot_be_run_are_failures(tmp_path):
    jobs = jobs_of(Commands("no-such-program {out}", "sleep {out}", 1, 4, tmp_path))

    (result,) = sweep(jobs, Options())

    assert "no-such-program cannot be run" in result["failed"]["why"]
    assert exit_code([result], strict=False) == 2


def test_a_program_that_takes_too_long_is_a_failure(tmp_path):
    command = f"{shlex.quote(sys.executable)} -c 'import time; time.sleep(60)' {{out}}"

    (result,) = sweep(jobs_of(Commands(command, command, 1, 4, tmp_path, timeout=0.2)), Options())

    assert "took longer than 0.2 s" in result["failed"]["why"]


def test_a_program_that_writes_nothing_is_a_failure(tmp_path):
    (result,) = sweep(jobs_of(Commands("true {out}", "true {out}", 1, 4, tmp_path)), Options())

    assert (result["verdict"], exit_code([result], strict=False)) == ("failed", 2)


def test_placeholders_are_parts_of_words_and_no_shell_sees_them():
    words = filled("run --from={start} '{out} x' {other} $HOME ;", {"start": 3, "out": "/a b; rm -rf"})

    assert words == ("run", "--from=3", "/a b; rm -rf x", "{other}", "$HOME", ";")


@pytest.mark.parametrize("command", ["", "run 'x", "run {index}"])
def test_commands_that_cannot_work_are_refused(tmp_path, command):
    with pytest.raises(UsageError):
        jobs_of(Commands(command, "run {out}", 1, 4, tmp_path))


def test_folders_of_batches_are_compared_by_name(tmp_path):
    for name, wrong in (("one", None), ("two", PLANTED[0].wrong)):
        grind(tmp_path / "a" / name, Run(samples=1))
        grind(tmp_path / "b" / name, Run(samples=1), *([wrong] if wrong else []))
    grind(tmp_path / "a" / "three", Run(samples=1))

    results = sweep(jobs_in(tmp_path / "a", tmp_path / "b"), Options())

    assert [(result["name"], result["verdict"]) for result in results] == [
        ("one", "agree"),
        ("three", "failed"),
        ("two", "differ"),
    ]
    assert next(c for c in columns_of(results) if c.name == "ln1.fwd").kind == "sometimes wrong"


def test_folders_without_batches_are_refused(tmp_path):
    with pytest.raises(InputError, match="no batch"):
        jobs_in(tmp_path, tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        jobs_in(tmp_path / "x", tmp_path)

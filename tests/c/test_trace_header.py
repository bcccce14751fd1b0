"""c/backproof_trace.h: what it writes is a trace, in C and in C++; what it refuses is said, and nothing leaks or strays."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import plants
import pytest

from backproof.trace import Place, open_trace

HERE = Path(__file__).parent
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow", f"-I{plants.ROOT / 'c'}")
COMPILERS = {
    "C99": ("gcc", "-std=c99", *STRICT),
    "C11 with sanitizers": ("gcc", "-std=c11", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", *STRICT),
    "C++11": ("g++", "-x", "c++", "-std=c++11", *STRICT),
    "C++20": ("g++", "-x", "c++", "-std=c++20", *STRICT),
}
SAID = """\
open 0
note 0
begin 0
f32 0
nd 0
f64 0
f16 0
bf16 0
i8 0
i64 0
i32 0
scalar 0
empty 0
end 0
null 0
seen 1
close 0
again 5
kept 5
closed 5
long 4
slash 2 2
nameless 2 2
phase 2 2
dims 3 3
data 3 3
huge 3 3
twice 5 5
set 2 2
fine 0 0
nobody 1 a path is longer than the file system takes; nothing was written under a shorter one
"""


def compiled(compiler, folder):
    program = folder / "every_call"
    subprocess.run([*COMPILERS[compiler], HERE / "every_call.c", "-o", program], check=True)
    return program


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_function_does_what_the_header_says(compiler, tmp_path):
    said = subprocess.run([compiled(compiler, tmp_path), tmp_path / "t"], capture_output=True, text=True, check=True)

    assert said.stderr == ""
    assert said.stdout == SAID
    trace = open_trace(tmp_path / "t")
    step = trace.steps[0]
    read = {place.key: step.tensor(place).tolist() for place in step.keys.values()}
    assert read == {
        "fc.fwd.s000": [[[1, 2, 3], [4, 5, 6]]],
        "fc.fwd.s001": [[[[1, 2, 3], [4, 5, 6]]]],
        "fc.w_before.weight": [[0.1, -1e300]],
        "act.fwd.s000": [1, -2],
        "act.fwd.s1234": [1, -2],
        "shape.fwd.s000": [-65.5, -1.5, 0, 62],
        "label.fwd.s000": [1, -2, 3],
        "label.fwd.s001": [7],
        "loss.fwd": 1,
        "fc.agrad.s000": [],
    }
    assert [step.dtype(Place("act", "fwd", sample=s)) for s in (0, 1234)] == ["float16", "bfloat16"]
    assert set(step.stored) == set(read)
    told = trace.manifest
    assert told.framework == 'test "1"\n'
    assert (told.batch, told.samples, told.scale) == (4, (0, 1), {"agrad": 4.0})
    assert [(p.name, p.parents, p.kind, dict(p.hyper), p.parameters) for p in told.probes] == [
        ("fc", ("input",), "linear", {}, ("weight", "bias")),
        ("act", ("fc",), "leaky_relu", {"negative_slope": 0.01}, ()),
        ("shape", ("act",), "reshape", {"shape": [2, 3], "extra": -1, "mode": "a\\b"}, ()),
    ]
    assert told.optimizer == {"name": "sgd", "lr": 0.1}
    assert told.notes == {"seed": "7"}
    assert np.load(tmp_path / "t" / "step000" / "fc.fwd.s000.npy").dtype == np.dtype("<f4")
    assert not any(path.name.startswith("xxx") for path in (tmp_path / "t").iterdir()), "a long path was cut"
    assert not (tmp_path / "t" / "slash" / "step000").exists(), "a step with a refused tensor was kept"


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_nothing_leaks_and_nothing_is_read_that_is_not_ours(tmp_path):
    program = compiled("C99", tmp_path)
    watched = ["valgrind", "--quiet", "--leak-check=full", "--error-exitcode=9"]

    done = subprocess.run([*watched, program, tmp_path / "t"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout == SAID


def test_the_example_trains_with_and_without_a_trace_under_sanitizers(tmp_path):
    checked = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover", *plants.FLAGS[1:])
    program = plants.build(tmp_path / "build", flags=checked)

    plain = subprocess.run([program, "--steps", "2"], capture_output=True, text=True, check=True)
    traced = subprocess.run(
        [program, "--steps", "2", "--trace", tmp_path / "t"], capture_output=True, text=True, check=True
    )

    assert plain.stdout == traced.stdout
    assert plain.stdout.count("loss") == 2
    assert len(open_trace(tmp_path / "t").steps) == 2


def test_the_example_learns():
    subprocess.run(["make", "-s", "-C", plants.EXAMPLE], check=True)

    said = subprocess.run([plants.EXAMPLE / "train", "--steps", "150"], capture_output=True, text=True, check=True)

    losses = [float(line.rsplit(" ", 1)[1]) for line in said.stdout.splitlines()]
    assert losses[-1] < losses[0] / 5


@pytest.mark.parametrize("words", [["--step", "3"], ["--steps"], ["--batch", "0"], ["--start", "1x"], ["--steps=3"]])
def test_the_example_refuses_what_it_does_not_know(words):
    subprocess.run(["make", "-s", "-C", plants.EXAMPLE], check=True)

    done = subprocess.run([plants.EXAMPLE / "train", *words], capture_output=True, text=True, check=False)

    assert done.returncode == 3
    assert done.stderr.startswith("usage")


def test_the_example_says_which_file_it_cannot_read(tmp_path):
    program = plants.build(tmp_path / "build")
    subprocess.run([program, "--export", tmp_path], check=True)
    with (tmp_path / "ln1.weight.npy").open("ab") as file:
        file.write(b"more")

    done = subprocess.run([program, "--data", tmp_path], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "ln1.weight.npy" in done.stderr


def test_a_killed_run_leaves_whole_steps_only(tmp_path):
    program = plants.build(tmp_path / "build")
    running = subprocess.Popen([program, "--steps", "100000", "--trace", tmp_path / "t"], stdout=subprocess.DEVNULL)
    while not (tmp_path / "t" / "step002").exists():
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()

    trace = open_trace(tmp_path / "t")

    told = json.loads((tmp_path / "t" / "trace.json").read_text())
    sizes = [len(list(step.path.iterdir())) for step in trace.steps.values()]
    assert set(sizes[1:]) == {sizes[0] + 10}, (
        "a step is not whole: each after the first has ten states of the optimizer more"
    )
    assert len(told["steps"]) in (len(sizes), len(sizes) - 1)
    assert not any(path.suffix == ".part" for step in trace.steps.values() for path in step.path.iterdir())


def test_what_a_killed_run_left_is_not_mixed_with(tmp_path):
    program = plants.build(tmp_path / "build")
    (tmp_path / "t" / "step000.part").mkdir(parents=True)
    (tmp_path / "t" / "step000.part" / "stale.fwd.npy").write_bytes(b"")

    subprocess.run([program, "--steps", "1", "--trace", tmp_path / "t"], check=True, stdout=subprocess.DEVNULL)

    assert "stale" not in {place.probe for place in open_trace(tmp_path / "t").steps[0].keys.values()}


def test_a_full_folder_is_an_error_of_the_run_and_not_a_crash(tmp_path):
    program = plants.build(tmp_path / "build")
    (tmp_path / "t").write_text("a file where the folder should be")

    done = subprocess.run(
        [program, "--steps", "1", "--trace", tmp_path / "t"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "step 0: loss" in done.stdout
    assert "not whole" in done.stderr

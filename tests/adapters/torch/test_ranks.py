"""Data-parallel runs of two real processes: what they reduce, and whether they train one model."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from backproof.verify.run import verify_run

SCRIPT = Path(__file__).with_name("ranks.py")


RUNS = ("none", "accumulated", "by hand", "summed", "missing", "unwrapped", "other seeds", "unequal")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with all runs, each of them with its ranks."""
    out = tmp_path_factory.mktemp("ranks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(SCRIPT), str(out)]
    both = [
        subprocess.Popen([*command, str(rank), str(port), *RUNS], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in both:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    return out


def ranks(runs, mistake):
    """Both ranks' runs, verified together."""
    return list(verify_run(runs / mistake))


def broken(verdicts):
    return [found for verdict in verdicts for found in verdict.findings if found.verdict == "broken"]


def suspect(verdicts):
    return {found.practice for verdict in verdicts for found in verdict.suspect}


@pytest.mark.parametrize("mistake", ["none", "accumulated", "by hand"])
def test_an_honest_run_of_two_ranks_holds(runs, mistake):
    verdicts = ranks(runs, mistake)

    assert [(v.rank, v.step, v.verdict) for v in verdicts] == [(r, s, "holds") for r in range(2) for s in range(2)], (
        broken(verdicts)[:2]
    )
    assert not suspect(verdicts)
    assert not any(verdict.not_checked for verdict in verdicts), verdicts[0].not_checked
    assert all(verdict.equations["reduction"] == 4 for verdict in verdicts)


@pytest.mark.parametrize(
    ("mistake", "cause", "wrong"),
    [("summed", "summed, not averaged", {0, 1}), ("missing", "were not reduced", {1})],
)
def test_a_reduction_that_is_another_is_found_at_the_rank_and_named(runs, mistake, cause, wrong):
    verdicts = ranks(runs, mistake)

    first = broken(verdicts)[0]
    assert (first.equation, first.parameter) == ("reduction", "module.0.weight")
    assert cause in first.cause
    assert {verdict.rank for verdict in verdicts if verdict.verdict == "broken"} == wrong


@pytest.mark.parametrize(
    ("mistake", "practices"),
    [
        ("unwrapped", {"unwrapped-loss", "ranks-differ"}),
        ("other seeds", {"ranks-differ"}),
        ("unequal", {"unequal-ranks"}),
    ],
)
def test_a_practice_of_ranks_is_suspect_and_every_equation_holds(runs, mistake, practices):
    verdicts = ranks(runs, mistake)

    assert not broken(verdicts), broken(verdicts)[0]
    assert suspect(verdicts) == practices


def test_one_rank_alone_says_what_it_cannot_know(runs):
    (first, *_) = verify_run(runs / "none" / "rank0")

    assert first.verdict == "holds"
    assert [entry.place for entry in first.not_checked] == ["reduction over ranks"]

"""Mistakes planted on one side: the tensor where each begins is named first, and the right side is blamed; its honest twin is not."""

import json
from dataclasses import replace

import pytest
from mill import Run, grind
from mistakes import PLANTED

from backproof.verify.traces.compare import compare

IDS = [planted.name for planted in PLANTED]
PARTIAL = [planted for planted in PLANTED if "one sample" not in planted.name]  # that sample is not recorded there


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Right traces, each made once."""
    made = {}

    def of(run):
        if run not in made:
            made[run] = grind(tmp_path_factory.mktemp("good"), run)
        return made[run]

    return of


@pytest.mark.parametrize("planted", PLANTED, ids=IDS)
def test_a_mistake_is_named_first_and_its_side_is_blamed(good, tmp_path, planted):
    run = Run(steps=planted.steps)

    found = compare(good(run), grind(tmp_path, run, planted.wrong))

    assert found.exit_code(strict=False) == 1
    assert (found.first.place.column, found.first.side) == (planted.first, "b")


@pytest.mark.parametrize("planted", PLANTED[::4], ids=IDS[::4])
def test_the_side_is_the_other_one_when_it_is_the_other_one(good, tmp_path, planted):
    run = Run(steps=planted.steps, samples=None)

    found = compare(grind(tmp_path, run, planted.wrong), good(run))

    assert (found.first.place.column, found.first.side) == (planted.first, "a")


@pytest.mark.parametrize("planted", PLANTED[::3], ids=IDS[::3])
def test_without_mathematics_the_place_is_named_all_the_same(good, tmp_path, planted):
    run = Run(steps=planted.steps, told=False)

    found = compare(good(run), grind(tmp_path, run, planted.wrong))

    assert found.exit_code(strict=False) == 1
    assert found.first.place.column == planted.first


@pytest.mark.parametrize("planted", PARTIAL[1::4], ids=[planted.name for planted in PARTIAL[1::4]])
def test_with_some_samples_recorded_the_place_is_named_all_the_same(good, tmp_path, planted):
    run = Run(steps=planted.steps, samples=2)

    found = compare(good(run), grind(tmp_path, run, planted.wrong))

    assert found.exit_code(strict=False) == 1
    assert found.first.place.column == planted.first


def test_independent_mistakes_are_all_named(good, tmp_path):
    by_name = {planted.name: planted for planted in PLANTED}
    several = replace(
        by_name["GELU by tanh"].wrong,
        back=by_name["layer norm backward without the mean"].wrong.back,
        scale=by_name["mean over B − 1"].wrong.scale,
        update=by_name["learning rate × 1.05"].wrong.update,
    )

    found = compare(good(Run()), grind(tmp_path, Run(), several))

    named = {finding.place.column for finding in found.all_findings if finding.side == "b"}
    assert {"act.fwd", "conv1.agrad", "fc.grad_scaled.weight", "conv1.w_after.weight"} <= named


def test_a_mistake_that_both_sides_make_is_found(tmp_path):
    wrong = PLANTED[0].wrong

    found = compare(grind(tmp_path / "a", Run(), wrong), grind(tmp_path / "b", Run(jitter=True), wrong))

    assert (found.first.place.column, found.first.side) == ("ln1.fwd", "both")


HINTS = {
    "loss gradient doubled": "2 times",
    "loss gradient negated": "−1 times",
    "loss gradient divided by the batch": "1/4 (the batch) times",
    "mean over B − 1": "4/3 times",
    "a sum for a mean": "4 (the batch) times",
    "a bias without a gradient": "is zero",
    "convolution shifted by one": "shifted by one along axis 2",
    "a channel of zeros": "index 3 of axis 1 only",
    "layer norm, gradients exchanged": "exchanged",
    "learning rate × 1.5": "1.5",
}


@pytest.mark.parametrize("name", HINTS)
def test_a_pattern_is_hinted_at(good, tmp_path, name):
    planted = next(planted for planted in PLANTED if planted.name == name)
    run = Run(steps=planted.steps)

    found = compare(good(run), grind(tmp_path, run, planted.wrong))

    assert HINTS[name] in "; ".join(found.first.hints)


RIGHT = {
    "rounded otherwise": (Run(), Run(jitter=True)),
    "float64": (Run(), Run(dtype="float64")),
    "two steps": (Run(steps=2), Run(steps=2, jitter=True)),
    "whole batch": (Run(samples=None), Run(samples=None, jitter=True)),
    "whole batch and samples": (Run(samples=None), Run(jitter=True)),
    "some samples": (Run(samples=2, batch=8), Run(samples=2, batch=8, jitter=True)),
    "another store": (Run(), Run(store="safetensors", jitter=True)),
    "the last of equals": (Run(coarse=True), Run(coarse=True, ties="last")),
    "the last of equals, some samples": (
        Run(coarse=True, samples=2, batch=8),
        Run(coarse=True, samples=2, batch=8, ties="last"),
    ),
    "a slope at 0": (Run(coarse=True), Run(coarse=True, dead=1.0)),
    "mathematics not told": (Run(told=False), Run(told=False, jitter=True)),
    "mathematics told by one": (Run(), Run(told=False, jitter=True)),
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_honest_variants_are_not_blamed(good, tmp_path, name, seed):
    left, right = (replace(run, seed=seed) for run in RIGHT[name])

    found = compare(good(left), grind(tmp_path, right))

    assert [str(finding.place) for finding in found.all_findings if finding.effect != "remark"] == []
    assert found.exit_code(strict=False) == 0
    assert found.compared > 70


def test_tie_policies_are_flips_and_explain_what_follows(good, tmp_path):
    run = Run(coarse=True, seed=2)

    found = compare(good(run), grind(tmp_path, replace(run, ties="last")))

    assert found.exit_code(strict=True) == 1
    assert {flip.turned.probe for flip in found.flips} == {"pool1"}
    assert all(turn.margin[0] == 0 for flip in found.flips for turn in flip.turned.turns[:1])
    assert "relu1.agrad.s000" in {place for flip in found.flips for place in flip.explains}
    assert max(flip.replayed for flip in found.flips) < 1e-6


@pytest.mark.parametrize("samples", [4, 2])
def test_the_next_step_follows_from_a_mistake_and_its_flips_are_no_near_ties(good, tmp_path, samples):
    wrong = next(planted.wrong for planted in PLANTED if planted.name == "relu backward without its mask")
    run = Run(steps=2, samples=samples)

    found = compare(good(run), grind(tmp_path, run, wrong))

    later = found.steps[1]
    begun = {seen.state for place, seen in later.seen.items() if (place.probe, place.phase) == ("conv1", "w_before")}
    assert begun == {"follows"}
    assert later.states["follows"] > 50
    assert {finding.place.column for finding in later.findings} == {"ln1.agrad"}
    assert all(flip.follows for flip in later.flips)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("samples", [4, 2])
def test_a_tie_moves_later_steps_apart_and_nobody_is_blamed(good, tmp_path, samples, seed):
    run = Run(coarse=True, steps=3, samples=samples, batch=2 * samples, seed=seed)

    found = compare(good(run), grind(tmp_path, replace(run, ties="last")))

    assert [str(finding.place) for finding in found.all_findings] == []
    assert found.exit_code(strict=False) == 0


def test_what_a_step_begins_with_is_undecided_where_the_step_before_was_not_recorded(good, tmp_path):
    wrong = next(planted.wrong for planted in PLANTED if planted.name == "learning rate × 1.5")
    folders = grind(tmp_path / "a", Run(steps=2)), grind(tmp_path / "b", Run(steps=2), wrong)
    for folder in folders:
        for path in folder.glob("step*/*_after.*"):
            path.unlink()
        told = json.loads((folder / "trace.json").read_text())
        (folder / "trace.json").write_text(json.dumps({**told, "steps": []}))

    found = compare(*folders)

    assert (found.verdict, found.exit_code(strict=True)) == ("undecided", 1)
    assert any("not recorded" in one.because for one in found.undecided)

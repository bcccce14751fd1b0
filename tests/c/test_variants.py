"""The C example beside its PyTorch mirror: honest ways to write it agree; every planted mistake is named, at its tensor and its side."""

import subprocess
import sys
from fnmatch import fnmatch

import plants
import pytest

from backproof.verify.traces.compare import compare

STEPS, BATCH = 2, 6


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Weights and samples, as the example writes them."""
    folder = tmp_path_factory.mktemp("data")
    subprocess.run([plants.build(folder / "build"), "--export", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def mirrored(data, tmp_path_factory):
    """The mirror's trace, told these arguments."""
    made = {}

    def mirror(*told):
        if told not in made:
            made[told] = tmp_path_factory.mktemp("mirror")
            given = ["--data", data, "--trace", made[told], "--steps", STEPS, "--batch", BATCH, *told]
            subprocess.run(
                [sys.executable, plants.EXAMPLE / "mirror.py", *map(str, given)], check=True, capture_output=True
            )
        return made[told]

    return mirror


def recorded(program, data, folder):
    return plants.record(program, data, folder / "trace", steps=STEPS, batch=BATCH)


def findings(comparison):
    return [*comparison.findings, *(found for step in comparison.steps for found in step.findings)]


@pytest.mark.parametrize("way", plants.HONEST.values(), ids=plants.HONEST)
def test_an_honest_way_to_write_the_program_is_no_mistake(way, data, mirrored, tmp_path):
    trace = recorded(plants.honest(tmp_path / "build", way), data, tmp_path)

    found = compare(trace, mirrored(*way.mirror))

    assert findings(found) == []
    assert found.exit_code(strict=False) == 0
    assert found.compared > 300


@pytest.mark.parametrize("plant", plants.PLANTS.values(), ids=plants.PLANTS)
def test_a_planted_mistake_is_named_at_its_tensor_and_its_side(plant, data, mirrored, tmp_path):
    trace = recorded(plants.planted(tmp_path / "build", plant), data, tmp_path)

    found = compare(trace, mirrored())

    first = findings(found)[0]
    assert found.exit_code(strict=False) == 1
    assert fnmatch(first.place.column, plant.first), first.says
    assert (first.kind, first.side, first.step) == ("bug", "a", plant.step)
    assert {other.side for other in findings(found)} == {"a"}


def test_there_are_mistakes_of_every_sort():
    assert len(plants.PLANTS) >= 20
    for sort in (plants.FORWARD, plants.LOSS, plants.BACKWARD, plants.PARAMETERS, plants.SCALING, plants.OPTIMIZER):
        assert sort


@pytest.mark.parametrize("start", [32, 90])
def test_other_batches_agree_as_well(start, data, tmp_path):
    program = plants.build(tmp_path / "build")
    given = ["--data", data, "--trace", tmp_path / "torch", "--steps", 1, "--batch", 5, "--start", start]

    subprocess.run([sys.executable, plants.EXAMPLE / "mirror.py", *map(str, given)], check=True, capture_output=True)
    found = compare(plants.record(program, data, tmp_path / "c", steps=1, batch=5, start=start), tmp_path / "torch")

    assert findings(found) == []

"""Halves: every operation may be rounded to them, and sums added up in them; what is more than that is named all the same."""

import pytest
from mill import Run, grind
from mistakes import PLANTED

from backproof.verify.traces.compare import compare

HIDDEN = {
    "layer norm, epsilon 1e-3",
    "layer norm, epsilon 1e-4",
    "layer norm, unbiased variance",
    "GELU by tanh",
    "GELU backward by tanh",
    "an activation in half precision",
    "learning rate × 1.001",
    "parameters changed between steps",
}
"""Mistakes that are no larger than a rounding of float16 or two."""
SEEN = [planted for planted in PLANTED if planted.name not in HIDDEN]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Right traces in float16, of one step and of two."""
    return {n: grind(tmp_path_factory.mktemp("good"), Run(dtype="float16", steps=n)) for n in (1, 2)}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("other", [{"dtype": "float16", "jitter": True}, {"dtype": "float32"}, {"dtype": "float64"}])
def test_honest_variants_are_not_blamed(tmp_path, seed, other):
    left = grind(tmp_path / "a", Run(dtype="float16", steps=2, seed=seed))

    found = compare(left, grind(tmp_path / "b", Run(steps=2, seed=seed, **other)))

    assert [one.says for one in found.all_findings if one.effect != "remark"] == []
    assert found.exit_code(strict=False) == 0


@pytest.mark.parametrize("planted", SEEN, ids=[planted.name for planted in SEEN])
def test_a_mistake_is_named_first_and_its_side_is_blamed(good, tmp_path, planted):
    found = compare(good[planted.steps], grind(tmp_path, Run(dtype="float16", steps=planted.steps), planted.wrong))

    assert (found.first.place.column, found.first.side) == (planted.first, "b")


@pytest.mark.parametrize("planted", [one for one in PLANTED if one.name in HIDDEN], ids=sorted(HIDDEN))
def test_nobody_else_is_blamed_for_what_rounding_hides(good, tmp_path, planted):
    found = compare(good[planted.steps], grind(tmp_path, Run(dtype="float16", steps=planted.steps), planted.wrong))

    assert {one.place.column for one in found.all_findings} <= {planted.first}

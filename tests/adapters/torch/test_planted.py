"""Every planted mistake is found where it is and named, with nothing before it; and of its honest twin nothing is said."""

import pytest
from planted import planted

from backproof.diagnose import verify

CASES = planted()


def findings(run):
    steps = verify(run).to_json()["steps"]
    return [finding for step in steps for finding in step["findings"] if finding["verdict"] == "broken"], [
        practice for step in steps for practice in step["suspect"]
    ]


@pytest.mark.parametrize("name", CASES)
def test_it_is_found_there_and_its_twin_is_not_mentioned(name, tmp_path):
    case = CASES[name]
    case.record(tmp_path / "wrong", True)
    case.record(tmp_path / "right", False)

    broken, suspect = findings(tmp_path / "wrong")
    quiet = findings(tmp_path / "right")

    if case.kind == "suspect":
        assert not broken
        assert case.equation in {found["practice"] for found in suspect}
        assert case.equation not in {found["practice"] for found in quiet[1]}
    else:
        assert broken, "nothing was found"
        assert (broken[0]["equation"], broken[0]["place"].endswith(case.place)) == (case.equation, True), broken[0]
        assert case.cause in broken[0]["cause"], broken[0]
        assert not quiet[0], quiet[0][0]


def test_there_are_enough_of_them():
    assert len(CASES) >= 60

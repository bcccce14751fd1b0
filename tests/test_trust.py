"""TRUST.md names only what there is, and calls nothing proved that is not a theorem."""

import re
from pathlib import Path

import pytest

from backproof.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "TRUST.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("|") and not line.startswith(("| claim", "|---"))
]
NAMES = re.findall(r"`([^`]+)`", TEXT)
AUDITED = set(re.findall(r'idtac "theorem ([\w.]+)"', (ROOT / "proofs" / "Audit.v").read_text(encoding="utf-8")))
TARGETS = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
THEOREM = re.compile(r"[A-Z]\w*\.\w+")


def exists(name: str) -> bool:
    """Whether there is such a theorem, command, target, test or file."""
    if THEOREM.fullmatch(name) and not name.endswith(".md"):
        return name in AUDITED
    first, _, rest = name.partition(" ")
    if first in ("bp", "make"):
        return rest in ({command.name for command in COMMANDS} if first == "bp" else TARGETS)
    path, _, test = name.partition("::")
    if not (ROOT / path).exists():
        return False
    return not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(set(NAMES)))
def test_what_is_named_exists(name):
    assert exists(name)


@pytest.mark.parametrize(
    "name",
    [
        "Tape.no_such_theorem",
        "bp believe",
        "make believe",
        "tests/no.py",
        "tests/test_trust.py::test_that_is_not_there",
    ],
)
def test_what_does_not_exist_would_be_noticed(name):
    assert not exists(name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_each_claim_has_one_standing_and_what_gives_it(row):
    _, standing, by = row
    names = re.findall(r"`([^`]+)`", by)

    match standing:
        case "proved":
            assert any(name in AUDITED for name in names)
        case "checked":
            assert any(name.startswith(("tests/", "bp ", "make ")) for name in names)
        case _:
            assert (standing, by) == ("assumed", "")


def test_every_theorem_of_a_range_is_on_the_page_of_proofs():
    page = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")

    for begin, end in re.findall(r"`\w+\.(\w+)` to `\w+\.(\w+)`", TEXT):
        assert f"`{begin}`" in page
        assert f"`{end}`" in page


ABOUT_THE_THEORY = {
    "README.md",
    "docs/proofs.md",
    "src/backproof/cli/prove.py",
    "src/backproof/session/prove.py",
    "src/backproof/session/theory.py",
}


def test_the_word_stands_only_where_the_theory_is_spoken_of():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    saying = {
        path.relative_to(ROOT).as_posix()
        for path in pages
        if path.name != "TRUST.md" and re.search(r"\bprove[dn]\b", path.read_text(encoding="utf-8"))
    }

    assert saying <= ABOUT_THE_THEORY

"""The wheel has all that the commands need: compiled parts, pages, the theory."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from backproof.session import theory

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"  # a copy: what other tests have loaded is not compiled anew under their feet
    for part in ("src", "proofs"):
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__", "lib*.so"))
    for file in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", folder, tree], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_it_has_what_the_commands_need(unpacked):
    package = unpacked / "backproof"
    for source in (ROOT / "src" / "backproof").rglob("*.*"):
        if source.suffix in {".py", ".js", ".css", ".typed"}:
            assert (package / source.relative_to(ROOT / "src" / "backproof")).is_file(), source
    for name in {*(source.name for source in (ROOT / "proofs").glob("*.v")), *theory.ORACLE_SOURCES}:
        assert (package / "proofs" / name).read_bytes() == (ROOT / "proofs" / name).read_bytes()
    assert not list(unpacked.rglob("*.vo"))


def test_its_commands_find_the_theory(unpacked):
    asked = "import backproof.session.theory as t; print(t.sources())"
    told = {**os.environ, "PYTHONPATH": str(unpacked)}
    found = subprocess.run([sys.executable, "-c", asked], env=told, check=True, capture_output=True, text=True)

    assert Path(found.stdout.strip()) == unpacked / "backproof" / "proofs"

"""The theory checks from its sources, admits nothing, and rests on nothing but the standard real numbers."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROOFS = Path(__file__).resolve().parents[2] / "proofs"
REALS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    """What `make` prints: theorem → the axioms that its group rests on."""
    place = tmp_path_factory.mktemp("theory")
    for name in (*PROOFS.glob("*.v"), PROOFS / "Makefile"):
        shutil.copy(name, place)
    done = subprocess.run(
        ["make", "-s", "-j2", "check", "audit"], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found, group, printed = {}, [], False
    for line in done.stdout.splitlines():
        if line.startswith("theorem "):
            group = [*([] if printed else group), line.removeprefix("theorem ")]
            found[group[-1]], printed = set(), False
            continue
        printed = True
        if match := re.match(r"([A-Z]\w*\.[\w.]+)", line):
            for name in group:
                found[name].add(match[1])
    return found


def test_every_theorem_is_printed(audit):
    named = re.findall(r'idtac "theorem ([\w.]+)"', (PROOFS / "Audit.v").read_text())

    assert set(audit) == set(named)
    assert len(named) > 100


def test_nothing_rests_on_more_than_the_standard_reals(audit):
    assert set().union(*audit.values()) <= REALS


def test_what_does_not_speak_of_reals_rests_on_no_axiom(audit):
    modules = ("Tape.", "Graph.", "Adjoint.", "Table.", "Primitives.", "Refutations.", "Program.")

    assert [name for name, axioms in audit.items() if name.startswith(modules) and axioms] == []


@pytest.mark.without_coq
def test_no_source_admits_or_assumes():
    words = re.compile(r"\b(Admitted|admit|Axiom|Parameter|Conjecture|Unset Guard Checking|bypass_check)\b")

    assert {
        path.name: words.findall(path.read_text()) for path in PROOFS.glob("*.v") if words.search(path.read_text())
    } == {}


def test_a_false_theorem_does_not_check(tmp_path):
    for name in ("Tensor.v", "Graph.v", "Refutations.v", "Makefile"):
        shutil.copy(PROOFS / name, tmp_path)
    text = (tmp_path / "Refutations.v").read_text()
    (tmp_path / "Refutations.v").write_text(text.replace(": ~ adjoint_Z", ": adjoint_Z"))

    done = subprocess.run(["make", "-s", "Refutations.vo"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode != 0

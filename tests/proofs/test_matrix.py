"""The page of theorems is up to date, names only theorems that there are, and shows what has none."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from backproof.ir.primitives import FAMILIES, PRIMITIVES

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("matrix_tool", ROOT / "proofs" / "matrix.py")
TOOL = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TOOL)

pytestmark = pytest.mark.without_coq


def test_the_page_is_up_to_date():
    assert (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8") == TOOL.page(), "run `python proofs/matrix.py`"


def test_every_primitive_has_a_row():
    page = TOOL.page()

    assert [op for op in PRIMITIVES if f"| `{op}` |" not in page] == []


def test_a_primitive_without_a_theorem_is_shown_plainly(monkeypatch):
    new = replace(PRIMITIVES["tanh"], name="atan")
    monkeypatch.setitem(FAMILIES, "elementwise", (*FAMILIES["elementwise"], new))

    assert "| `atan` | **none** | **none** |" in TOOL.page()


def test_a_name_that_is_printed_but_not_looked_into_is_refused(monkeypatch, tmp_path):
    for path in TOOL.PROOFS.glob("*.v"):
        (tmp_path / path.name).write_text(
            path.read_text().replace("@Primitives.exp_adjoint", "@Primitives.log_adjoint")
        )
    monkeypatch.setattr(TOOL, "PROOFS", tmp_path)

    with pytest.raises(SystemExit, match="other theorems"):
        TOOL.theorems()


def test_a_theorem_that_no_source_states_is_refused(monkeypatch, tmp_path):
    for path in TOOL.PROOFS.glob("*.v"):
        (tmp_path / path.name).write_text(path.read_text().replace("Theorem exp_adjoint", "Theorem other"))
    monkeypatch.setattr(TOOL, "PROOFS", tmp_path)

    with pytest.raises(SystemExit, match="exp_adjoint"):
        TOOL.theorems()

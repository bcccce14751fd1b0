"""The reference pages say what the tables say."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SPEC = importlib.util.spec_from_file_location("docs_tool", ROOT / "tools" / "docs.py")
TOOL = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TOOL)


@pytest.mark.parametrize("page", TOOL.PAGES)
def test_a_generated_page_is_up_to_date(page):
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == TOOL.PAGES[page](), "run `make docs`"

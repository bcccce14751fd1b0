"""The Python of README and of the guides runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "docs/session.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert blocks

    exec(compile("\n".join(blocks), page, "exec"), {})

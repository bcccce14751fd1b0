"""README and the guides are true: their Python runs as it stands, and their commands answer what is shown."""

import os
import re
import shlex
from pathlib import Path

import pytest

from backproof.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "docs/recording.md", "docs/session.md", "docs/traces.md"]
NUMBER = re.compile(r"\b[0-9a-f]{16}\b|[-+]?\d[\d.]*(e[-+]?\d+)?")  # a kernel may sum in another order elsewhere


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_and_its_commands_answer_what_is_shown(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|console)\n(.*?)```", text, re.DOTALL)
    assert blocks
    names: dict[str, object] = {"__name__": "page"}

    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, page, "exec"), names)
            continue
        for command, shown in re.findall(r"^\$ bp (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            capsys.readouterr()
            main(shlex.split(command))
            printed = [plain(line) for line in capsys.readouterr().out.splitlines()]
            for line in (plain(line) for line in shown.splitlines() if line and line != "..."):
                assert line in printed, os.linesep.join([f"bp {command} does not print", line, *printed])


def plain(line):
    return NUMBER.sub("#", line.rstrip())

"""Each helper is one file that a user copies: it stands alone, and both share one text below a mark."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from backproof import adapters

FOLDER = Path(adapters.__file__).parent / "classic"
FILES = {"pytorch": ("pytorch_helper.py", "torch"), "jax": ("jax_helper.py", "jax")}
MARK = "# ---- the sidecar: from here on the same text"


@pytest.mark.parametrize("framework", FILES)
def test_a_helper_imports_its_framework_and_the_standard_library_only(framework):
    name, module = FILES[framework]
    tree = ast.parse((FOLDER / name).read_text(encoding="utf-8"))

    imported = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}

    assert imported - set(sys.stdlib_module_names) == {module}


def test_the_part_that_writes_the_sidecar_is_the_same_text_in_both():
    shared = [(FOLDER / name).read_text(encoding="utf-8").split(MARK)[1] for name, _ in FILES.values()]

    assert shared[0] == shared[1]


@pytest.mark.parametrize("framework", FILES)
def test_the_printed_file_runs_by_itself_and_gives_its_own_hash(framework, tmp_path):
    pytest.importorskip(FILES[framework][1], reason=f"{framework} is not installed")
    bp = [sys.executable, "-m", "backproof", "examples", framework]
    text = subprocess.run([*bp, "--print"], capture_output=True, check=True).stdout
    copy = tmp_path / "copied.py"
    copy.write_bytes(text)

    said = subprocess.run([sys.executable, copy, "--print-hash"], capture_output=True, check=True, text=True)

    import hashlib

    assert said.stdout.strip() == "sha256:" + hashlib.sha256(text).hexdigest()
    where = subprocess.run(bp, capture_output=True, check=True, text=True).stdout.strip()
    assert Path(where).read_bytes() == text

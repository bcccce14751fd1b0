"""Real dumps of a C framework and of its PyTorch mirror, where they are: beside the repository, or where ODT_DUMPS says."""

import os
from pathlib import Path

import pytest

from backproof.verify.traces.compare import Options
from backproof.verify.traces.table import load_layers

ROOT = Path(__file__).resolve().parents[2]
DUMPS = Path(os.environ.get("ODT_DUMPS", ROOT.parent / "shared" / "data" / "odt"))
LAYERS = ROOT / "tests" / "trace" / "odt.yaml"
BATCHES = ("batch00", "batch02")
needs_dumps = pytest.mark.skipif(not DUMPS.is_dir(), reason=f"no dumps in {DUMPS} (set ODT_DUMPS)")


def told(**more) -> Options:
    """The options under which the two sides can be compared."""
    return Options(layers=load_layers(str(LAYERS)), allow_missing=("pool0.agrad*",), **more)


def copied(tmp_path, batch="batch00"):
    """Both sides' files, to be changed."""
    import shutil

    for side in ("c", "pt"):
        shutil.copytree(DUMPS / side / batch, tmp_path / side, copy_function=shutil.copyfile)
        for path in (tmp_path / side).rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (tmp_path / side).chmod(0o755)
    return tmp_path / "c", tmp_path / "pt"

"""The generators of uses of primitives are those of the laws."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "laws"))

needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="coqc is not on this machine: nothing about proofs is checked"
)


def pytest_collection_modifyitems(items):
    """Tests that run the kernel or the oracle are skipped, visibly, where there is none."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("without_coq") is None:
            item.add_marker(needs_coq)


def pytest_configure(config):
    config.addinivalue_line("markers", "without_coq: runs on a machine that has no proof kernel")

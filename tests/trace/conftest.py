"""A small trace, and two copies of it to change."""

import shutil

import pytest
from mill import grind


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return grind(tmp_path_factory.mktemp("made"))


@pytest.fixture
def pair(made, tmp_path):
    for side in "ab":
        shutil.copytree(made, tmp_path / side)
    return tmp_path / "a", tmp_path / "b"

"""The peer, installed from npm into a cache outside the repository; without node, npm or a network: a visible skip."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from backproof.cli import main

PACKAGE, VERSION = "@mcptoolshop/backprop-trace", "1.0.0"
NAMING = ("reconciliation_check_targeted_first", "expected_rules_fired", "expected_failures", "single_target_invariant")
NAMED_RULE = re.compile(r'[Rr]ule[ _-]*(\d+)|"rule": (\d+)|^\[(\d+)')
DRIVER = Path(__file__).with_name("peer_batch.mjs")


@dataclass(frozen=True)
class Answer:
    """What a command line answered."""

    exit: int
    out: str
    err: str


@dataclass(frozen=True)
class Fixture:
    """One file that comes with the peer: its path, its lines, and what it is."""

    path: Path
    name: str

    @cached_property
    def documents(self) -> list[dict]:
        text = self.path.read_text(encoding="utf-8")
        try:
            return [json.loads(text)]  # one document, on one line or on many
        except json.JSONDecodeError:
            return [json.loads(line) for line in text.splitlines() if line.strip()]

    @property
    def is_sidecar(self) -> bool:
        return "format" in self.documents[0]

    @property
    def is_multi(self) -> bool:
        return len(self.documents) > 1

    @property
    def framework(self) -> str:
        return self.documents[0]["source_framework"]["name"]

    @property
    def is_bad(self) -> bool:
        return self.name.startswith("bad/")

    @property
    def named_rule(self) -> int:
        """The rule that the file's own description says it breaks."""
        meta = json.loads(self.path.with_suffix(".meta.json").read_text(encoding="utf-8"))
        for key in NAMING:
            if found := NAMED_RULE.search(json.dumps(meta.get(key))):
                return int(next(filter(None, found.groups())))
        raise AssertionError(f"{self.name}: its description names no rule")

    @property
    def verify(self) -> list[str]:
        """The verify command line of its kind."""
        kind = "multi" if self.is_multi else "mazur" if self.documents[0]["schema_version"] == "0.1.0" else "general"
        return ["verify", kind, str(self.path)]

    @property
    def commands(self) -> list[list[str]]:
        """Every command line that a user would give it."""
        path = str(self.path)
        if self.is_sidecar:
            return [["import", self.framework, *(["multi"] if self.is_multi else []), path]]
        single = [] if self.is_multi else [["validate", path]]
        return [*single, ["reconcile", "receipt", path], self.verify]


class Peer:
    """The installed package: its fixtures and its command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = sorted((folder / "fixtures").rglob("*.jsonl"))
        self.fixtures = [Fixture(p, p.relative_to(folder / "fixtures").as_posix()[: -len(".jsonl")]) for p in paths]

    def run(self, commands: list[list[str]]) -> list[Answer]:
        """Several command lines in one process."""
        script = self.folder / "dist" / "bin" / "bp.js"
        done = subprocess.run(
            ["node", DRIVER, script], input=json.dumps(commands).encode(), capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return [Answer(**answer) for answer in json.loads(done.stdout)]


def ours(command: list[str], stdin: bytes = b"") -> Answer:
    """One command line of `bp`, in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    held, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(command)
    finally:
        sys.stdin = held
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return Answer(int(code), *texts)


def _folder() -> Path:
    if given := os.environ.get("BACKPROOF_PEER"):
        return Path(given)
    base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "backproof" / f"peer-{VERSION}"
    return base / "node_modules" / PACKAGE


def _install(folder: Path) -> None:
    root = folder.parents[2]
    root.mkdir(parents=True, exist_ok=True)
    command = [
        "npm",
        "install",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
        root,
        f"{PACKAGE}@{VERSION}",
    ]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    if done.returncode != 0 or not folder.is_dir():
        pytest.skip(f"npm cannot install {PACKAGE}@{VERSION} (offline?): conformance with it is not tested")


def installed() -> Peer:
    """The peer, installed once; skips with the reason where that cannot be."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed: conformance with the npm package is not tested")
    folder = _folder()
    if not (folder / "package.json").is_file():
        _install(folder)
    return Peer(folder)

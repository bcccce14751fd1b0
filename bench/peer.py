"""The npm package that classic receipts come from: installed once, so that a bench can run it beside ours."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

NAME, VERSION = "@mcptoolshop/backprop-trace", "1.0.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "backproof"


def peer(given: str | None = None) -> Path | None:
    """The package's own folder: the one that is given, or one in the cache; None, and a word why, where there is none."""
    if shutil.which("node") is None:
        print("the peer is left out: there is no node")
        return None
    if given:
        folder = Path(given)
    else:
        root = CACHE / f"peer-{VERSION}"
        folder = root / "node_modules" / NAME
        npm = shutil.which("npm")
        if not folder.is_dir() and npm:
            root.mkdir(parents=True, exist_ok=True)
            install = [npm, "install", "--silent", "--ignore-scripts", "--prefix", str(root), f"{NAME}@{VERSION}"]
            subprocess.run(install, check=False)
    if not (folder / "package.json").is_file():
        print(f"the peer is left out: npm cannot install {NAME}@{VERSION} here, or it is not in {folder}")
        return None
    return folder


def installed() -> dict[str, str]:
    """The environment of a command as users have it: what an installed package holds is compiled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def command(folder: Path) -> list[str]:
    """Its command line."""
    return ["node", str(folder / "dist" / "bin" / "bp.js")]

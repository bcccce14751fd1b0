"""The C of `lines.c`, compiled once with the machine's own compiler; without one, Python does the same, slower."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("lines.c")
FLAGS = ("-O2", "-std=c11", "-shared", "-fPIC")


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or None: no compiler, no place for it, or BACKPROOF_NATIVE=0."""
    if os.environ.get("BACKPROOF_NATIVE") == "0":
        return None
    try:
        loaded = ctypes.CDLL(str(_compiled()))
    except (OSError, subprocess.SubprocessError):
        return None
    loaded.read_lines.restype = ctypes.c_int64
    loaded.write_lines.restype = ctypes.c_int64
    return loaded


def _compiled() -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    key = hashlib.sha256(SOURCE.read_bytes() + repr((FLAGS, os.uname().machine)).encode()).hexdigest()
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    target = base / "backproof" / "native" / f"lines-{key[:24]}.so"
    if target.is_file():
        return target
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        partial = Path(folder) / target.name
        subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(partial), "-lm"], check=True, capture_output=True)  # noqa: S603
        partial.replace(target)  # whole or not at all, whoever else compiles it now
    return target


def address(array: object) -> ctypes.c_void_p:
    """Where a NumPy array's numbers begin."""
    return ctypes.c_void_p(array.ctypes.data)  # type: ignore[attr-defined]

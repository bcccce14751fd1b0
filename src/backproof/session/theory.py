"""The theory of `proofs/`, checked on this machine: where it is, and its kernel and oracle as programs to run.

What is checked once is kept in the user's cache, in a folder named by a digest of the sources, so that a changed theory is checked again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import backproof
from backproof.errors import BackproofError, MissingToolError

MODULES = ("Tensor", "Graph", "Tape", "Adjoint", "Table", "Index", "Primitives", "Program")
"""What a certificate needs, in the order in which it is checked."""
ORACLE_SOURCES = ("Extract.v", "flat.ml", "oracle.ml")


def sources() -> Path:
    """The folder of the theory: beside the package when installed, at the top of a checkout."""
    package = Path(backproof.__file__).parent
    for folder in (package / "proofs", package.parents[1] / "proofs"):
        if (folder / "Program.v").is_file():
            return folder
    raise MissingToolError(
        f"the theory is not installed: there is no proofs/Program.v beside {package} or above it; install backproof from its wheel "
        "or run it in a checkout"
    )


def require(tool: str, package: str) -> str:
    """The path of a program that must be there."""
    found = shutil.which(tool)
    if found is None:
        raise MissingToolError(
            f"{tool} is not on this machine, so nothing was proved; install it (Debian: apt-get install {package}) and run again"
        )
    return found


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "backproof"


def _built(kind: str, files: tuple[str, ...], steps: tuple[tuple[str, ...], ...]) -> Path:
    """The folder where these files lie and these commands have succeeded; made once, whole or not at all."""
    origin = sources()
    digest = hashlib.sha256()
    for name in files:
        digest.update(name.encode() + b"\0" + (origin / name).read_bytes() + b"\0")
    for step in steps:
        digest.update("\0".join(step).encode())
    folder = _cache() / f"{kind}-{digest.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=folder.parent))
    try:
        for name in files:
            shutil.copyfile(origin / name, making / name)
        for step in steps:
            done = run(step, making)
            if done.returncode != 0:
                raise BackproofError(f"the theory in {origin} does not check: {' '.join(step)}\n{done.stderr[-2000:]}")
        try:
            making.rename(folder)
        except OSError:  # another process was first; its folder is as good
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def run(command: tuple[str, ...], folder: Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, with as much stack as the machine allows: lists of numbers are long."""
    shell = 'ulimit -s unlimited 2>/dev/null || ulimit -s "$(ulimit -H -s)" 2>/dev/null; exec "$@"'
    return subprocess.run(  # noqa: S603 # the command is one of this module's own
        ["/bin/sh", "-c", shell, "sh", *command], cwd=folder, input=given, capture_output=True, text=True, check=False
    )


def coqc_flags(theory: Path) -> tuple[str, ...]:
    """The kernel's command line for a file that uses the theory."""
    return (require("coqc", "coq"), "-w", "none", "-Q", str(theory), "Backproof")


def checked_theory() -> Path:
    """The folder of the checked theory."""
    coqc = require("coqc", "coq")
    files = tuple(f"{name}.v" for name in MODULES)
    steps = tuple((coqc, "-w", "none", "-Q", ".", "Backproof", name) for name in files)
    return _built("theory", files, steps)


def oracle() -> Path:
    """The program that is extracted from the theory."""
    coqc, ocamlfind = require("coqc", "coq"), require("ocamlfind", "ocaml-findlib libzarith-ocaml-dev")
    files = (*(f"{name}.v" for name in MODULES), *ORACLE_SOURCES)
    check = tuple((coqc, "-w", "none", "-Q", ".", "Backproof", f"{name}.v") for name in (*MODULES, "Extract"))
    parts = ("flat.ml", "session.mli", "session.ml", "oracle.ml")
    build = ("ocamlopt", "-O3", "-w", "-a", "-package", "zarith", "-linkpkg", *parts)
    if run((ocamlfind, "query", "-format", "%d/z.cmi", "zarith"), sources()).returncode != 0:
        raise MissingToolError(
            "OCaml's zarith is not on this machine, so the oracle cannot be built; install it (Debian: apt-get install "
            "libzarith-ocaml-dev) or use the kernel (--kernel)"
        )
    return _built("oracle", files, (*check, (ocamlfind, *build, "-o", "backproof-oracle"))) / "backproof-oracle"

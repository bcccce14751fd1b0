"""Compiles the native parts into the package where there is a C compiler (without one it is pure Python, and slower); adds the theory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Results must not depend on fused operations, so that every machine computes the same. (A convolution asks for them by name: it takes the
# place of a library's product of matrices, whose last bits are the machine's too.)
FLAGS = ("-std=c99", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
SOURCES = {
    "src/backproof/engine/native/fused.c": "libfused",
    "src/backproof/receipt/native/scan.c": "libscan",
    "src/backproof/engine/native/convolve.c": "libconvolve",
    "src/backproof/verify/native/screen.c": "libscreen",
    "src/backproof/adapters/classic/native/lines.c": "liblines",
}


class NativeBuildHook(BuildHookInterface):
    """Builds a shared library beside each of SOURCES, and takes `proofs/` along, which `bp prove` needs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as one for this platform if anything was compiled."""
        if self.target_name != "wheel":
            return
        if version != "editable":
            theory = Path(self.root) / "proofs"
            for source in (*theory.glob("*.v"), theory / "flat.ml", theory / "oracle.ml"):
                build_data["force_include"][str(source)] = f"backproof/proofs/{source.name}"
        built = [library for source, name in SOURCES.items() if (library := self._compile(Path(source), name))]
        if not built:
            return
        build_data["artifacts"] += [f"/{library.as_posix()}" for library in built]
        if version != "editable":
            # The libraries do not know of Python: one wheel serves every version of it on this platform.
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"

    def _compile(self, source: Path, name: str) -> Path | None:
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None or sys.platform == "win32":
            self.app.display_warning(f"{source}: not compiled, since there is no C compiler")
            return None
        library = source.with_name(f"{name}.so")
        command = [
            *compiler.split(),
            *FLAGS,
            str(Path(self.root) / source),
            "-o",
            str(Path(self.root) / library),
            "-lm",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the machine's compiler
        if done.returncode:
            self.app.display_warning(f"{source}: not compiled\n{done.stderr}")
            return None
        return library

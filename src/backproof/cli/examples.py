"""Print the recording helper of a framework: where its file lies, or, with --print, the file itself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from backproof import adapters
from backproof.cli.command import Exit
from backproof.cli.envelope import enveloped, output_flags, print_json, wants_json
from backproof.errors import InputError

HELPERS = {"pytorch": "pytorch_helper.py", "jax": "jax_helper.py"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """`bp examples pytorch|jax [--print] [--json]`."""
    parser.add_argument("framework", help=f"whose helper: {' or '.join(HELPERS)}")
    parser.add_argument("--print", action="store_true", help="the file's text, to be copied into a project")
    output_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Answer from the installed package; no framework is imported."""
    return enveloped(args, _run)


def _run(args: argparse.Namespace) -> int:
    if args.framework not in HELPERS:
        raise InputError(f"there is no helper for {args.framework!r}; there are {', '.join(HELPERS)}")
    path = Path(adapters.__file__).resolve().parent / "classic" / HELPERS[args.framework]
    if not path.is_file():
        raise InputError(f"{path}: the helper is not part of this installation; install backproof again")
    if args.print:
        sys.stdout.write(path.read_text(encoding="utf-8"))
    elif wants_json(args):
        print_json({"ok": True, "helper_path": str(path)})
    else:
        print(path)
    return Exit.HOLDS

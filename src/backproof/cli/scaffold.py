"""Print a built-in topology input, to be edited and given to `bp generate from-config`."""

from __future__ import annotations

import argparse
import sys

from backproof.cli.command import Exit
from backproof.cli.envelope import enveloped, output_flags, print_json, utf16_length, wants_json, write_out
from backproof.receipt.authoring.builtin import BUILTIN


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("what", choices=("topology",), help="what to print")
    parser.add_argument("--topology", required=True, choices=tuple(BUILTIN), help="which network")
    parser.add_argument("--out", help="write the input here instead of to standard output")
    output_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Print one input."""
    return enveloped(args, _run)


def _run(args: argparse.Namespace) -> int:
    from backproof.receipt.json_text import indented

    content = (indented(BUILTIN[args.topology]()) + "\n").encode("utf-8")
    if not args.out:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return Exit.HOLDS
    write_out(args.out, content)
    if wants_json(args):
        print_json({"ok": True, "output_path": args.out, "bytes": utf16_length(content)})
    return Exit.HOLDS

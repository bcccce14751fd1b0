"""Validate a receipt against the format that its schema_version names.

Prints `valid`, or each deviation with its place. Exit code: 0 valid, 1 not valid, 2 cannot be read.
"""

from __future__ import annotations

import argparse
import sys

from backproof.cli.command import Exit
from backproof.cli.envelope import enveloped, output_flags, print_json, say, wants_json
from backproof.errors import printable
from backproof.receipt.json_text import compact

MOST_LINES = 100  # deviations printed for people


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", help="a receipt (.json or one line of .jsonl); '-' is standard input")
    output_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Validate one receipt."""
    return enveloped(args, _run)


def _run(args: argparse.Namespace) -> int:
    from backproof.receipt.document import read_document

    receipt = read_document(args.file)
    say(args, f"schema_version: {receipt.version or '(none)'}")
    if not receipt.deviations:
        if wants_json(args):
            print_json({"ok": True})
        else:
            print("valid")
        return Exit.HOLDS
    if wants_json(args):
        print_json({"ok": False, "errors": [deviation.as_json() for deviation in receipt.deviations]})
        return Exit.DOES_NOT_HOLD
    print("schema validation failed\n", file=sys.stderr)
    for deviation in receipt.deviations[:MOST_LINES]:
        print(f"  error at {printable(deviation.path) or '(root)'}: {printable(deviation.message)}", file=sys.stderr)
        print(f"    params: {printable(compact(deviation.params))}", file=sys.stderr)
    if (more := len(receipt.deviations) - MOST_LINES) > 0:
        print(f"  and {more} more; --json lists all", file=sys.stderr)
    return Exit.DOES_NOT_HOLD

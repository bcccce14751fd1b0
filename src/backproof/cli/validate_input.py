"""Validate a topology input, the file that `bp generate from-config` takes.

Prints `valid`, or each deviation with its place. Exit code: 0 valid, 1 not valid, 2 cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from backproof.cli.command import Exit
from backproof.cli.envelope import enveloped, output_flags, print_json, wants_json
from backproof.errors import printable
from backproof.receipt.validation import Deviation

HINT = "an input has no results: forward, loss, backward, updates, parameters_after and fixture_status are computed"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", help="a topology input as JSON; '-' is standard input")
    output_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Validate one topology input."""
    return enveloped(args, _run)


def _run(args: argparse.Namespace) -> int:
    _, found = read_input(args.file)
    if found:
        return refuse_input(args, found, "input schema validation failed")
    if wants_json(args):
        print_json({"ok": True})
    else:
        print("valid")
    return Exit.HOLDS


def read_input(path: str) -> tuple[Any, list[Deviation]]:
    """A topology input and its deviations from the format. A byte order mark is forgiven here."""
    from backproof.receipt import reading
    from backproof.receipt.formats import lossless
    from backproof.receipt.formats.topology_input import TOPOLOGY_INPUT
    from backproof.receipt.topology_reading import is_layered
    from backproof.receipt.validation import deviations

    where = "standard input" if path == "-" else path
    document = reading.parse(reading.read_bytes(path).removeprefix(b"\xef\xbb\xbf"), where)
    layered = isinstance(document, dict) and is_layered(document)
    return document, deviations(document, lossless.INPUT if layered else TOPOLOGY_INPUT)


def refuse_input(args: argparse.Namespace, found: list[Deviation], headline: str) -> int:
    """Report the deviations of a topology input."""
    message = f"the topology input leaves its format in {len(found)} place(s); {HINT}"
    if wants_json(args):
        errors = [deviation.as_json() for deviation in found]
        print_json({"ok": False, "error": {"kind": "SCHEMA_VIOLATION", "message": message, "errors": errors}})
        return Exit.DOES_NOT_HOLD
    print(f"{headline} (SCHEMA_VIOLATION)\n  {printable(message)}", file=sys.stderr)
    for deviation in found:
        print(f"  {printable(deviation.describe())}", file=sys.stderr)
    return Exit.DOES_NOT_HOLD

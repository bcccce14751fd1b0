"""What the commands on receipts share: their flags, and results and errors as one line of JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from backproof.errors import BackproofError, InputError


def output_flags(parser: argparse.ArgumentParser) -> None:
    """--json, --format, --verbose and --color, as every command on receipts has them."""
    parser.add_argument("--json", action="store_true", help="the result as one line of JSON on standard output")
    parser.add_argument("--format", choices=("json", "text"), help="--format=json is --json")
    parser.add_argument("--verbose", "-V", action="store_true", help="say on standard error what is being done")
    parser.add_argument("--color", choices=("auto", "always", "never"), help="colour, or none, whatever the terminal")


def strict_flags(parser: argparse.ArgumentParser) -> None:
    """--strict and --warn-as-fail."""
    parser.add_argument("--strict", action="store_true", help="a warning or a skipped check is a failure")
    parser.add_argument("--warn-as-fail", action="store_true", help="a warning is a failure")


def wants_json(args: argparse.Namespace) -> bool:
    """Whether the result goes out as JSON."""
    return bool(args.json) or args.format == "json"


def enveloped(args: argparse.Namespace, work: Callable[[argparse.Namespace], int]) -> int:
    """Do the work; in JSON mode an error becomes `{ok: false, error: {code, message}}` on standard output."""
    args.color = None if args.color == "auto" else args.color
    try:
        return work(args)
    except BackproofError as error:
        if not wants_json(args):
            raise
        print_json(error_envelope(error))
        return error.exit_code


def error_envelope(error: BackproofError) -> dict[str, Any]:
    """An error as programs read it."""
    return {"ok": False, "error": {"code": code_of(error), "message": str(error), "retryable": False}}


def code_of(error: BackproofError) -> str:
    """The stable name of an error for programs."""
    return str(getattr(error, "code", "INVALID_INPUT" if isinstance(error, InputError) else "ERROR"))


def print_json(value: Any) -> None:
    """One line of JSON on standard output; what an iterator holds goes out item by item."""
    from backproof.receipt.json_text import pieces

    sys.stdout.writelines(pieces(value))
    print()


def say(args: argparse.Namespace, text: str) -> None:
    """A remark on standard error, if --verbose asked for it."""
    if args.verbose:
        print(f"bp: {text}", file=sys.stderr)


def utf16_length(content: bytes) -> int:
    """The length of a text as JavaScript counts it."""
    return len(content.decode("utf-8").encode("utf-16-le", "surrogatepass")) // 2


def write_out(path: str, content: bytes) -> None:
    """Write a file; it appears whole or not at all."""
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)

"""Print the JSON Schema of a format, generated from its description; without a name, the names of all formats."""

from __future__ import annotations

import argparse

from backproof.cli.command import Exit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", help="a format, such as receipt.v0.3.0 or framework-trace.v0.8.0")


def run(args: argparse.Namespace) -> int:
    """Print one schema, or the list."""
    from backproof.receipt import formats
    from backproof.receipt.json_schema import schema_of
    from backproof.receipt.json_text import indented

    print(indented(schema_of(args.name)) if args.name else "\n".join(formats.NAMES))
    return Exit.HOLDS

"""Compare two traces: where two implementations part, layer by layer, and which side is wrong.

A and B are folders of traces (docs/traces.md). Where the layers' mathematics is told, in the manifests or by --layers, each side is also
derived by itself from its own recorded inputs, so that a mistake, a rounding and a decision taken otherwise are told apart.
Exit code: 0 agree, 1 differ, 2 incomplete or unreadable, 3 wrong usage. Nothing compared is never a pass.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from backproof.cli.envelope import print_json, write_out
from backproof.errors import BackproofError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("a", metavar="A", help="a folder with a trace")
    parser.add_argument("b", metavar="B", help="the folder that it is compared with")
    network_flags(parser)
    parser.add_argument(
        "--allow-missing",
        metavar="PATTERN",
        action="append",
        default=[],
        help="tensors known to be recorded on one side only, as 'pool0.agrad*'; may be given again",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 also for flips and for what is undecided")
    parser.add_argument("--junit", metavar="FILE", help="write the result as JUnit XML too")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    parser.add_argument("--verbose", "-V", action="store_true", help="list everything that was found")
    parser.add_argument("--color", choices=("always", "never"), help="colour, or none, whatever the terminal")


def network_flags(parser: argparse.ArgumentParser) -> None:
    """--layers, --order and --no-derive."""
    parser.add_argument("--layers", metavar="FILE", help="a table of layers: YAML or JSON, or an .onnx model")
    parser.add_argument(
        "--order", metavar="FILE|a,b,c", default="", help="the probes in network order, where nothing tells it"
    )
    parser.add_argument("--no-derive", action="store_true", help="compare the sides only, and derive nothing: fast")


def run(args: argparse.Namespace) -> int:
    """Compare."""
    from backproof.report.comparison import comparison_json, junit, print_comparison
    from backproof.verify.traces.compare import compare

    try:
        found = compare(args.a, args.b, options_of(args, args.allow_missing, (args.a, args.b)), progress())
    except BackproofError as error:
        if args.json:
            print_json({"verdict": "unreadable", "exit_code": error.exit_code, "error": str(error)})
            return error.exit_code
        raise
    if args.junit:
        write_out(args.junit, junit(found, strict=args.strict))
    if args.json:
        print_json(comparison_json(found, strict=args.strict))
    else:
        print_comparison(found, console(args.color), verbose=args.verbose)
    return found.exit_code(args.strict)


def options_of(args: argparse.Namespace, allow: list[str], names: tuple[str, str]) -> Any:
    """The options of a comparison, from the command line."""
    from backproof.verify.traces.compare import Options
    from backproof.verify.traces.table import load_layers

    layers = load_layers(args.layers) if args.layers else None
    return Options(layers, order_of(args.order), tuple(allow), not args.no_derive, names)


def order_of(given: str) -> tuple[str, ...]:
    """Names from a file, one a line, or separated by commas."""
    from backproof.cli.reading import read_text

    text = read_text(given) if given and Path(given).is_file() else given.replace(",", "\n")
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def progress() -> Any:
    """A bar on standard error, when that is a terminal."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        if done % 16 < 2 or done >= total:
            width = 30 * done // max(total, 1)
            end = "\r\x1b[K" if done >= total else ""
            sys.stderr.write(f"\r  [{'━' * width}{' ' * (30 - width)}] {done:,} of {total:,} tensors{end}")
            sys.stderr.flush()

    return show


def console(color: str | None) -> Any:
    """Where tables go: standard output, in colour where that is wanted and can be."""
    from rich.console import Console

    forced = None if color is None else color == "always"
    width = None if sys.stdout.isatty() else 160
    return Console(
        force_terminal=forced, no_color=forced is False or None, highlight=False, width=width, soft_wrap=False
    )

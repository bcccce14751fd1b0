"""Look into a trace: `bp trace ls DIR` lists what was recorded, `bp trace show DIR PROBE.PHASE` shows a tensor's numbers.

`show` takes a tensor's name, with or without its parameter and sample, and shows every tensor of that name.
Exit code: 0, or 2 where the trace or a tensor cannot be read.
"""

from __future__ import annotations

import argparse

from backproof.cli.compare import console
from backproof.cli.envelope import print_json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="ls|show")
    ls = verbs.add_parser("ls", help="what was recorded, with shapes and sizes")
    show = verbs.add_parser("show", help="a tensor's statistics and a histogram")
    for verb in (ls, show):
        verb.add_argument("folder", metavar="DIR", help="a folder with a trace")
        verb.add_argument("--step", type=int, help="one step only")
        verb.add_argument("--json", action="store_true", help="the result as JSON on standard output")
        verb.add_argument("--color", choices=("always", "never"), help="colour, or none, whatever the terminal")
    show.add_argument(
        "tensor", metavar="PROBE.PHASE", help="as `bp trace ls` names it; .PARAMETER and .sNNN are optional"
    )


def run(args: argparse.Namespace) -> int:
    """List or show."""
    from backproof.report.trace import listing, listing_json, print_listing, print_tensors, shown, shown_json
    from backproof.trace.store import open_trace

    trace = open_trace(args.folder)
    if args.verb == "ls":
        rows = listing(trace, args.step)
        if args.json:
            print_json(listing_json(trace, rows))
        else:
            print_listing(trace, rows, console(args.color))
        return 0
    tensors = shown(trace, args.tensor, args.step)
    if args.json:
        print_json(shown_json(tensors))
    else:
        print_tensors(tensors, console(args.color))
    return 0

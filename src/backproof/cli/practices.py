"""List the practices: conditions under which every equation of a training step holds, and the step is hardly what was meant."""

from __future__ import annotations

import argparse

from backproof.cli.command import Exit
from backproof.cli.envelope import print_json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="the table as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the table of practices."""
    from backproof.verify.practices import PRACTICES

    rows = PRACTICES.values()
    if args.json:
        print_json([{"practice": p.name, "says": p.says, "advice": p.advice, "declare": p.declare} for p in rows])
        return Exit.HOLDS
    width = max(len(practice.name) for practice in rows)
    for practice in rows:
        print(f"{practice.name:<{width}}  {practice.says}")
    print(f"\n'bp explain NAME' says what to do. Where one is meant, the program says so: {practice.declare}")
    return Exit.HOLDS

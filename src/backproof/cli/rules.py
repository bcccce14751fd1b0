"""List the rules of receipts: their permanent numbers, names and statements."""

from __future__ import annotations

import argparse

from backproof.cli.command import Exit
from backproof.cli.envelope import print_json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--json", action="store_true", help="the table as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the table of rules."""
    from backproof.rules import RULES

    if args.json:
        rows = [{"number": r.number, "name": r.name, "states": r.states, "reason": r.reason} for r in RULES]
        print_json(rows)
        return Exit.HOLDS
    width = max(len(rule.name) for rule in RULES)
    for rule in RULES:
        print(f"{rule.number:>3}  {rule.name:<{width}}  {rule.states}")
    return Exit.HOLDS

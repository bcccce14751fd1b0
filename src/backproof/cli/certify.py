"""Check a recorded graph's backward pass by identity testing.

Runs the tape loop, backpropagation as a definition, and forward mode on random elements of the field of 2^61 - 1 elements, with
nonlinear functions as random symbols, and demands that they agree. It says how likely a wrong pass would have gone unnoticed.
Exit code: 0 when all agree, 1 when not (the value and the operation are named), 2 when the graph cannot be read.
"""

from __future__ import annotations

import argparse
import json

from backproof.cli.command import Exit
from backproof.cli.reading import read_graph


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "graph", help="a graph, as JSON or text (Session.graph() through backproof.ir.text); '-' is stdin"
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=4,
        help="independent trials; the chance of error is raised to this power (4)",
    )
    parser.add_argument(
        "--seed", type=int, help="repeat an earlier run (by default a new random seed, which is reported)"
    )
    parser.add_argument("--json", action="store_true", help="the certificate as JSON")


def run(args: argparse.Namespace) -> int:
    """Certify, report, and answer with an exit code."""
    from backproof.errors import UsageError
    from backproof.session.certify import certify

    if args.trials < 1:
        raise UsageError(f"--trials {args.trials}: at least 1")
    if args.seed is not None and args.seed < 0:
        raise UsageError(f"--seed {args.seed}: a whole number from 0 on")
    graph = read_graph(args.graph)
    found = certify(graph, trials=args.trials, seed=args.seed)
    if args.json:
        print(json.dumps(found.to_json(), ensure_ascii=False))
    else:
        print(found)
    return Exit.HOLDS if found.holds else Exit.DOES_NOT_HOLD

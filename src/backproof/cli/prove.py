"""Have the proof kernel compute a recorded graph's values and gradients again.

Gives the leaves small whole numbers, runs the tape in exact arithmetic, and writes the graph as a program of the theory in proofs/. Coq's
kernel runs the proved backpropagation on it and accepts or rejects every number; large graphs go to the oracle extracted from the
theory. It says which functions were stood in for by polynomials, and which decisions were taken from the record.
Exit code: 0 accepted, 1 rejected (and where), 2 when the graph cannot be read or coqc is not on this machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from backproof.cli.command import Exit
from backproof.cli.reading import read_graph


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("graph", help="a graph, as JSON or text; '-' is stdin")
    parser.add_argument("--seed", type=int, default=0, help="which whole numbers the leaves get (0)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--kernel", dest="by", action="store_const", const="kernel", help="ask Coq's kernel, however long it takes"
    )
    which.add_argument(
        "--oracle", dest="by", action="store_const", const="oracle", help="ask the program extracted from the theory"
    )
    parser.add_argument("--keep", metavar="FILE.v", type=Path, help="keep the file that the kernel is asked to accept")
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Prove, report, and answer with an exit code."""
    from backproof.errors import InputError, UsageError
    from backproof.session.prove import prove

    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: a whole number from 0 on")
    graph = read_graph(args.graph)
    try:
        found = prove(graph, seed=args.seed, by=args.by, keep=args.keep)
    except OSError as error:
        raise InputError(f"{error.filename or args.keep}: {error.strerror or error}") from None
    print(json.dumps(found.to_json(), ensure_ascii=False) if args.json else found)
    return Exit.HOLDS if found.holds else Exit.DOES_NOT_HOLD

"""Judge one receipt by the rules, without its format: `bp reconcile receipt FILE`.

Silent when every rule holds. Exit code: 0 holds, 1 does not hold, 2 cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from backproof.cli.command import Exit
from backproof.cli.envelope import enveloped, output_flags, print_json, say, wants_json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("what", choices=("receipt",), help="what to reconcile")
    parser.add_argument("file", help="a receipt (.json or one line of .jsonl); '-' is standard input")
    output_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Reconcile one receipt."""
    return enveloped(args, _run)


def _run(args: argparse.Namespace) -> int:
    from backproof.receipt.document import read_document
    from backproof.report.verdict import failure, failure_text
    from backproof.verify import verify_receipt

    receipt = read_document(args.file)
    say(args, f"processing {args.file}")
    say(args, f"schema_version: {receipt.version}")
    verdict = verify_receipt(replace(receipt, deviations=()))
    if wants_json(args):
        failures = [failure(finding, verdict, receipt.document) for finding in verdict.findings]
        print_json({"ok": True} if verdict.holds else {"ok": False, "failures": failures})
    elif not verdict.holds:
        sys.stderr.write(failure_text(verdict))
    say(args, f"rules evaluated: {len(verdict.evaluated)}, not checked: {len(verdict.unchecked)} places")
    return Exit.HOLDS if verdict.holds else Exit.DOES_NOT_HOLD

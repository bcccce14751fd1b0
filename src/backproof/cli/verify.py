"""Verify: derive every claim of a file again, and say which does not hold, where, and by how much.

`bp verify FILE` recognises what it is given. `bp verify mazur|general|multi FILE` give the named checks of one kind
of receipt. Exit code: 0 holds, 1 does not hold, 2 cannot be read, 3 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from backproof.cli.command import Exit
from backproof.cli.envelope import enveloped, output_flags, print_json, say, strict_flags, wants_json
from backproof.errors import UsageError, printable

MARKS = {"pass": ("32", "PASS"), "warn": ("33", "WARN"), "fail": ("31", "FAIL")}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("subject", nargs="+", metavar="[mazur|general|multi] FILE", help="what to verify; '-' is stdin")
    strict_flags(parser)
    output_flags(parser)
    run = parser.add_argument_group("recorded runs")
    run.add_argument("--steps", metavar="3,5-9", help="only these steps")
    run.add_argument("--workers", type=int, default=1, metavar="N", help="verify steps in N processes")
    run.add_argument("--cluster", default="", metavar="ADDRESS", help="verify steps on a Dask cluster")
    run.add_argument(
        "--drift", action="store_true", help="report how far the whole step is from its derivation in float64"
    )
    run.add_argument(
        "--screen",
        action="store_true",
        help="look at what is large quickly, and as a whole only where it does not look honest",
    )
    run.add_argument("--key", metavar="key.pem.pub", help="the key that a tensor receipt must be signed with")


def run(args: argparse.Namespace) -> int:
    """Verify one file."""
    return enveloped(args, _run)


def _run(args: argparse.Namespace) -> int:
    first, *rest = args.subject
    if first in KINDS:
        if len(rest) > 1 or (not rest and first != "mazur"):
            raise UsageError(f"'bp verify {first} FILE' takes one file")
        return KINDS[first](args, rest[0] if rest else None)
    if rest:
        raise UsageError(f"'bp verify FILE' takes one file; a kind is one of {', '.join(KINDS)}, not {first!r}")
    from backproof.cli.subjects import recognise

    return recognise(first).verify(args, first)


def _mazur(args: argparse.Namespace, path: str | None) -> int:
    from backproof.receipt.document import as_receipt, read_document
    from backproof.verify.classic import verify_mazur

    if path is None:
        from backproof.receipt.authoring import author_mazur

        receipt = as_receipt(author_mazur(), where="the built-in receipt")
    else:
        receipt = read_document(path)
    return _report(args, verify_mazur(receipt))


def _general(args: argparse.Namespace, path: str | None) -> int:
    from backproof.receipt.document import read_document
    from backproof.verify.classic import verify_general

    return _report(args, verify_general(read_document(path or "-")))


def _multi(args: argparse.Namespace, path: str | None) -> int:
    from backproof.receipt.bundle import read_columns
    from backproof.verify.classic import verify_multi

    return _report(args, verify_multi(read_columns(path or "-")))


KINDS: dict[str, Callable[[argparse.Namespace, str | None], int]] = {
    "mazur": _mazur,
    "general": _general,
    "multi": _multi,
}


def _report(args: argparse.Namespace, report: Any) -> int:
    overall = report.overall(strict=args.strict, warn_as_fail=args.warn_as_fail)
    if wants_json(args):
        print_json({"ok": overall != "fail", "report": {"overall": overall, **_contents(report)}})
    else:
        _print(args, report, overall)
    return Exit.DOES_NOT_HOLD if overall == "fail" else Exit.HOLDS


def _contents(report: Any) -> dict[str, Any]:
    from backproof.report.verdict import coverage

    covered = coverage(report.verdict) if report.verdict is not None else {}
    checks = [check.as_json() for check in report.checks]
    if report.per_record is None:
        return {"checks": checks, **covered}
    records = (
        {
            "step_index": i,
            "schema_version": record.version,
            "fixture_id": record.fixture,
            "schema": record.schema.as_json(),
            "reconcile": record.rules.as_json(),
        }
        for i, record in enumerate(report.per_record)
    )
    return {"record_count": len(report.per_record), "per_record": records, "cross_record_checks": checks, **covered}


def _print(args: argparse.Namespace, report: Any, overall: str) -> None:
    """The classic report, on standard error; a failure ends with the table of causes."""
    outcome = {"pass": "passed", "warn": "passed with warnings", "fail": "failed"}[overall]
    out = sys.stderr
    if report.per_record is not None:
        _print_records(args, report.per_record, outcome)
        print("\ncross-record:", file=out)
    else:
        print(f"verification {outcome}\n", file=out)
    _lines(args, report.checks)
    if report.verdict is not None and (overall == "fail" or args.verbose):
        from backproof.report.verdict import print_verdict

        print(file=out)
        print_verdict(report.verdict, color=args.color, verbose=args.verbose, file=out)
    say(args, "done")


def _print_records(args: argparse.Namespace, records: Any, outcome: str) -> None:
    print(f"verify multi {outcome} ({len(records)} record(s))\n", file=sys.stderr)
    every = args.verbose or len(records) <= SHOWN
    if not every and not records.any_wrong:
        return
    for i, record in enumerate(records):
        if every or records.is_wrong(i):
            print(f"record {i} ({printable(str(record.fixture))}):", file=sys.stderr)
            _lines(args, (record.schema, record.rules))


SHOWN = 20  # records that are listed when all of them pass


def _lines(args: argparse.Namespace, checks: Any) -> None:
    import os

    colored = args.color == "always" or (args.color is None and sys.stderr.isatty() and "NO_COLOR" not in os.environ)
    for check in checks:
        code, mark = MARKS[check.status]
        shown = f"\x1b[1m\x1b[{code}m{mark}\x1b[0m" if colored else mark
        print(f"  [{shown}] {check.name}{': ' + printable(check.message) if check.message else ''}", file=sys.stderr)

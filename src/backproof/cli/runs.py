"""`bp verify` of a recorded run: steps as they are reached, their sum at the end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from backproof.cli.command import Exit
from backproof.cli.envelope import print_json, wants_json
from backproof.errors import UsageError
from backproof.verify.outcome import RunVerdict, StepVerdict

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 20  # steps that are listed though they hold


def verify_run(args: argparse.Namespace, path: str) -> int:
    """Verify a recorded run, and print what became of it."""
    from backproof.diagnose.run import Workers, verdicts
    from backproof.verify.run import open_run
    from backproof.verify.step import Options

    if args.workers < 1:
        raise UsageError(f"--workers {args.workers}: at least one process is needed")
    run = open_run(path, args.steps)
    found = verdicts(run, Options(args.drift, args.screen), Workers(args.workers, args.cluster))
    return _report(args, path, found, len(run.chosen), run.notes)


def verify_tensor_receipt(args: argparse.Namespace, path: str) -> int:
    """Verify a tensor receipt, and print what became of it."""
    from backproof.diagnose.run import receipt_verdicts
    from backproof.receipt.tensor import load_key
    from backproof.verify.sealed import open_receipt
    from backproof.verify.step import Options

    if args.steps:
        raise UsageError(
            f"--steps {args.steps}: a receipt is verified whole; 'bp receipt RUN --steps' makes one of some steps"
        )
    receipt = open_receipt(Path(path))
    key = load_key(Path(args.key), private=False) if args.key else None
    found = receipt_verdicts(receipt, key, Options(args.drift, args.screen))
    return _report(args, path, found, len(receipt.manifest["steps"]), ())


def _report(
    args: argparse.Namespace, path: str, found: Iterator[StepVerdict], total: int, notes: tuple[str, ...]
) -> int:
    verdict = RunVerdict(path, tuple(_shown(args, _counted(found, total), total)), notes)
    holds = verdict.holds_strictly if args.strict else verdict.holds
    if wants_json(args):
        print_json({**verdict.to_json(), "ok": holds})
    else:
        _say_last(args, verdict, holds=holds)
    return Exit.HOLDS if holds else Exit.DOES_NOT_HOLD


def _counted(found: Iterator[StepVerdict], total: int) -> Iterator[StepVerdict]:
    """Progress on standard error, where that is a terminal."""
    shows = sys.stderr.isatty() and total > 1
    for count, verdict in enumerate(found, 1):
        yield verdict
        if shows:
            print(f"\r{count}/{total} steps", end="" if count < total else "\r\x1b[K", file=sys.stderr, flush=True)


def _shown(args: argparse.Namespace, found: Iterator[StepVerdict], total: int) -> Iterator[StepVerdict]:
    from backproof.report.run import step_text

    console = _console(args)
    for count, verdict in enumerate(found):
        quiet = verdict.verdict == "holds" and not verdict.suspect and not verdict.not_checked
        if not wants_json(args) and (args.verbose or not quiet or min(count, total - 1 - count) < SHOWN):
            console.print(step_text(verdict), soft_wrap=True, highlight=False)
        yield verdict


def _say_last(args: argparse.Namespace, verdict: RunVerdict, *, holds: bool) -> None:
    from backproof.report.run import run_text

    console = _console(args)
    for note in verdict.notes:
        console.print(f"  {note}", markup=False, soft_wrap=True, highlight=False)
    console.print(run_text(verdict), soft_wrap=True, highlight=False)
    if verdict.verdict == "holds" and not holds:
        console.print("  --strict: what is suspect or was not checked counts as a failure", highlight=False)


def _console(args: argparse.Namespace) -> Console:
    from rich.console import Console

    forced = {"always": True, "never": False}.get(args.color)
    return Console(force_terminal=forced, no_color=True if args.color == "never" else None)

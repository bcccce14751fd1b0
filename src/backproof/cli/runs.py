"""`bp verify` of a recorded run: steps as they are reached, their sum at the end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
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
    progress = Progress(len(run.chosen))
    told = None if args.workers > 1 or args.cluster else progress.told  # another process has no terminal
    found = verdicts(run, Options(args.drift, args.screen, told), Workers(args.workers, args.cluster))
    return _report(args, path, progress.counted(found), len(run.chosen), run.notes)


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
    progress = Progress(len(receipt.manifest["steps"]))
    found = receipt_verdicts(receipt, key, Options(args.drift, args.screen, progress.told))
    return _report(args, path, progress.counted(found), progress.total, ())


def _report(
    args: argparse.Namespace, path: str, found: Iterator[StepVerdict], total: int, notes: tuple[str, ...]
) -> int:
    verdict = RunVerdict(path, tuple(_shown(args, found, total)), notes)
    holds = verdict.holds_strictly if args.strict else verdict.holds
    if wants_json(args):
        print_json({**verdict.to_json(), "ok": holds})
    else:
        _say_last(args, verdict, holds=holds)
    return Exit.HOLDS if holds else Exit.DOES_NOT_HOLD


class Progress:
    """How far it is, on standard error where that is a terminal."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.shown = total, 0, ""

    @property
    def told(self) -> Callable[[float], None] | None:
        """What is told how much of a step is done; None where nobody looks."""
        return self.part if sys.stderr.isatty() else None

    def part(self, share: float) -> None:
        """So much of the step is done."""
        said = f"step {self.done + 1} of {self.total}: {share:.0%}"
        if said != self.shown:
            print(f"\r\x1b[K{said}", end="", file=sys.stderr, flush=True)
            self.shown = said

    def counted(self, found: Iterator[StepVerdict]) -> Iterator[StepVerdict]:
        """Steps as they are reached."""
        shows = sys.stderr.isatty()
        for verdict in found:
            if shows:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            yield verdict
            self.done += 1
            if shows and self.done < self.total:
                self.part(0.0)


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

"""Run two implementations over many batches and compare every one: a mistake is in all of them, noise and near-ties come and go.

`bp sweep --a CMD --b CMD --batches N` runs both commands for each batch, or `bp sweep A B` takes two folders of batches that exist.
In a command {start} is the batch's first sample, {batch} its size, {index} its number and {out} the folder to write a trace into. A
command is split into words as a shell would, but no shell runs it: no pipes, no variables (write `sh -c '...'` for those).
A sweep that was stopped goes on where it was; a batch that fails is kept as failed and tried again by the next.
Exit code: 0 agree, 1 differ, 2 incomplete or unreadable, 3 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from backproof.cli.compare import console, network_flags, options_of
from backproof.cli.envelope import print_json
from backproof.errors import BackproofError, UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("folders", nargs="*", metavar="A B", help="two folders of batches, each a folder with a trace")
    parser.add_argument("--a", metavar="CMD", help="the command of one side")
    parser.add_argument("--b", metavar="CMD", help="the command of the other side")
    parser.add_argument("--batches", type=int, default=4, metavar="N", help="how many batches (4)")
    parser.add_argument("--batch", type=int, default=32, metavar="SIZE", help="samples in a batch (32)")
    parser.add_argument("--start", type=int, default=0, metavar="K", help="the first sample of the first batch (0)")
    parser.add_argument("--out", default="sweep", metavar="DIR", help="where traces and results are kept (sweep)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="batches at a time (1)")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="after which a command has failed")
    network_flags(parser)
    parser.add_argument("--allow-missing", metavar="PATTERN", action="append", default=[], help="as in bp compare")
    parser.add_argument("--strict", action="store_true", help="exit 1 also for flips and for what is undecided")
    parser.add_argument("--json", action="store_true", help="the result as JSON on standard output")
    parser.add_argument("--verbose", "-V", action="store_true", help="list every tensor")
    parser.add_argument("--color", choices=("always", "never"), help="colour, or none, whatever the terminal")


def run(args: argparse.Namespace) -> int:
    """Sweep."""
    from backproof.report.sweep import print_sweep, sweep_json
    from backproof.verify.traces.aggregate import exit_code
    from backproof.verify.traces.sweep import sweep

    try:
        jobs, names = _jobs(args)
        results = _with_bar(sweep, jobs, options_of(args, args.allow_missing, names), args.workers)
    except BackproofError as error:
        if args.json:
            print_json({"verdict": "unreadable", "exit_code": error.exit_code, "error": str(error)})
            return error.exit_code
        raise
    if args.json:
        print_json(sweep_json(results, names, strict=args.strict))
    else:
        print_sweep(results, console(args.color), verbose=args.verbose)
    return exit_code(results, strict=args.strict)


def _jobs(args: argparse.Namespace) -> tuple[list[Any], tuple[str, str]]:
    from backproof.verify.traces.sweep import Commands, jobs_in, jobs_of

    if args.a or args.b:
        if args.folders or not (args.a and args.b):
            raise UsageError("bp sweep takes two commands, --a CMD --b CMD, or two folders, A B")
        for name in ("batches", "batch", "workers"):
            if getattr(args, name) < 1:
                raise UsageError(f"--{name} {getattr(args, name)}: must be at least 1")
        commands = Commands(
            args.a, args.b, args.batches, args.batch, Path(args.out).absolute(), args.start, args.timeout
        )
        return jobs_of(commands), (args.a, args.b)
    if len(args.folders) != 2:
        raise UsageError(f"bp sweep takes two folders, or --a CMD --b CMD; here are {len(args.folders)}")
    return jobs_in(Path(args.folders[0]), Path(args.folders[1])), (args.folders[0], args.folders[1])


def _with_bar(sweep: Any, jobs: list[Any], options: Any, workers: int) -> list[dict[str, Any]]:
    if not sys.stderr.isatty():
        return list(sweep(jobs, options, workers))
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("batches", total=len(jobs))
        return list(sweep(jobs, options, workers, lambda _: bar.advance(task)))

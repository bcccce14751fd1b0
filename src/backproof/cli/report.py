"""Draw what was found as one HTML page that works offline.

`bp report RUN ...` verifies recorded runs and draws every equation along the network. `bp report A B` compares two traces, or two
folders of batches, and draws where they part. `bp report SWEEP` draws the batches that `bp sweep --out SWEEP` has left.
Exit code: 0 the page is written, whatever it shows (`bp verify`, `bp compare` and `bp sweep` answer with what they find), 2 something
cannot be read, 3 wrong usage.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from backproof.cli.command import Exit
from backproof.cli.compare import network_flags, options_of, progress
from backproof.cli.envelope import write_out
from backproof.errors import InputError, UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "subject", nargs="+", metavar="DIR", help="recorded runs, two traces, two folders of batches, or a sweep"
    )
    parser.add_argument("-o", "--out", default="report.html", help="the page to write (report.html)")
    parser.add_argument("--title", default="What was found", help="the page's heading")
    network_flags(parser)
    parser.add_argument("--allow-missing", metavar="PATTERN", action="append", default=[], help="as in bp compare")


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    from backproof.report.page.document import page

    kinds = [_kind(subject) for subject in args.subject]
    if kinds in (["trace", "trace"], ["batches", "batches"]):
        draw = _comparison if kinds[0] == "trace" else _batches
        sections = [draw(args, *args.subject)]
    elif "trace" in kinds or "batches" in kinds:
        said = ", ".join(f"{subject} ({kind})" for subject, kind in zip(args.subject, kinds, strict=True))
        raise UsageError(f"traces are compared in twos, as in 'bp report A B'; here are {said}")
    else:
        sections = [
            {"run": _run, "sweep": _sweep}[kind](subject) for subject, kind in zip(args.subject, kinds, strict=True)
        ]
    write_out(args.out, page(args.title, sections).encode("utf-8"))
    print(f"{args.out}: {', '.join(section.verdict for section in sections)}")
    return Exit.HOLDS


def _kind(subject: str) -> str:
    """What a folder is: a run, a sweep, a trace, or a folder of batches that are traces."""
    folder = Path(subject)
    if "://" in subject:
        return "run"
    if not folder.is_dir():
        raise InputError(f"{subject}: there is no such folder")
    if any(folder.glob("step*/step.json")) or any(folder.glob("rank*/step*/step.json")):
        return "run"
    if any(folder.glob("*/result.json")):
        return "sweep"
    if _is_trace(folder):
        return "trace"
    if any(_is_trace(item) for item in folder.iterdir() if item.is_dir()):
        return "batches"
    raise InputError(f"{subject}: is neither a recorded run, nor a trace, nor a folder of batches, nor a sweep")


def _is_trace(folder: Path) -> bool:
    patterns = ("trace.json", "*.npy", "step*/*.npy", "step*.safetensors")
    return any(any(folder.glob(pattern)) for pattern in patterns)


def _run(subject: str) -> Any:
    from backproof.diagnose.explain import diagnosed
    from backproof.report.page.run import run_section
    from backproof.verify.run import open_run, verify_at

    run = open_run(subject)
    return run_section(subject, (diagnosed(verify_at(run, at)) for at in run.chosen))


def _comparison(args: argparse.Namespace, a: str, b: str) -> Any:
    from backproof.report.page.comparison import Sides, comparison_section
    from backproof.trace.store import open_trace
    from backproof.verify.traces.compare import compare_traces, told_of
    from backproof.verify.traces.side import Side

    options, traces = options_of(args, args.allow_missing, (a, b)), (open_trace(a), open_trace(b))
    found = compare_traces(*traces, options, progress())
    told = told_of(*traces, options)
    sides = {
        step.step: Sides(
            *(Side(name, trace.steps[step.step], one) for name, trace, one in zip("ab", traces, told, strict=True))
        )
        for step in found.steps
    }
    return comparison_section(f"{a} beside {b}", found, sides)


def _batches(args: argparse.Namespace, a: str, b: str) -> Any:
    from backproof.report.page.sweep import sweep_section
    from backproof.verify.traces.sweep import jobs_in, sweep

    results = sweep(jobs_in(Path(a), Path(b)), options_of(args, args.allow_missing, (a, b)))
    return sweep_section(f"{a} beside {b}, batch by batch", results, (a, b))


def _sweep(subject: str) -> Any:
    from backproof.report.page.sweep import sweep_section

    results = []
    for path in sorted(Path(subject).glob("*/result.json")):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            asked = json.loads(found["asked"])[0]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{path}: not the result of a batch ({type(error).__name__} {error}); run the sweep again"
            ) from None
        results.append((found, asked))
    names = ("a", "b") if not results[0][1] else (" ".join(results[0][1][0]), " ".join(results[0][1][1]))
    return sweep_section(subject, [found for found, _ in results], names)

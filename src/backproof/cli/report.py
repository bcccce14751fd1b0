"""Draw what was found as one HTML page that works offline: a recorded run, a comparison, a sweep.

`bp report run/` verifies a recorded run and draws every equation along its network. Exit code: 0 the page is written, whatever it shows
(`bp verify` and `bp compare` answer with what they find), 2 something cannot be read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from backproof.cli.command import Exit
from backproof.cli.envelope import write_out


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("subject", nargs="+", metavar="DIR", help="recorded runs")
    parser.add_argument("-o", "--out", default="report.html", help="the page to write (report.html)")
    parser.add_argument("--title", default="What was found", help="the page's heading")


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    from backproof.report.page.document import page
    from backproof.report.page.run import run_section
    from backproof.verify.run import verify_run

    sections = [run_section(subject, verify_run(Path(subject))) for subject in args.subject]
    write_out(args.out, page(args.title, sections).encode("utf-8"))
    return Exit.HOLDS

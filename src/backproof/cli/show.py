"""Draw the step of a small network: every unit and weight with its numbers and factors, and what does not hold in red.

In the terminal, or with --out step.svg or step.html as a file to open in a browser, with every factor in a tooltip.
Exit code: 0 the step holds, 1 it does not, 2 cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from itertools import islice

from backproof.cli.command import Exit
from backproof.cli.envelope import write_out
from backproof.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", help="receipts; '-' is standard input")
    parser.add_argument("--record", type=int, default=0, help="which record of a bundle, from 0 (0)")
    parser.add_argument("--out", help="a file to write, .svg or .html, instead of text")


def run(args: argparse.Namespace) -> int:
    """Draw one record."""
    from backproof.receipt.document import read_any
    from backproof.report.drawing import as_html, as_svg
    from backproof.report.picture import picture_of
    from backproof.report.verdict import summary
    from backproof.verify import verify_receipt

    if args.out and not args.out.endswith((".svg", ".html")):
        raise UsageError(f"--out {args.out}: must end in .svg or .html")
    found = list(islice(read_any(args.file), args.record, args.record + 1)) if args.record >= 0 else []
    if not found:
        raise UsageError(f"--record {args.record}: the file has no such record")
    verdict = verify_receipt(found[0])
    picture = picture_of(found[0].document, verdict)
    outcome = summary(verdict)
    if args.out is None:
        from backproof.report.panels import as_text

        sys.stdout.write(f"{as_text(picture)}{outcome}\n")
    else:
        title = str(found[0].document.get("fixture", args.file))
        content = (
            as_svg(picture) if args.out.endswith(".svg") else as_html(picture, title, outcome, holds=verdict.holds)
        )
        write_out(args.out, content.encode("utf-8"))
    return Exit.HOLDS if verdict.holds else Exit.DOES_NOT_HOLD

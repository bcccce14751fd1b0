"""Run: record the training steps of an unchanged script; every step of an optimizer is a step, from the one before it on.

`bp run train.py --epochs 3` runs the script as Python would, and records into `run/`. Options of bp stand before the script.
"""

from __future__ import annotations

import argparse
import sys

from backproof.cli.command import Exit
from backproof.errors import InputError, MissingToolError, UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("--out", default="run", metavar="FOLDER", help="where the steps are written (default: run)")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="record every K-th step (default: all)")
    parser.add_argument("--verify", action="store_true", help="verify what was recorded when the script has ended")
    parser.add_argument("--strict", action="store_true", help="with --verify: what is suspect or not checked fails too")
    parser.add_argument("--json", action="store_true", help="with --verify: the verdict as JSON")
    parser.add_argument("script", help="the Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run(args: argparse.Namespace) -> int:
    """Run a script, recorded."""
    from importlib.util import find_spec

    if args.every < 1:
        raise UsageError(f"--every {args.every}: every which step is to be recorded; 1 is all of them")
    if find_spec("torch") is None:
        raise MissingToolError(
            "bp run records PyTorch scripts, and torch is not installed here: pip install backproof[torch]"
        )
    from backproof.adapters.torch.run import run_script

    steps, raised = run_script(args.script, args.arguments, args.out, args.every)
    if raised is not None:
        _show(raised)
    if not steps:
        raise InputError(
            f"{args.script}: no step was recorded in {args.out}; the script made no update with an optimizer of torch.optim"
        )
    print(f"bp: {steps} steps of {args.script} in {args.out}: bp verify {args.out}", file=sys.stderr)
    if raised is not None:
        return Exit.DOES_NOT_HOLD
    if not args.verify:
        return Exit.HOLDS
    from backproof.cli import main

    flags = [flag for flag, given in (("--strict", args.strict), ("--json", args.json)) if given]
    return main(["verify", args.out, *flags])


def _show(raised: BaseException) -> None:
    """What the script raised, as Python shows it."""
    import traceback

    if isinstance(raised, SystemExit):
        print(f"bp: the script left with {raised.code}", file=sys.stderr)
    else:
        traceback.print_exception(raised)

"""Seal a recorded run: a manifest with the sha256 of every tensor, each step bound to the one before.

The tensors are written beside it, in a folder of the same name without .json; with --digests-only they are not. With --sign the
manifest is an in-toto statement in a DSSE envelope. `bp verify FILE.receipt.json` verifies it anywhere. A receipt says that these
numbers belong together and which equations hold among them; not that anybody trained with them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from backproof.cli.command import Exit
from backproof.errors import UsageError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("run", help="a recorded run: a folder, or its URL")
    parser.add_argument("--out", required=True, metavar="step.receipt.json", help="where the receipt goes")
    parser.add_argument("--steps", metavar="3,5-9", help="only these steps")
    parser.add_argument("--sign", metavar="key.pem", help="sign it with this key (see bp keygen)")
    parser.add_argument("--digests-only", action="store_true", help="leave the tensors where they are")


def run(args: argparse.Namespace) -> int:
    """Write the receipt."""
    from backproof.cli.envelope import write_out
    from backproof.receipt.tensor import canonical, load_key, sealed
    from backproof.trace.sealing import seal
    from backproof.verify.run import open_run

    out = Path(args.out)
    if out.suffix != ".json":
        raise UsageError(f"--out {args.out}: a receipt's name ends in .json")
    key = load_key(Path(args.sign), private=True) if args.sign else None
    found = open_run(args.run, args.steps)
    steps = [found.steps[at] for at in found.chosen]
    manifest = seal(steps, None if args.digests_only else out.with_suffix(""))
    write_out(args.out, (canonical(manifest) if key is None else sealed(manifest, key)) + b"\n")
    count = sum(len(step["tensors"]) for step in manifest["steps"])
    by = f", signed by {key.id[:16]}" if key is not None else ""
    print(f"{args.out}: {len(steps)} steps, {count} tensors, sha256 {manifest['digest'][:16]}{by}")
    return Exit.HOLDS

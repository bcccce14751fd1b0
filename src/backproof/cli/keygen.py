"""Make an ed25519 key to sign tensor receipts with.

The private half is written to FILE, readable by its owner alone; the public half, which verifies, to FILE.pub.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from backproof.cli.command import Exit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", help="where the private key goes, for example key.pem")


def run(args: argparse.Namespace) -> int:
    """Make a key, and say its name."""
    from backproof.receipt.tensor import generate

    key = generate(Path(args.file))
    print(
        f"{args.file}: private key {key.id[:16]}; keep it. {args.file}.pub: its public half; give it to who verifies."
    )
    return Exit.HOLDS

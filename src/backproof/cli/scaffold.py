"""Print a topology input, to be edited and given to `bp generate from-config`.

`bp scaffold topology --topology mazur|xor|iris` prints a built-in one. `bp scaffold topology --layers 2-3-2-1
--activations gelu,tanh,sigmoid [--optimizer adamw]` prints one of version 1.0.0, of any depth.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from backproof.cli.command import Exit
from backproof.cli.envelope import enveloped, output_flags, print_json, utf16_length, wants_json, write_out
from backproof.errors import UsageError
from backproof.receipt.authoring.builtin import BUILTIN


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("what", choices=("topology",), help="what to print")
    network = parser.add_mutually_exclusive_group(required=True)
    network.add_argument("--topology", choices=tuple(BUILTIN), help="a built-in network")
    network.add_argument("--layers", metavar="N-N-...", help="the sizes of the layers, inputs first")
    parser.add_argument("--activations", metavar="NAME,...", help="one a layer above the inputs (sigmoid)")
    parser.add_argument("--optimizer", default="sgd", help="sgd, sgd_momentum, adam or adamw (sgd), with --layers")
    parser.add_argument("--out", help="write the input here instead of to standard output")
    output_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Print one input."""
    return enveloped(args, _run)


def _run(args: argparse.Namespace) -> int:
    from backproof.receipt.json_text import indented

    content = (indented(_input(args)) + "\n").encode("utf-8")
    if not args.out:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return Exit.HOLDS
    write_out(args.out, content)
    if wants_json(args):
        print_json({"ok": True, "output_path": args.out, "bytes": utf16_length(content)})
    return Exit.HOLDS


def _input(args: argparse.Namespace) -> dict[str, Any]:
    if args.topology:
        if args.activations or args.optimizer != "sgd":
            raise UsageError("--activations and --optimizer go with --layers; a built-in network has its own")
        return BUILTIN[args.topology]()
    from backproof.receipt.authoring.layered import layered_input

    sizes = args.layers.split("-")
    if not all(size.isascii() and size.isdigit() and len(size) < 5 for size in sizes):
        raise UsageError(f"--layers {args.layers}: sizes are whole numbers with - between them, such as 2-3-1")
    activations = args.activations.split(",") if args.activations else ["sigmoid"] * (len(sizes) - 1)
    return layered_input([int(size) for size in sizes], activations, args.optimizer)

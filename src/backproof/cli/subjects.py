"""What plain `bp verify FILE` may be given, how each kind is recognised, and what verifies it. A row adds a kind."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from backproof.cli.command import Exit
from backproof.cli.envelope import print_json, wants_json
from backproof.errors import InputError

HEAD = 4096  # bytes of a file that are looked at


@dataclass(frozen=True)
class Subject:
    """A kind of file or folder that can be verified."""

    name: str
    recognises: Callable[[str, bytes], bool]  # the path, and the first bytes of a file
    verify: Callable[[argparse.Namespace, str], int]


def recognise(path: str) -> Subject:
    """The kind of what stands at a path. Standard input cannot be looked at twice, so it is receipts."""
    head = b""
    if path != "-" and "://" not in path and not Path(path).is_dir():
        try:
            with Path(path).open("rb") as file:
                head = file.read(HEAD)
        except OSError as error:
            from backproof.receipt.reading import cannot_read

            raise cannot_read(path, error) from None
    for subject in SUBJECTS:
        if subject.recognises(path, head):
            return subject
    names = ", ".join(subject.name for subject in SUBJECTS)
    raise InputError(f"{path}: is none of what can be verified ({names})")


def _is_sidecar(_: str, head: bytes) -> bool:
    return re.search(rb'"format"\s*:\s*"framework-trace\.v', head) is not None


def _refuse_sidecar(_: argparse.Namespace, path: str) -> int:
    raise InputError(f"{path}: is a sidecar; 'bp import pytorch|jax|tensorflow {path}' makes receipts of it")


def _is_receipt(path: str, head: bytes) -> bool:
    return path == "-" or (not Path(path).is_dir() and head.lstrip()[:1] in {b"{", b""})


def _verify_receipts(args: argparse.Namespace, path: str) -> int:
    from backproof.receipt.bundle import read_any_columns
    from backproof.report.verdict import as_json, print_verdict
    from backproof.verify import verify_columns

    blocks = read_any_columns(path)
    first = list(islice(blocks, 2))
    if not first:
        raise InputError(f"{path}: is empty; a receipt is one JSON object on one line")
    verdict = verify_columns(chain(first, blocks), bundle=sum(columns.size for columns in first) > 1)
    warned = bool(verdict.warnings) and (args.strict or args.warn_as_fail)
    if wants_json(args):
        print_json({**as_json(verdict), "ok": verdict.holds and not warned})
    else:
        print_verdict(verdict, color=args.color, verbose=args.verbose)
    return Exit.HOLDS if verdict.holds and not warned else Exit.DOES_NOT_HOLD


def _is_run(path: str, _: bytes) -> bool:
    return "://" in path or Path(path).is_dir()


def _verify_run(args: argparse.Namespace, path: str) -> int:
    from backproof.cli.runs import verify_run

    return verify_run(args, path)


def _is_tensor_receipt(path: str, head: bytes) -> bool:
    return (
        head.startswith(b'{"payload":"')
        or b'"format":"backproof.tensor-receipt.' in head
        or b'{"digest":"' in head[:12]
    )


def _verify_tensor_receipt(args: argparse.Namespace, path: str) -> int:
    from backproof.cli.runs import verify_tensor_receipt

    return verify_tensor_receipt(args, path)


SUBJECTS = (
    Subject("a recorded run", _is_run, _verify_run),
    Subject("a tensor receipt", _is_tensor_receipt, _verify_tensor_receipt),
    Subject("a framework-trace sidecar", _is_sidecar, _refuse_sidecar),
    Subject("receipts", _is_receipt, _verify_receipts),
)

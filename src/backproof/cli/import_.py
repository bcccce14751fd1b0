"""Make receipts of what a framework recorded: `bp import pytorch FILE`, `bp import pytorch multi FILE`.

A pipe (`-`) of several sidecars is a stream, with or without `multi`. Receipts up to 0.8.0 carry nine digits and no number
below 1e-13; --lossless writes version 1.0.0, with every digit of every finite number.

The receipts go to standard output (or --out), each judged by the engine beside the framework's own numbers; with
--json the result goes to standard error. Exit code: 0 every number agrees, 1 one does not (the receipts are written
all the same, and say so), 2 cannot be imported.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from backproof.adapters.classic.source import FRAMEWORKS, Source
from backproof.cli.command import Exit
from backproof.cli.envelope import enveloped, output_flags, wants_json
from backproof.errors import BackproofError, InputError, UsageError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backproof.adapters.classic.importers import Imported, Request

MOST_BYTES = 8 * 1024 * 1024  # of one sidecar
MOST_LINES = 20  # disagreements printed for people


def arguments(parser: argparse.ArgumentParser) -> None:
    """`bp import FRAMEWORK [multi] FILE`."""
    parser.add_argument("framework", help="pytorch, jax or tensorflow")
    parser.add_argument("file", nargs="+", help="a sidecar, or 'multi' and a stream of them; '-' is standard input")
    parser.add_argument("--out", help="write the receipts here instead of to standard output")
    parser.add_argument("--lossless", action="store_true", help="write version 1.0.0: every digit, any finite number")
    parser.add_argument("--timestamp", help="the moment of the import, as it will stand in the receipts")
    parser.add_argument("--fixture", help="the receipts' label; the steps of a stream are numbered behind it")
    output_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Import one sidecar or a stream."""
    return enveloped(args, _run)


def _run(args: argparse.Namespace) -> int:
    if args.framework not in FRAMEWORKS:
        raise _coded(
            f"there is no importer for {args.framework!r}; there are {', '.join(FRAMEWORKS)}", "UNKNOWN_FRAMEWORK"
        )
    multi = len(args.file) == 2 and args.file[0] == "multi"
    if not multi and len(args.file) != 1:
        raise UsageError(f"'bp import {args.framework} [multi] FILE' takes one file, not {' '.join(args.file)}")
    path = args.file[-1]
    if args.file == ["multi"]:
        raise _coded(f"'bp import {args.framework} multi' needs a file; '-' is standard input", "MISSING_FILE_ARG")
    with _opened(path) as opened:
        source, multi = _begun(opened) if path == "-" and not multi else (opened, multi)
        try:
            imported = _import(args, source, path, multi=multi)
        except BackproofError as error:
            return _failed(args, error, "IMPORT_STREAM_FAILED" if multi else "IMPORT_FAILED")
    _tell(args, imported, multi=multi)
    return Exit.HOLDS if imported.matched else Exit.DOES_NOT_HOLD


def _import(args: argparse.Namespace, source: BinaryIO, path: str, *, multi: bool) -> Imported:
    where = "standard input" if path == "-" else path
    with _target(args.out) as target:
        if multi:
            with Source(source) as begun:  # it is digested while the rest is loaded
                from backproof.adapters.classic.importers import import_stream

                return import_stream(begun, _request(args), target, where)
        from backproof.adapters.classic.importers import import_sidecar

        line, imported = import_sidecar(_whole(source), _request(args), where)
        target.write(line)
        return imported


def _request(args: argparse.Namespace) -> Request:
    from backproof.adapters.classic.importers import Request

    return Request(args.framework, args.timestamp, args.fixture, lossless=args.lossless)


def _whole(source: BinaryIO) -> bytes:
    """All there is, but no more than shows that it is too much."""
    content = b""
    while len(content) <= MOST_BYTES and (more := source.read(MOST_BYTES + 1 - len(content))):
        content += more
    return content


class _Begun:
    """A pipe whose beginning was read already."""

    def __init__(self, begin: bytes, source: BinaryIO) -> None:
        self._begin, self._source = begin, source

    def read(self, size: int = -1) -> bytes:
        held = self._begin if size < 0 else self._begin[:size]
        self._begin = self._begin[len(held) :]
        return held + self._source.read(size) if size < 0 else held or self._source.read(size)

    def seekable(self) -> bool:
        return False


def _begun(source: BinaryIO) -> tuple[BinaryIO, bool]:
    """A pipe, and whether it holds a stream: one whole sidecar on its first line, and something behind it."""
    first = source.readline(MOST_BYTES + 1)
    behind = source.readline(MOST_BYTES + 1)
    while behind and not behind.strip():
        behind = source.readline(MOST_BYTES + 1)
    whole = first.strip().startswith(b"{") and first.strip().endswith(b"}") and behind.strip().startswith(b"{")
    return cast("BinaryIO", _Begun(first + behind, source)), whole


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        if sys.stdin.isatty():
            raise _coded("standard input is a terminal; pipe a sidecar into it", "STDIN_IS_TTY")
        yield sys.stdin.buffer
        return
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        code = {2: "ENOENT", 13: "EACCES", 21: "EISDIR"}.get(error.errno or 0, "IO_ERROR")
        raise _coded(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}", code) from None


@contextmanager
def _target(out: str | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears whole or not at all."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(out)
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    finally:
        partial.unlink(missing_ok=True)


def _failed(args: argparse.Namespace, error: BackproofError, kind: str) -> int:
    """An import that gives nothing says why; in JSON on standard error, where the results go."""
    from backproof.receipt.json_text import compact

    if not wants_json(args):
        raise error
    print(compact({"ok": False, "error": {"kind": kind, "message": str(error)}}), file=sys.stderr)
    return error.exit_code


def _tell(args: argparse.Namespace, imported: Imported, *, multi: bool) -> None:
    from backproof.receipt.json_text import compact

    if wants_json(args):
        print(compact(_stream_result(imported) if multi else _single_result(imported)), file=sys.stderr)
        return
    if imported.matched:
        return
    shown = [(step, entry) for step, entries in sorted(imported.disagreements.items()) for entry in entries]
    print("bp: the sidecar does not agree with the engine", file=sys.stderr)
    for step, entry in shown[:MOST_LINES]:
        place = f"step {step}, {entry.path}" if multi else entry.path
        numbers = f"stored {entry.stored:.9g}, derived {entry.recomputed:.9g}"
        print(
            f"  {printable(place)}: {numbers}, off by {entry.delta:.3g} (at most {entry.tolerance:.3g})",
            file=sys.stderr,
        )
    if (more := len(shown) - MOST_LINES + imported.more) > 0:
        print(f"  and {more} more", file=sys.stderr)


def _single_result(imported: Imported) -> dict[str, Any]:
    entries = [entry.as_json() for entry in imported.disagreements.get(0, ())]
    return {"ok": imported.matched, "differential": {"passed": imported.matched, "disagreements": entries}}


def _stream_result(imported: Imported) -> dict[str, Any]:
    differential: dict[str, Any] = {"all_passed": imported.matched}
    if not imported.matched:
        differential["disagreed_step_indices"] = sorted(imported.disagreements)
        differential["disagreements"] = [
            {"step_index": step, "passed": False, "disagreements": [entry.as_json() for entry in entries]}
            for step, entries in sorted(imported.disagreements.items())
        ]
    return {
        "ok": imported.matched,
        "steps": imported.steps,
        "bundle_root_digest": imported.digest,
        "differential": differential,
    }


def _coded(message: str, code: str) -> InputError:
    error = InputError(message)
    error.code = code  # type: ignore[attr-defined]
    return error

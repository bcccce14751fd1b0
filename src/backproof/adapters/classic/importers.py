"""Importers: a framework's sidecars become observer receipts, each judged by the engine's differential.

A stream is imported in one pass over blocks of equal shape. Its digest stands in every record, so the lines wait in a
temporary file until the last one is known: memory does not grow with the stream.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import BinaryIO

from backproof.adapters.classic.claims import floats, plan_of
from backproof.adapters.classic.differential import Disagreement, Expected, Tolerance, compare, derived_numbers
from backproof.adapters.classic.observer import Origin, Writer
from backproof.adapters.classic.sidecars import Sidecar, as_receipt, single, stream
from backproof.errors import InputError
from backproof.receipt import reading, source_digest
from backproof.receipt.columns import Columns, Shape, columns_of
from backproof.rules.ball import Reals

FRAMEWORKS = ("pytorch", "jax", "tensorflow")
BLOCK_BYTES = 4 * 1024 * 1024  # sidecar text held at once
MOST_ROWS = 1024
MOST_SHOWN = 1000  # disagreements kept; the rest is counted
_DIGEST_GOES = b'},"metadata":{'  # the end of the attestor; within a string the quotes would be escaped


@dataclass(frozen=True)
class Request:
    """What an import was asked to write: framework, moment, label and tolerance."""

    framework: str
    timestamp: str | None = None
    fixture: str | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)

    def origin(self, source_hash: str, *, multi: bool = False, trace_id: str | None = None) -> Origin:
        """Where the receipts come from; without a moment of its own, now (or SOURCE_DATE_EPOCH)."""
        moment = self.timestamp or _now()
        return Origin(self.framework, source_hash, moment, self.tolerance, self.fixture, multi, trace_id)


@dataclass
class Imported:
    """What came of an import: how many steps, which disagree and where, and the digest of a bundle."""

    steps: int = 0
    digest: str | None = None
    disagreements: dict[int, list[Disagreement]] = field(default_factory=dict)
    more: int = 0

    @property
    def matched(self) -> bool:
        """Whether every number agrees in every step."""
        return not self.disagreements

    def note(self, first: int, found: list[list[Disagreement]]) -> None:
        """Keep what a block disagrees in, up to a limit."""
        for row, entries in enumerate(found):
            if entries:
                kept = self.disagreements.setdefault(first + row, [])
                room = max(0, MOST_SHOWN - sum(map(len, self.disagreements.values())))
                kept += entries[:room]
                self.more += len(entries) - len(entries[:room])


def import_sidecar(content: bytes, request: Request, where: str = "sidecar") -> tuple[bytes, Imported]:
    """The receipt of one sidecar, and how it compares with the engine."""
    sidecar = single(content, where, request.framework)
    (columns,) = columns_of([as_receipt(sidecar)])
    imported = Imported(steps=1)
    writer, derived, passed = _judged(columns, sidecar, request.origin(source_digest(content)), imported)
    (line,) = writer.lines(columns.numbers, derived, passed, 0)
    return line, imported


def import_stream(source: BinaryIO, request: Request, out: BinaryIO, where: str = "stream") -> Imported:
    """The receipts of a stream, written to `out` once all of it is judged."""
    with tempfile.TemporaryFile() as spool, tempfile.TemporaryFile() as lines:
        source_hash = _digest_of(source, spool)
        imported = Imported()
        bundle = hashlib.sha256()
        for block in _judged_blocks(spool, request, source_hash, imported, where):
            for line in block:
                bundle.update(line)
                lines.write(line)
        if imported.steps == 0:
            raise InputError(f"{where}: is empty; a stream has one sidecar a line")
        imported.digest = f"sha256:{bundle.hexdigest()}"
        lines.seek(0)
        for line in lines:
            out.write(with_bundle_digest(line, imported.digest))
    return imported


def with_bundle_digest(line: bytes, digest: str) -> bytes:
    """A receipt's line with the digest of its bundle as the last key of its attestor."""
    attestor, rest = line.split(_DIGEST_GOES, 1)
    return b"".join((attestor, f',"bundle_root_digest":"{digest}"'.encode(), _DIGEST_GOES, rest))


def _digest_of(source: BinaryIO, spool: BinaryIO) -> str:
    """Copy a stream aside, and give the digest that every one of its receipts names."""
    digest = hashlib.sha256()
    while chunk := source.read(1 << 20):
        digest.update(chunk)
        spool.write(chunk)
    spool.seek(0)
    return f"sha256:{digest.hexdigest()}"


def _judged_blocks(
    spool: BinaryIO, request: Request, source_hash: str, imported: Imported, where: str
) -> Iterator[list[bytes]]:
    writers: dict[Shape, Writer] = {}
    origin: Origin | None = None
    sidecars = stream(reading.lines(spool, where), where, request.framework)
    for columns, first in _blocks(sidecars):
        if origin is None:
            trace_id = first.document.get("trace_id") or source_hash[7:39]
            origin = request.origin(source_hash, multi=True, trace_id=trace_id)
        writer, derived, passed = _judged(columns, first, origin, imported, writers)
        yield writer.lines(columns.numbers, derived, passed, imported.steps)
        imported.steps += columns.size


def _blocks(sidecars: Iterator[Sidecar]) -> Iterator[tuple[Columns, Sidecar]]:
    """Blocks of one shape, each with its first sidecar."""
    held: dict[int, Sidecar] = {}

    def receipts() -> Iterator[object]:
        for position, sidecar in enumerate(sidecars):
            held[position] = sidecar
            yield as_receipt(sidecar)

    for columns in columns_of(receipts(), 64):  # type: ignore[arg-type]
        yield columns, held[columns.positions[0]]
        for position in columns.positions:
            del held[position]


def _judged(
    columns: Columns, first: Sidecar, origin: Origin, imported: Imported, writers: dict[Shape, Writer] | None = None
) -> tuple[Writer, Reals, list[bool]]:
    writers = {} if writers is None else writers
    if columns.shape not in writers:
        try:
            plan = plan_of(columns.shape, first.document)
        except InputError as error:
            raise InputError(f"{first.where}: {error}") from error
        writers[columns.shape] = Writer(Expected(plan), origin)
    writer = writers[columns.shape]
    derived = derived_numbers(writer.expected.plan, floats(writer.expected.plan, columns.numbers))
    found = compare(writer.expected, columns, derived, origin.tolerance)
    imported.note(imported.steps if origin.multi else 0, found)
    return writer, derived, [not entries for entries in found]


def _now() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

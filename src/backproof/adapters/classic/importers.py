"""Importers: a framework's sidecars become observer receipts, each judged by the engine's differential.

A stream is imported in one pass over blocks of equal shape. Its digest stands in every record, so the lines wait in a
temporary file until the last one is known: memory does not grow with the stream.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import BinaryIO

from backproof.adapters.classic.claims import biases_changed, check_targets, floats, plan_of
from backproof.adapters.classic.differential import Disagreement, Expected, Tolerance, compare, derived_numbers
from backproof.adapters.classic.observer import Buffer, Origin, Writer
from backproof.adapters.classic.sidecars import Sidecar, as_receipt, single
from backproof.adapters.classic.streams import Readable, StreamReader
from backproof.errors import InputError
from backproof.receipt import source_digest
from backproof.receipt.columns import Columns, Shape, columns_of

FRAMEWORKS = ("pytorch", "jax", "tensorflow")
MOST_IN_MEMORY = 32 * 1024 * 1024  # of a stream and of its receipts, each
MOST_SHOWN = 1000  # disagreements kept; the rest is counted
Block = tuple[Columns, Sidecar]
Writers = dict[tuple[Shape, bool | None], Writer]
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
    imported = Imported()
    line = b"".join(_lines(columns, sidecar, request.origin(source_digest(content)), imported, {}))
    return line, imported


def import_stream(source: BinaryIO, request: Request, out: BinaryIO, where: str = "stream") -> Imported:
    """The receipts of a stream, written to `out` once all of it is judged."""
    with Aside() as spool, Aside() as lines, ThreadPoolExecutor(max_workers=1) as beside:
        source_hash = _digest_of(source, spool)
        imported = Imported()
        bundle = hashlib.sha256()

        def finish(block: Buffer) -> None:
            bundle.update(block)
            lines.write(block)

        waiting: Future[None] | None = None
        for block in _judged_blocks(source if spool.size == 0 else spool, request, source_hash, imported, where):
            if waiting is not None:
                waiting.result()  # one block at a time is hashed while the next one is judged
            waiting = beside.submit(finish, block)
        if waiting is None:
            raise InputError(f"{where}: is empty; a stream has one sidecar a line")
        waiting.result()
        imported.digest = f"sha256:{bundle.hexdigest()}"
        for block in lines.blocks():
            out.write(with_bundle_digest(block, imported.digest))
    return imported


def with_bundle_digest(lines: bytes, digest: str) -> bytes:
    """Receipts with the digest of their bundle as the last key of each attestor."""
    said = f',"bundle_root_digest":"{digest}"'.encode()
    parts: list[Buffer] = []
    view, begin = memoryview(lines), 0
    while begin < len(lines):
        goes = lines.index(_DIGEST_GOES, begin)
        end = lines.index(b"\n", goes) + 1
        parts += (view[begin:goes], said, view[goes:end])
        begin = end
    return b"".join(parts)


class Aside:
    """Bytes set aside in the blocks in which they came: in memory while they are few, then in a temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=MOST_IN_MEMORY)  # noqa: SIM115 - closed by __exit__
        self._sizes: list[int] = []

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return sum(self._sizes)

    def write(self, block: Buffer) -> None:
        """Set one block aside."""
        self._file.write(block)
        self._sizes.append(len(block))

    def rewind(self) -> None:
        """Begin again at the first block."""
        self._file.seek(0)

    def read(self, size: int) -> bytes:
        """The next bytes."""
        return self._file.read(size)

    def blocks(self) -> Iterator[bytes]:
        """The blocks, one in memory at a time."""
        self.rewind()
        for size in self._sizes:
            yield self._file.read(size)

    def __enter__(self) -> Aside:  # noqa: PYI034 - of this module alone
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _digest_of(source: BinaryIO, spool: Aside) -> str:
    """The digest that every receipt of a stream names; what cannot be read twice is set aside meanwhile."""
    digest = hashlib.sha256()
    again = source.seekable()
    begin = source.tell() if again else 0
    while chunk := source.read(1 << 20):
        digest.update(chunk)
        if not again:
            spool.write(chunk)
    if again:
        source.seek(begin)
    else:
        spool.rewind()
    return f"sha256:{digest.hexdigest()}"


def _judged_blocks(
    source: Readable, request: Request, source_hash: str, imported: Imported, where: str
) -> Iterator[Buffer]:
    """The lines of a stream, many together, without the digest of their bundle."""
    writers: Writers = {}
    reader = StreamReader(request.framework, where)
    origin: Origin | None = None
    for columns, first in _ahead(reader.blocks(source)):
        if origin is None:
            trace_id = first.document.get("trace_id") or source_hash[7:39]
            origin = request.origin(source_hash, multi=True, trace_id=trace_id)
        yield from _lines(columns, first, origin, imported, writers)


def _ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same blocks, the next one read while this one is judged."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        coming = beside.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = beside.submit(next, blocks, None)
            yield block


def _lines(columns: Columns, first: Sidecar, origin: Origin, imported: Imported, writers: Writers) -> Iterator[Buffer]:
    """Judge one block, and write it."""
    for trained, part in _by_biases(columns, first):
        key = (columns.shape, trained)
        if key not in writers:
            try:
                writers[key] = Writer(Expected(plan_of(columns.shape, first.document, trained=trained)), origin)
            except InputError as error:
                raise InputError(f"{first.where}: {error}") from error
        writer = writers[key]
        plan = writer.expected.plan
        check_targets(plan, part.numbers, part.positions[0])
        derived = derived_numbers(plan, floats(plan, part.numbers))
        found = compare(writer.expected, part, derived, origin.tolerance)
        imported.note(part.positions[0], found)
        imported.steps += part.size
        yield from writer.lines(part.numbers, derived, [not entries for entries in found], part.positions[0])


def _by_biases(columns: Columns, first: Sidecar) -> Iterator[tuple[bool | None, Columns]]:
    """A block in runs of records that train their biases and that do not, where its sidecars do not say which."""
    if "bias_policy" in first.document:
        yield None, columns
        return
    changed = biases_changed(columns, first.document)
    begin = 0
    for trained, run in groupby(changed):
        end = begin + sum(1 for _ in run)
        part = Columns(
            columns.shape, columns.numbers[begin:end], columns.texts[begin:end], columns.positions[begin:end]
        )
        yield trained, part
        begin = end


def _now() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

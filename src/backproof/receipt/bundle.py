"""A bundle as columns, straight from its bytes: lines that fit the skeleton of a line before them are scanned natively.

Every other line goes through the strict reader and lends its skeleton to the lines that follow. What comes out is what
`columns_of(read_documents(...))` gives, cut into other blocks; what is refused is refused by the strict reader.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from backproof.receipt import native, reading
from backproof.receipt.ahead import ahead
from backproof.receipt.columns import MOST_ROWS, Columns, Flat, Lines, Shape, Shapes, columns_of
from backproof.receipt.document import Receipt, as_receipt, documents_of, open_bundle
from backproof.receipt.limits import Limits, limits_of
from backproof.receipt.native import Scan
from backproof.receipt.skeleton import Skeleton, skeleton_of
from backproof.receipt.validation import Deviation, deviations

CHUNK = 4 * 1024 * 1024  # bytes read at once; a block of records is at most that long, if a record is not
MOST_AHEAD = 4  # blocks that are read before they are asked for
MOST_SKELETONS = 8  # that a line is tried against, the latest first
_LINE_FEED = re.compile(b"\n")


def read_columns(source: str | Path | BinaryIO) -> Iterator[Columns]:
    """The records of a bundle (a file, `-`, or a stream) in order, some of one shape at a time."""
    if isinstance(source, str | Path):
        with open_bundle(str(source)) as stream:
            yield from _read(stream, "standard input" if str(source) == "-" else str(source))
    else:
        yield from _read(source, getattr(source, "name", "bundle"))


def read_any_columns(path: str) -> Iterator[Columns]:
    """The same of a file that may also hold one document over several lines."""
    where = "standard input" if path == "-" else path
    with open_bundle(path) as stream:
        number, line = next(reading.lines(stream, where), (0, b""))
        if not number:
            return
        try:
            reading.parse(line, f"{where}, line {number}")
        except reading.NotJSONError:
            if number > 1:
                raise
            content = line + stream.read(reading.MOST_BYTES + 1)
            yield from columns_of([as_receipt(reading.parse(content, where), content, where)])
        else:
            yield from _read(stream, where, line, number)


def _read(stream: BinaryIO, where: str, begun: bytes = b"", line: int = 1) -> Iterator[Columns]:
    scan = native.scanner()
    if scan is None:
        yield from columns_of(documents_of(stream, where, begun, line))
    else:
        yield from ahead(_Reader(where, scan, line).read(stream, begun), MOST_AHEAD)


@dataclass(eq=False)
class _Kind:
    """A shape with what is known of its records."""

    shape: Shape
    limits: Limits
    sound: bool  # whether a record within the limits has no deviation


class _Block:
    """Rows of one shape under construction, all from one chunk of bytes."""

    def __init__(self, kind: _Kind, data: memoryview, most: int) -> None:
        self.kind, self.data, self.most = kind, data, most
        columns, texts = len(kind.shape.paths), len(kind.shape.text_paths)
        self.numbers = np.empty((most, columns + 1))
        self.numbers[:, -1] = np.nan
        self.exponents = np.empty((most, columns + 1), dtype=np.int8)
        self.exponents[:, -1] = native.ZERO
        self.spans = np.zeros((most, 2), dtype=np.int64)
        self.text_spans = np.zeros((most, texts, 2), dtype=np.int64)
        self.canonical = np.zeros(most, dtype=np.bool_)
        self.repeated = np.zeros((most, texts), dtype=np.bool_)
        self.numbered = np.zeros(most, dtype=np.int64)
        self.texts: list[tuple[str, ...]] = []
        self.strict: dict[int, Receipt] = {}  # rows that the strict reader read
        self.size = 0
        arrays: tuple[NDArray[Any], ...] = (
            self.numbers,
            self.exponents,
            self.spans,
            self.text_spans,
            self.canonical,
            self.repeated,
        )
        self.struct = native.BlockStruct(*map(native.address, arrays), columns + 1, most)

    def scanned(self, rows: int, skeleton: Skeleton, first_line: int) -> None:
        """Take over what the scanner wrote up to `rows`."""
        begin = self.size
        self.numbered[begin:rows] = np.arange(first_line, first_line + rows - begin)
        self.canonical[begin:rows] &= skeleton.canonical
        zero = self.kind.limits.dropped_if_zero
        if zero.size:
            self.canonical[begin:rows] &= (self.numbers[begin:rows, zero] != 0.0).all(axis=1)
        if begin < rows:
            self.texts += self._texts(begin, rows)
        self.size = rows

    def _texts(self, begin: int, rows: int) -> list[tuple[str, ...]]:
        """The free texts of some rows; one that is repeated is the same object, and so are rows that repeat all."""
        if begin == 0 or begin - 1 in self.strict:
            self.repeated[begin] = False  # the texts of the row before are not where its spans say
        repeated = self.repeated[begin:rows]
        if repeated.all():
            return [self.texts[-1] if self.texts else ()] * (rows - begin)
        columns = []
        for k in range(repeated.shape[1]):
            changes = np.flatnonzero(~repeated[:, k])
            held = [self.texts[-1][k]] * int(changes[0] if changes.size else rows - begin) if self.texts else []
            ends = [*changes[1:].tolist(), rows - begin]
            for (start, stop), here, following in zip(
                self.text_spans[begin + changes, k].tolist(), changes.tolist(), ends, strict=bool(changes.size)
            ):
                held += [str(self.data[start:stop], "ascii")] * (following - here)
            columns.append(held)
        return list(zip(*columns, strict=True))

    def read(self, receipt: Receipt, flat: Flat, span: tuple[int, int], line: int) -> None:
        """Add a row that the strict reader read."""
        row = self.size
        self.numbers[row, :-1] = flat.numbers
        self.texts.append(tuple(flat.texts))
        self.spans[row] = span
        self.numbered[row] = line
        self.canonical[row] = receipt.is_canonical
        self.strict[row] = receipt
        self.size = row + 1

    def columns(self, first: int, where: str) -> Columns:
        """The block as columns; its first record stands at `first` in the bundle."""
        size = self.size
        lines = Lines(self.data, self.spans[:size], self.text_spans[:size], self.numbered[:size], where)
        canonical = self.canonical[:size]
        return Columns(
            self.kind.shape,
            self.numbers[:size],
            tuple(self.texts),
            tuple(range(first, first + size)),
            deviations=tuple(self._deviations(lines)),
            canonical=canonical,
            exponents=self.exponents[:size] if not self.strict and canonical.all() else None,
            lines=lines,
        )

    def _deviations(self, lines: Lines) -> Iterator[tuple[int, Deviation]]:
        """Rows beyond the limits are validated one by one."""
        limits = self.kind.limits
        suspect = ~limits.within(self.numbers[: self.size]) | (not self.kind.sound)
        for k, kinds in limits.texts:
            before, admitted = None, True
            for row, texts in enumerate(self.texts):
                if texts[k] is not before:
                    before, admitted = texts[k], not any(deviations(texts[k], kind) for kind in kinds)
                if not admitted:
                    suspect[row] = True
        for row in np.flatnonzero(suspect).tolist():
            receipt = self.strict.get(row) or as_receipt(reading.parse(lines[row], lines.place(row)))
            for deviation in receipt.deviations:
                yield row, deviation


def _fill(stream: BinaryIO, view: memoryview) -> int:
    """Read until the view is full or the stream ends; how many bytes there are."""
    size = 0
    while size < len(view):
        count = stream.readinto(view[size:])  # type: ignore[attr-defined]
        if not count:
            break
        size += count
    return size


class _Reader:
    """One bundle being read."""

    def __init__(self, where: str, scan: Scan, line: int) -> None:
        self.where = where
        self.scan = scan
        self.shapes = Shapes()
        self.kinds: dict[Shape, _Kind] = {}
        self.skeletons: list[Skeleton] = []  # the latest first
        self.block: _Block | None = None
        self.records = 0  # in the blocks before this one
        self.line = line  # the number of the next line

    def read(self, stream: BinaryIO, rest: bytes) -> Generator[Columns, None, None]:
        """All blocks of a stream of which some was read already."""
        final = False
        while not final:
            # A byte is left at the end: the scanner looks at the one after the last. What is not read into is not cleared.
            data = np.empty(len(rest) + CHUNK + 1, dtype=np.uint8).data
            data[: len(rest)] = rest
            size = len(rest) + _fill(stream, data[len(rest) : -1])
            data[size] = 0
            final = size < len(data) - 1
            end = yield from self._take(data, size, final=final)
            yield from self._flush()
            rest = bytes(data[end:size])
            if len(rest) > reading.MOST_BYTES:
                raise reading.too_long(self.where, self.line)

    def _take(self, data: memoryview, size: int, *, final: bool) -> Generator[Columns, None, int]:
        """The lines of a chunk; returns where an incomplete one begins."""
        at = 0
        while at < size:
            if self.skeletons:
                at, stop = yield from self._scanned(self.skeletons[0], data, at, size, final=final)
                if stop == native.FULL:
                    continue
                if stop == native.MORE:
                    break
            feed = _LINE_FEED.search(data, at, size)
            if feed is None and not final:
                break
            end = feed.end() if feed is not None else size
            if end - at > reading.MOST_BYTES:
                raise reading.too_long(self.where, self.line)
            at = yield from self._line(data, at, end)
        return at

    def _scanned(
        self, skeleton: Skeleton, data: memoryview, at: int, end: int, *, final: bool
    ) -> Generator[Columns, None, tuple[int, int]]:
        """Scan on from `at`; returns where the scan stopped, and why."""
        kind = self.kinds[skeleton.shape]
        block = yield from self._block_for(kind, data, (end - at) // skeleton.least + 1)
        rows, stop = self.scan(skeleton.struct, block.struct, data, at, end, block.size, final=final)
        if rows > block.size:
            self.line += rows - block.size
            block.scanned(rows, skeleton, self.line - (rows - block.size))
            at = min(int(block.spans[rows - 1, 1]) + 1, end)
        return at, stop

    def _line(self, data: memoryview, at: int, end: int) -> Generator[Columns, None, int]:
        """One line that does not fit the latest skeleton; returns where the next begins."""
        line = bytes(data[at:end])
        if not line.strip():
            self.line += 1
            return end
        for i, skeleton in enumerate(self.skeletons):
            if i and self._fits(skeleton, line):
                self.skeletons.insert(0, self.skeletons.pop(i))
                return at
        place = f"{self.where}, line {self.line}"
        receipt = as_receipt(reading.parse(line, place), line, place)
        flat, shape = self.shapes.of(receipt.document)
        kind = self._kind_of(shape, receipt)
        skeleton_made = skeleton_of(line.rstrip(b"\n"), receipt.document, shape, kind.limits)
        if skeleton_made is not None and self._fits(skeleton_made, line):
            self.skeletons = [skeleton_made, *self.skeletons[: MOST_SKELETONS - 1]]
            return at
        block = yield from self._block_for(kind, data, (len(data) - at) // len(line) + 1)
        block.read(receipt, flat, (at, at + len(line.rstrip(b"\n"))), self.line)
        self.line += 1
        return end

    def _fits(self, skeleton: Skeleton, line: bytes) -> bool:
        data = memoryview(bytearray(line + b"\0"))
        scratch = _Block(self.kinds[skeleton.shape], data, 1)
        rows, _ = self.scan(skeleton.struct, scratch.struct, data, 0, len(line), 0, final=True)
        return rows == 1

    def _kind_of(self, shape: Shape, receipt: Receipt) -> _Kind:
        kind = self.kinds.get(shape)
        if kind is None:
            kind = self.kinds[shape] = _Kind(shape, limits_of(shape), sound=False)
        if not kind.sound and not receipt.deviations:
            kind.sound = True
        return kind

    def _block_for(self, kind: _Kind, data: memoryview, most: int) -> Generator[Columns, None, _Block]:
        """The block that takes rows of a kind; another one is finished first."""
        block = self.block
        if block is not None and (block.kind is not kind or block.size == block.most):
            yield from self._flush()
        if self.block is None:
            self.block = _Block(kind, data, min(most, MOST_ROWS))
        return self.block

    def _flush(self) -> Iterator[Columns]:
        block, self.block = self.block, None
        if block is not None and block.size:
            yield block.columns(self.records, self.where)
            self.records += block.size

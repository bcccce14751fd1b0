"""Importers: a framework's sidecars become observer receipts, each judged by the engine's differential.

A stream is imported in one pass over blocks of equal shape. Its digest stands in every record, so the lines wait in a
temporary file until the last one is known: memory does not grow with the stream.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import BinaryIO, NamedTuple

import numpy as np

from backproof.adapters.classic.claims import biases_changed, check_targets, floats, plan_of
from backproof.adapters.classic.differential import Disagreement, Expected, Tolerance, compare, derived_numbers, unit_of
from backproof.adapters.classic.lossless import LosslessWriter
from backproof.adapters.classic.observer import Origin, Writer, Written
from backproof.adapters.classic.screen import Agreement, agreement
from backproof.adapters.classic.sidecars import Sidecar, as_receipt, single
from backproof.adapters.classic.source import Aside, Buffer, Source
from backproof.adapters.classic.streams import StreamReader
from backproof.errors import InputError
from backproof.receipt import source_digest
from backproof.receipt.ahead import ahead
from backproof.receipt.columns import Columns, Shape, columns_of
from backproof.rules.ball import Reals

MOST_AHEAD = 2  # blocks that are made before they are asked for
MOST_WAITING = 16  # blocks that are judged before the digest of their source is known
MOST_SHOWN = 1000  # disagreements kept; the rest is counted


@dataclass(frozen=True)
class Request:
    """What an import was asked to write: framework, moment, label and tolerance."""

    framework: str
    timestamp: str | None = None
    fixture: str | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    lossless: bool = False

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
    judge = Judge(request.tolerance)
    writers = Writers(request.origin(source_digest(content)), lossless=request.lossless)
    lines = [written.lines for judged in judge.of(columns, sidecar) for written in writers.lines(judged)]
    return b"".join(lines), judge.imported


def import_stream(source: BinaryIO | Source, request: Request, out: BinaryIO, where: str = "stream") -> Imported:
    """The receipts of a stream, written to `out` once all of it is judged."""
    if not isinstance(source, Source):
        with Source(source) as begun:
            return import_stream(begun, request, out, where)
    with Aside() as kept:
        bundle = hashlib.sha256()
        binds: list[Callable[[bytes, str], Buffer]] = []
        judge = Judge(request.tolerance)
        for written in ahead(_written(source, request, judge, where), MOST_AHEAD):
            bundle.update(written.lines)
            kept.write(written.kept)
            binds.append(written.bind)
        if not binds:
            raise InputError(f"{where}: is empty; a stream has one sidecar a line")
        digest = f"sha256:{bundle.hexdigest()}"
        out.writelines(
            ahead((bind(block, digest) for block, bind in zip(kept.blocks(), binds, strict=True)), MOST_AHEAD)
        )
        judge.imported.digest = digest
    return judge.imported


def _written(source: Source, request: Request, judge: Judge, where: str) -> Generator[Written, None, None]:
    """The lines of a stream, many together."""
    reader = StreamReader(request.framework, where)
    writers: Writers | None = None
    waiting: deque[Judged] = deque()  # for the digest of their source
    for columns, first in ahead(reader.blocks(source.readable), MOST_AHEAD):
        waiting += judge.of(columns, first)
        if not source.is_known and len(waiting) < MOST_WAITING:
            continue
        if writers is None:
            writers = _writers(request, source.digest(), first)
        while waiting:
            yield from writers.lines(waiting.popleft())
    if waiting and reader.first is not None:
        writers = writers or _writers(request, source.digest(), reader.first)
        for judged in waiting:
            yield from writers.lines(judged)


def _writers(request: Request, source_hash: str, first: Sidecar) -> Writers:
    trace_id = first.document.get("trace_id") or source_hash[7:39]
    return Writers(request.origin(source_hash, multi=True, trace_id=trace_id), lossless=request.lossless)


class Judged(NamedTuple):
    """A block whose numbers were compared with the engine's."""

    expected: Expected
    columns: Columns
    derived: Reals
    passed: list[bool]


class Judge:
    """The differential over blocks: what the engine derives, and where a sidecar disagrees with it."""

    def __init__(self, tolerance: Tolerance) -> None:
        self.tolerance = tolerance
        self.imported = Imported()
        self._expected: dict[tuple[Shape, bool | None], Expected] = {}
        self._screens: dict[tuple[Expected, float], Agreement | None] = {}

    def of(self, columns: Columns, first: Sidecar) -> Iterator[Judged]:
        """Judge one block."""
        for trained, part in _by_biases(columns, first):
            expected = self._expected_of(columns.shape, first, trained)
            plan = expected.plan
            check_targets(plan, part.numbers, part.positions[0])
            derived = derived_numbers(plan, floats(plan, part.numbers))
            found = self._compared(expected, part, derived)
            self.imported.note(part.positions[0], found)
            self.imported.steps += part.size
            yield Judged(expected, part, derived, [not entries for entries in found])

    def _expected_of(self, shape: Shape, first: Sidecar, trained: bool | None) -> Expected:
        key = (shape, trained)
        if key not in self._expected:
            try:
                self._expected[key] = Expected(plan_of(shape, first.document, trained=trained))
            except InputError as error:
                raise InputError(f"{first.where}: {error}") from error
        return self._expected[key]

    def _compared(self, expected: Expected, part: Columns, derived: Reals) -> list[list[Disagreement]]:
        """Where each record disagrees. Those that clearly agree are not looked at twice."""
        unit = unit_of(expected.plan, part.numbers)
        key = (expected, unit)
        if part.exponents is not None and key not in self._screens:
            self._screens[key] = agreement(expected, unit)
        screen = self._screens.get(key)
        if screen is None:
            return compare(expected, part.numbers, unit, derived, self.tolerance)
        found: list[list[Disagreement]] = [[] for _ in range(part.size)]
        doubtful = np.flatnonzero(~screen.passes(part))
        if doubtful.size:
            closer = compare(expected, part.numbers[doubtful], unit, derived[doubtful], self.tolerance)
            for row, entries in zip(doubtful.tolist(), closer, strict=True):
                found[row] = entries
        return found


class Writers:
    """The writers of a stream's shapes."""

    def __init__(self, origin: Origin, *, lossless: bool) -> None:
        self._origin = origin
        self._kind = LosslessWriter if lossless else Writer
        self._writers: dict[Expected, Writer | LosslessWriter] = {}

    def lines(self, judged: Judged) -> Iterator[Written]:
        """The canonical lines of one block."""
        expected, columns, derived, passed = judged
        if expected not in self._writers:
            self._writers[expected] = self._kind(expected, self._origin)
        yield from self._writers[expected].lines(columns.numbers, derived, passed, columns.positions[0])


def _by_biases(columns: Columns, first: Sidecar) -> Iterator[tuple[bool | None, Columns]]:
    """A block in runs of records that train their biases and that do not, where its sidecars do not say which."""
    if "bias_policy" in first.document:
        yield None, columns
        return
    changed = biases_changed(columns, first.document)
    begin = 0
    for trained, run in groupby(changed):
        end = begin + sum(1 for _ in run)
        yield trained, columns if end - begin == columns.size else columns.only(np.arange(begin, end))
        begin = end


def _now() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

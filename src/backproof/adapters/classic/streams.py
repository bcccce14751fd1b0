"""A stream of sidecars as blocks of one shape.

The first line of a shape is parsed and judged as a document; the lines that have the same text but for their numbers
are read by its template, and judged in those numbers alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.adapters.classic.sidecars import Sidecar, as_receipt, in_stream, judge_run
from backproof.adapters.classic.source import Readable
from backproof.adapters.classic.templates import ReadTemplate, Rows, read_template
from backproof.errors import InputError
from backproof.receipt.columns import Columns, Path, Shape, columns_of
from backproof.receipt.reading import MOST_BYTES
from backproof.rules.ball import Reals

CHUNK = 4 * 1024 * 1024
MOST_ROWS = 1024
MOST_NUMBERS = 2 * 1024 * 1024  # in one block


@dataclass(eq=False)
class Known:
    """One shape: its first sidecar, its template, and the columns whose values the format restricts."""

    shape: Shape
    first: Sidecar
    numbers: Reals
    template: ReadTemplate | None

    def __post_init__(self) -> None:
        paths = self.shape.paths
        self.positive = self._columns(path for path in paths if path[-1] == "learning_rate")
        self.counted = self._columns(path for path in paths if path == ("optimizer", "t"))
        self.settings = self._columns(p for p in paths if p[0] == "optimizer" and p[1] not in {"t", "learning_rate"})
        self.squares = self._columns(path for path in paths if path[-1] == "v" and "optimizer" in path)
        self.index = self._columns(path for path in paths if path == ("step_index",))
        self.rows = max(1, min(MOST_ROWS, MOST_NUMBERS // (len(paths) + 1)))

    def _columns(self, paths: Iterator[Path]) -> Any:
        return np.array([self.shape.column(*path) for path in paths], dtype=np.intp)

    def unusual(self, numbers: Reals, position: int) -> Any:
        """The rows whose numbers the format may not allow: their documents are judged one by one."""
        index = np.arange(position, position + len(numbers))[:, None]
        t = numbers[:, self.counted]
        return np.flatnonzero(
            (numbers[:, self.positive] <= 0.0).any(axis=1)
            | ((t < 1.0) | (t != np.floor(t))).any(axis=1)
            | (numbers[:, self.settings] != self.numbers[:, self.settings]).any(axis=1)
            | (numbers[:, self.squares] < 0.0).any(axis=1)
            | (numbers[:, self.index] != index).any(axis=1)
        )


@dataclass
class StreamReader:
    """One stream being read; `where` and the number of a line name a place in it."""

    framework: str
    where: str
    position: int = 0
    number: int = 0
    first: Sidecar | None = None
    known: dict[str, Known] = field(default_factory=dict)
    current: Known | None = None

    def blocks(self, source: Readable) -> Generator[tuple[Columns, Sidecar], None, None]:
        """Blocks in order, each with the first sidecar of its shape."""
        text, begin = b"", 0
        while True:
            chunk = source.read(CHUNK)
            text, begin = text[begin:] + chunk, 0
            if not chunk and text and not text.endswith(b"\n"):
                text += b"\n"
            while (end := text.find(b"\n", begin)) >= 0:
                columns, following = self._templated(text, begin)
                if columns is None or self.current is None:
                    columns, following = self._parsed(text[begin:end]), end + 1
                if columns is not None and self.current is not None:
                    yield columns, self.current.first
                begin = following
            if not chunk:
                return
            if len(text) - begin > MOST_BYTES:
                raise InputError(f"{self._place(1)}: longer than one record may be ({MOST_BYTES} bytes)")

    def _templated(self, text: bytes, begin: int) -> tuple[Columns | None, int]:
        known = self.current
        if known is None or known.template is None:
            return None, begin
        fit = (len(text) - begin) // known.template.shortest
        rows = Rows.of(min(known.rows, fit), len(known.shape.paths))
        count, following = known.template.read(text, begin, rows)
        if not count:
            return None, begin
        numbers = rows.numbers[:count]
        for row in known.unusual(numbers, self.position):
            start = int(rows.starts[row])
            self._judged(text[start : text.index(b"\n", start)], self.position + int(row), self._place(1 + int(row)))
        return self._block(known, numbers, rows.exponents[:count]), following

    def _parsed(self, line: bytes) -> Columns | None:
        """One line as a document; a blank one is none."""
        if not line.strip():
            self.number += 1
            return None
        sidecar = self._judged(line, self.position, self._place(1))
        (columns,) = columns_of([as_receipt(sidecar)])
        signature = repr(columns.shape.template)
        if signature not in self.known:
            self.known[signature] = Known(columns.shape, sidecar, columns.numbers, None)
        self.current = self.known[signature]
        self.current.template = _checked(read_template(line), line, columns.numbers)
        return self._block(self.current, columns.numbers)

    def _judged(self, line: bytes, position: int, place: str) -> Sidecar:
        sidecar = in_stream(line, place)
        if self.first is None:
            self.first = sidecar
        judge_run(sidecar, self.first, self.framework, position)
        return sidecar

    def _block(self, known: Known, numbers: Reals, exponents: NDArray[np.int8] | None = None) -> Columns:
        count = len(numbers)
        positions = tuple(range(self.position, self.position + count))
        self.position += count
        self.number += count
        return Columns(known.shape, numbers, ((),) * count, positions, exponents=exponents)

    def _place(self, offset: int) -> str:
        return f"{self.where}, line {self.number + offset}"


def _checked(template: ReadTemplate, line: bytes, numbers: Reals) -> ReadTemplate | None:
    """The template, if it reads from its own line what the document says."""
    rows = Rows.of(1, numbers.shape[1] - 1)
    if len([kind for kind in template.kinds if kind == 0]) != numbers.shape[1] - 1:
        return None
    count, _ = template.read(line.rstrip(b"\r\n") + b"\n", 0, rows)
    return template if count == 1 and np.array_equal(rows.numbers, numbers, equal_nan=True) else None

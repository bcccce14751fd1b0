"""Records of one shape as columns: a skeleton of keys and labels, and one row of numbers for each record.

The records of a bundle differ in their numbers alone, so their keys, labels and wiring are judged once, and their
numbers many records at a time. A fast reader fills the same `Columns` without building documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backproof.receipt.document import Receipt, as_receipt
from backproof.receipt.reading import parse
from backproof.receipt.validation import Deviation

Path = tuple[str | int, ...]
MOST_ROWS = 1024  # records held at once
MOST_BYTES = 4 * 1024 * 1024  # of text that they were read from

# Numbers below these keys belong to the shape: they are sizes and policies, the same in every record of a run.
STATIC = frozenset({"topology", "numeric_policy", "batch"})
# Texts that no equation reads; they may differ from record to record.
FREE_TEXTS: frozenset[Path] = frozenset(
    {
        ("fixture",),
        ("metadata", "source"),
        ("metadata", "url_reference"),
        ("attestor", "import_provenance", "import_timestamp"),
        ("attestor", "import_provenance", "source_hash"),
        ("attestor", "signed_subject_digest"),
        ("attestor", "bundle_root_digest"),
    }
)


class Slot(NamedTuple):
    """The place of a number in a template."""

    column: int


class TextSlot(NamedTuple):
    """The place of a free text in a template."""

    column: int


@dataclass(frozen=True, eq=False)
class Shape:
    """What records have in common: their template, with slots for numbers and free texts."""

    template: dict[str, Any]
    paths: tuple[Path, ...]
    text_paths: tuple[Path, ...]

    @cached_property
    def index(self) -> dict[Path, int]:
        """The column of every number."""
        return {path: column for column, path in enumerate(self.paths)}

    def column(self, *path: str | int) -> int:
        """The column of a number, or -1 (a column of NaN) where there is none."""
        return self.index.get(path, -1)

    def get(self, *path: str | int) -> Any:
        """What stands at a place of the template, or None."""
        found: Any = self.template
        for key in path:
            if isinstance(found, dict) and isinstance(key, str):
                found = found.get(key)
            elif isinstance(found, list) and isinstance(key, int) and key < len(found):
                found = found[key]
            else:
                return None
        return found

    def mapping(self, *path: str | int) -> Mapping[str, Any]:
        """The object at a place, or an empty one."""
        found = self.get(*path)
        return found if isinstance(found, dict) else {}

    def many(self, *path: str | int) -> list[Any]:
        """The list at a place, or an empty one."""
        found = self.get(*path)
        return found if isinstance(found, list) else []

    def text(self, *path: str | int) -> str:
        """The label at a place, or an empty one."""
        found = self.get(*path)
        return found if isinstance(found, str) else ""


@dataclass(frozen=True, eq=False)
class Lines:
    """The bytes that records were read from, without their line feeds."""

    data: memoryview
    spans: NDArray[np.int64]
    texts: NDArray[np.int64]  # of each free text, where the scanner found it; else 0
    numbers: NDArray[np.int64]  # of the lines, from 1
    where: str

    def __getitem__(self, row: int) -> bytes:
        begin, end = self.spans[row].tolist()
        return bytes(self.data[begin:end])

    def place(self, row: int) -> str:
        """Where a record stands."""
        return f"{self.where}, line {self.numbers[row]}"


@dataclass(frozen=True, eq=False)
class Columns:
    """Some records of one shape. The last column of `numbers` is NaN: what is missing."""

    shape: Shape
    numbers: NDArray[np.float64]
    texts: tuple[tuple[str, ...], ...]
    positions: tuple[int, ...]  # of each record in its bundle, from 0
    receipts: tuple[Receipt, ...] = field(default=())
    deviations: tuple[tuple[int, Deviation], ...] = ()  # from the format, by row
    canonical: NDArray[np.bool_] | None = None  # records known to have come in their canonical bytes
    exponents: NDArray[np.int8] | None = None  # of ten, of each number of canonical records; -128 for 0
    lines: Lines | None = None

    def text(self, row: int, *path: str | int) -> str | None:
        """A free text of one record."""
        try:
            return self.texts[row][self.shape.text_paths.index(path)]
        except ValueError:
            return None

    def all_texts(self, *path: str | int) -> list[str]:
        """A free text of every record that has it."""
        if path not in self.shape.text_paths:
            return []
        place = self.shape.text_paths.index(path)
        return [texts[place] for texts in self.texts]

    def document(self, row: int) -> dict[str, Any]:
        """One record as a document again."""
        if self.receipts:
            return self.receipts[row].document
        filled: dict[str, Any] = _filled(self.shape.template, self.numbers[row], self.texts[row])
        return filled

    def only(self, rows: NDArray[np.intp]) -> Columns:
        """Some of the records."""
        lines = self.lines
        return Columns(
            self.shape,
            self.numbers[rows],
            tuple(self.texts[row] for row in rows),
            tuple(self.positions[row] for row in rows),
            tuple(self.receipts[row] for row in rows) if self.receipts else (),
            tuple((place, found) for place, row in enumerate(rows) for at, found in self.deviations if at == row),
            self.canonical[rows] if self.canonical is not None else None,
            self.exponents[rows] if self.exponents is not None else None,
            Lines(lines.data, lines.spans[rows], lines.texts[rows], lines.numbers[rows], lines.where)
            if lines is not None
            else None,
        )

    def spans_without(self, key: str) -> list[tuple[int, int, int, int]] | None:
        """Where each record stands without one text of its attestor and its line feed: begin and end, twice.

        None where the records are not known to have come in their canonical bytes.
        """
        path, lines = ("attestor", key), self.lines
        if lines is None or self.canonical is None or not self.canonical.all() or path not in self.shape.text_paths:
            return None
        name = np.frombuffer(f',"{key}":"'.encode(), dtype=np.uint8)
        begins, ends = lines.texts[:, self.shape.text_paths.index(path)].T
        first, last = lines.spans.T
        before = begins - len(name)
        if (before < first).any():
            return None
        held = np.frombuffer(lines.data, dtype=np.uint8)
        if (held[before[:, None] + np.arange(len(name))] != name).any():
            return None
        spans: list[tuple[int, int, int, int]] = np.stack([first, before, ends + 1, last], axis=1).tolist()
        return spans

    def is_canonical(self, row: int) -> bool:
        """Whether a record came in its canonical bytes; one that came in none did."""
        if self.canonical is not None and self.canonical[row]:
            return True
        if self.receipts:
            return not self.receipts[row].source or self.receipts[row].is_canonical
        if self.lines is None:
            return True
        return as_receipt(parse(self.lines[row]), self.lines[row]).is_canonical

    @property
    def size(self) -> int:
        """How many records there are."""
        return len(self.positions)


def _filled(value: Any, numbers: NDArray[np.float64], texts: tuple[str, ...]) -> Any:
    if isinstance(value, Slot):
        return float(numbers[value.column])
    if isinstance(value, TextSlot):
        return texts[value.column]
    if isinstance(value, dict):
        return {key: _filled(item, numbers, texts) for key, item in value.items()}
    return [_filled(item, numbers, texts) for item in value] if isinstance(value, list) else value


def written(path: Path) -> str:
    """A path as receipts write it: `updates[0].gradient`."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else (f".{key}" if text else str(key))
    return text


class Shapes:
    """The shapes met so far. Two documents have the same one if they differ in numbers and free texts alone."""

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}

    def of(self, document: Mapping[str, Any]) -> tuple[Flat, Shape]:
        """A document taken apart, and its shape."""
        flat = Flat()
        template = flat.take(document, ())
        signature = repr(template)
        if signature not in self._known:
            self._known[signature] = Shape(template, tuple(flat.paths), tuple(flat.text_paths))
        return flat, self._known[signature]


def columns_of(receipts: Iterable[Receipt], most_rows: int = MOST_ROWS) -> Iterator[Columns]:
    """The records of a bundle in order; a new block begins where the shape changes or a block is full."""
    shapes = Shapes()
    rows: list[tuple[Flat, int, Receipt]] = []
    current: Shape | None = None
    size = 0
    for position, receipt in enumerate(receipts):
        flat, shape = shapes.of(receipt.document)
        full = len(rows) == most_rows or size > MOST_BYTES
        if rows and (shape is not current or full) and current is not None:
            yield _block(current, rows)
            rows, size = [], 0
        current = shape
        rows.append((flat, position, receipt))
        size += len(receipt.source)
    if rows and current is not None:
        yield _block(current, rows)


def _block(shape: Shape, rows: list[tuple[Flat, int, Receipt]]) -> Columns:
    numbers = np.full((len(rows), len(shape.paths) + 1), np.nan)
    for i, (flat, *_) in enumerate(rows):
        numbers[i, :-1] = flat.numbers
    texts = tuple(tuple(flat.texts) for flat, *_ in rows)
    receipts = tuple(receipt for *_, receipt in rows)
    deviations = tuple((i, deviation) for i, receipt in enumerate(receipts) for deviation in receipt.deviations)
    return Columns(shape, numbers, texts, tuple(position for _, position, _ in rows), receipts, deviations)


class Flat:
    """One walk through a document: its template, numbers and free texts."""

    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.paths: list[Path] = []
        self.texts: list[str] = []
        self.text_paths: list[Path] = []

    def take(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self.take(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.take(item, (*path, i)) for i, item in enumerate(value)]
        if isinstance(value, int | float) and not isinstance(value, bool) and path[0] not in STATIC:
            self.numbers.append(float(value))
            self.paths.append(path)
            return Slot(len(self.numbers) - 1)
        if isinstance(value, str) and path in FREE_TEXTS:
            self.texts.append(value)
            self.text_paths.append(path)
            return TextSlot(len(self.texts) - 1)
        return value

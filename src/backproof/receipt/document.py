"""Receipts and sidecars as documents: read strictly, validated, written canonically."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from backproof.errors import InputError
from backproof.receipt import reading
from backproof.receipt.emission import emit
from backproof.receipt.validation import Deviation, receipt_deviations, refuse, sidecar_deviations


@dataclass(frozen=True)
class Receipt:
    """One receipt: its document as read, the bytes it was read from, and where."""

    document: dict[str, Any]
    source: bytes = b""
    where: str = "receipt"
    deviations: tuple[Deviation, ...] = field(default=())

    @property
    def version(self) -> str:
        """The schema_version, or an empty text where there is none."""
        version = self.document.get("schema_version")
        return version if isinstance(version, str) else ""

    @property
    def is_canonical(self) -> bool:
        """Whether the bytes read are the canonical ones (a missing final line feed is forgiven)."""
        try:
            return emit(self.document) == self.source.rstrip(b"\n") + b"\n"
        except InputError:
            return False


def read_receipt(path: str | Path) -> Receipt:
    """The one receipt in a file (`-` is standard input); whatever is not a valid receipt is refused.

    >>> read_receipt("mazur.jsonl").document["loss"]["total"]  # doctest: +SKIP
    0.298371109
    """
    receipt = read_document(str(path))
    refuse(list(receipt.deviations), receipt.where, "receipt")
    return receipt


def read_receipts(source: str | Path | BinaryIO) -> Iterator[Receipt]:
    """The receipts of a bundle, one line each, one in memory at a time."""
    for receipt in read_documents(source):
        refuse(list(receipt.deviations), receipt.where, "receipt")
        yield receipt


def read_document(path: str) -> Receipt:
    """The one document in a file, validated but not refused: its deviations are listed."""
    content = reading.read_bytes(path)
    where = "standard input" if path == "-" else path
    rows = [line for line in content.split(b"\n") if line.strip()]
    if not rows:
        raise reading.ReadingError("BP_JSONL_EMPTY", f"{where}: is empty; a receipt is one JSON object on one line")
    if path.lower().endswith(".jsonl") and len(rows) > 1 and all(map(_parses, rows)):
        message = f"{where}: has {len(rows)} records; 'bp verify multi {path}' reads bundles"
        raise reading.ReadingError("BP_JSONL_MULTI_RECORD", message)
    return as_receipt(reading.parse(content, where), content, where)


def read_documents(source: str | Path | BinaryIO) -> Iterator[Receipt]:
    """The documents of a bundle, validated but not refused."""
    if isinstance(source, str | Path):
        with open_bundle(str(source)) as stream:
            yield from documents_of(stream, "standard input" if source == "-" else str(source))
    else:
        yield from documents_of(source, getattr(source, "name", "bundle"))


def read_any(path: str) -> Iterator[Receipt]:
    """The documents of a file, whether it holds one over several lines or one a line; one in memory at a time."""
    where = "standard input" if path == "-" else path
    with open_bundle(path) as stream:
        rows = reading.lines(stream, where)
        for number, line in rows:
            place = f"{where}, line {number}"
            try:
                document = reading.parse(line, place)
            except reading.NotJSONError:
                if number > 1:
                    raise
                rest = stream.read(reading.MOST_BYTES + 1)
                yield as_receipt(reading.parse(line + rest, where), line + rest, where)
                return
            yield as_receipt(document, line, place)


def as_receipt(document: Any, source: bytes = b"", where: str = "receipt") -> Receipt:
    """A parsed document as a Receipt; only something that is no object is refused."""
    if not isinstance(document, dict):
        raise InputError(f"{where}: is {type(document).__name__}, not an object; a receipt is one JSON object")
    return Receipt(document, source, where, tuple(receipt_deviations(document)))


def read_sidecar(content: bytes | str, where: str = "sidecar") -> dict[str, Any]:
    """One framework-trace sidecar, from the text of one line; whatever is not one is refused."""
    text = content.encode() if isinstance(content, str) else content
    document = reading.parse(text.strip().removeprefix(b"\xef\xbb\xbf"), where)
    refuse(sidecar_deviations(document), where, "framework-trace sidecar")
    if not isinstance(document, dict):
        raise InputError(f"{where}: is not an object")
    return document


def write_receipt(receipt: Receipt | Mapping[str, Any], path: str | Path) -> int:
    """Write one receipt canonically; the file appears whole or not at all. Returns the number of bytes."""
    return write_receipts([receipt], path)


def write_receipts(receipts: Iterable[Receipt | Mapping[str, Any]], path: str | Path) -> int:
    """Write a bundle canonically, one line a record; the file appears whole or not at all."""
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    try:
        with partial.open("wb") as file:
            for receipt in receipts:
                file.write(emit(receipt.document if isinstance(receipt, Receipt) else receipt))
            size = file.tell()
        partial.replace(target)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return size


def documents_of(stream: BinaryIO, where: str, begun: bytes = b"", line: int = 1) -> Iterator[Receipt]:
    """The documents of a stream, of which the line of that number was read already if `begun` has it."""
    if begun:
        place = f"{where}, line {line}"
        yield as_receipt(reading.parse(begun, place), begun, place)
    for number, content in reading.lines(stream, where, line if begun else line - 1):
        place = f"{where}, line {number}"
        yield as_receipt(reading.parse(content, place), content, place)


def open_bundle(path: str) -> BinaryIO:
    """A file, or standard input for `-`, as bytes."""
    if path == "-":
        import sys

        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise reading.cannot_read(path, error) from None


def _parses(line: bytes) -> bool:
    try:
        reading.parse(line)
    except InputError:
        return False
    return True

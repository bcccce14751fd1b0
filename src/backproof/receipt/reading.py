"""Strict reading of JSON: what is malformed, ambiguous or hostile is refused with its place.

Refused: invalid UTF-8, a byte order mark, a key given twice, NaN and Infinity, numbers that overflow, nesting
deeper than MOST_DEPTH, records longer than MOST_BYTES. Of two equal keys the last would silently win
otherwise, so that two readers could see two different receipts in one file.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from backproof.errors import InputError

MOST_BYTES = 64 * 1024 * 1024  # one record; 64 units a layer and thousands of samples stay well below
MOST_DEPTH = 64  # a receipt is at most 8 deep
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


class ReadingError(InputError):
    """Something that cannot be read, with the stable name of why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotJSONError(ReadingError):
    """A text that is not JSON; it may be the first line of one."""


def parse(text: bytes | str, where: str = "the input") -> Any:
    """One JSON document, read strictly."""
    if len(text) > MOST_BYTES:
        raise ReadingError(
            "INPUT_TOO_LARGE", f"{where}: {len(text)} bytes are more than one record may have ({MOST_BYTES})"
        )
    decoded = decode(text, where) if isinstance(text, bytes) else text
    if decoded.startswith("\ufeff"):
        raise ReadingError(
            "INVALID_JSON", f"{where}: begins with a byte order mark; write the file as UTF-8 without one"
        )
    _check_depth(decoded, where)
    return _load(decoded, where)


def decode(text: bytes, where: str) -> str:
    """UTF-8 as text; the first invalid byte is named."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ReadingError("INVALID_JSON", f"{where}: byte {error.start} is not UTF-8 ({error.reason})") from None


def lines(source: BinaryIO, where: str, number: int = 0) -> Iterator[tuple[int, bytes]]:
    """The non-blank lines of a stream with their numbers, after `number` of them, one in memory at a time."""
    while line := source.readline(MOST_BYTES + 1):
        number += 1
        if len(line) > MOST_BYTES:
            raise too_long(where, number)
        if line.strip():
            yield number, line


def too_long(where: str, line: int) -> ReadingError:
    """A line that is longer than a record may be."""
    return ReadingError("INPUT_TOO_LARGE", f"{where}, line {line}: longer than one record may be ({MOST_BYTES} bytes)")


def read_bytes(path: str) -> bytes:
    """All of a file, or of standard input for `-`, up to the size of one record."""
    if path == "-":
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
    else:
        try:
            with Path(path).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise cannot_read(path, error) from None
    if len(content) > MOST_BYTES:
        hint = "bundles are read with 'bp verify multi'"
        raise ReadingError("INPUT_TOO_LARGE", f"{path}: more than {MOST_BYTES} bytes in one document; {hint}")
    return content


def cannot_read(path: str, error: OSError) -> ReadingError:
    """Why a file could not be opened."""
    names: dict[type[OSError], str] = {
        FileNotFoundError: "ENOENT",
        PermissionError: "EACCES",
        IsADirectoryError: "EISDIR",
    }
    code = names.get(type(error), "IO_ERROR")
    return ReadingError(code, f"{path}: cannot be read: {(error.strerror or str(error)).lower()}")


def _check_depth(text: str, where: str) -> None:
    # Brackets alone, strings included, bound the depth at the speed of C; the exact walk is for suspects.
    if _deepest(text.encode("utf-8", "surrogatepass").translate(None, _NO_BRACKETS)) <= MOST_DEPTH:
        return
    if _deepest(_STRING.sub("", text).encode("utf-8", "surrogatepass").translate(None, _NO_BRACKETS)) > MOST_DEPTH:
        raise ReadingError("INVALID_JSON", f"{where}: nested deeper than {MOST_DEPTH} levels; a receipt needs 9")


def _deepest(brackets: bytes) -> int:
    depth = deepest = 0
    for bracket in brackets:
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _load(text: str, where: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            seen: set[str] = set()
            twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            message = f"the key {twice!r} is given twice in one object; two readers could see two receipts"
            raise ReadingError("INVALID_JSON", f"{where}: {message}")
        return found

    def constant(token: str) -> NoReturn:
        raise ReadingError("INVALID_JSON", f"{where}: {token} is not a JSON number")

    def real(token: str) -> float:
        value = float(token)
        if not math.isfinite(value):
            raise ReadingError("INVALID_JSON", f"{where}: {_short(token)} overflows a 64-bit float")
        return value

    def whole(token: str) -> int | float:
        return int(token) if len(token) < 16 else real(token)

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=real, parse_int=whole)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise NotJSONError("INVALID_JSON", f"{where}: not JSON at {place}: {error.msg.lower()}") from None
    except RecursionError:
        raise ReadingError("INVALID_JSON", f"{where}: nested too deeply to be a receipt") from None


def _short(token: str) -> str:
    return token if len(token) <= 24 else f"{token[:12]}... ({len(token)} characters)"

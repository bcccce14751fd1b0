"""Templates: a line of JSON cut at its numbers, so that further lines of its shape are read, and written, at once."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from backproof.adapters.classic.native import address, library
from backproof.receipt.columns import STATIC

Reals = NDArray[np.float64]

UNREAD = frozenset({"helper"})  # what no column holds
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|[{}\[\]:,]')
_NUMBER, _MOMENT = 0, 1
DIGEST_GOES = b'},"metadata":{'  # the end of the attestor; within a string the quotes would be escaped


class Rows(NamedTuple):
    """Room for lines that are read: their numbers, the exponents of ten of these, and where each line begins."""

    numbers: Reals
    exponents: NDArray[np.int8]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, count: int, numbers: int) -> Rows:
        """Room for some lines. The last column is of what is missing: not a number, and of no exponent."""
        held = np.full((count, numbers + 1), np.nan)
        return cls(held, np.full(held.shape, 127, dtype=np.int8), np.empty(count, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class ReadTemplate:
    """A line's pieces; between them numbers (columns, in order) and moments (texts that differ in digits alone)."""

    pieces: tuple[bytes, ...]
    kinds: tuple[int, ...]
    likes: tuple[bytes, ...]

    @cached_property
    def _arrays(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.int8], bytes, NDArray[np.int64]]:
        return (
            b"".join(self.pieces),
            np.cumsum([len(piece) for piece in self.pieces], dtype=np.int64),
            np.array(self.kinds, dtype=np.int8),
            b"".join(self.likes),
            np.cumsum([len(like) for like in self.likes] or [0], dtype=np.int64),
        )

    @cached_property
    def shortest(self) -> int:
        """The bytes that a line of this template has at least, its line feed among them."""
        return sum(map(len, self.pieces)) + sum(map(len, self.likes)) + self.kinds.count(_NUMBER) + 1

    def read(self, text: bytes, begin: int, rows: Rows) -> tuple[int, int]:
        """Fill rows from the lines that begin at `begin`; gives how many there were and where the next one begins."""
        native = library()
        if native is None:
            return 0, begin
        pieces, ends, kinds, likes, like_ends = self._arrays
        used = ctypes.c_int64()
        base = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0
        count = native.read_lines(
            ctypes.c_void_p(base + begin), ctypes.c_int64(len(text) - begin), pieces, address(ends),
            ctypes.c_int64(len(self.kinds)), address(kinds), likes, address(like_ends),
            address(rows.numbers), address(rows.exponents), ctypes.c_int64(rows.numbers.shape[1]), address(rows.starts),
            ctypes.c_int64(len(rows.numbers)), ctypes.byref(used),
        )  # fmt: skip
        rows.starts[:count] += begin
        return int(count), begin + used.value


def read_template(line: bytes) -> ReadTemplate:
    """The template of a line that was parsed and judged already."""
    line = line.rstrip(b"\r\n")
    pieces, kinds, likes = [], [], []
    depth, root, key, cut = 0, b"", b"", 0
    previous = b""
    for found in _TOKEN.finditer(line):
        token = found.group()
        if token in {b"{", b"["}:
            depth += 1
        elif token in {b"}", b"]"}:
            depth -= 1
        elif token == b":":
            key = previous
            root = previous if depth == 1 else root
        elif token[:1] == b'"':
            moment = root == b'"helper"' and key == b'"timestamp"' and previous == b":"
            if moment:
                pieces.append(line[cut : found.start()])
                kinds.append(_MOMENT)
                likes.append(token)
                cut = found.end()
        elif token != b"," and root[1:-1].decode() not in STATIC | UNREAD:
            pieces.append(line[cut : found.start()])
            kinds.append(_NUMBER)
            cut = found.end()
        previous = token
    return ReadTemplate((*pieces, line[cut:]), tuple(kinds), tuple(likes))


@dataclass(frozen=True, eq=False)
class WriteTemplate:
    """A receipt's text in pieces; between two of them stands a number, of which column, and whether it is whole."""

    texts: tuple[bytes, ...]
    holes: tuple[int, ...]
    whole: tuple[bool, ...]

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """The columns of which a number is written, each once."""
        return np.unique(np.array(self.holes, dtype=np.intp))

    @cached_property
    def _arrays(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]:
        ends = np.cumsum([len(text) for text in self.texts], dtype=np.int64)
        holes = np.searchsorted(self.columns, self.holes).astype(np.int64)
        return b"".join(self.texts), ends, holes, np.array(self.whole, dtype=np.int8)

    def write(self, rows: Reals) -> tuple[memoryview, NDArray[np.int64]] | None:
        """Canonical lines, side by side, and the size of each, from rows of `columns`.

        None where a number cannot be carried (or no compiler).
        """
        native = library()
        if native is None:
            return None
        text, ends, holes, whole = self._arrays
        rows = np.ascontiguousarray(rows)
        sizes = np.empty(len(rows), dtype=np.int64)
        out = np.empty(len(rows) * (len(text) + 26 * len(self.holes)) + 64, dtype=np.uint8)
        size = native.write_lines(
            text, address(ends), ctypes.c_int64(len(self.holes)), address(holes), address(whole),
            address(rows), ctypes.c_int64(rows.shape[1]), ctypes.c_int64(len(rows)), address(out), address(sizes),
        )  # fmt: skip
        return (out.data[:size], sizes) if size >= 0 else None


@lru_cache
def bound(template: WriteTemplate, digest: str) -> WriteTemplate:
    """The same text with the digest of a bundle as the last key of the attestor."""
    said = f',"bundle_root_digest":"{digest}"'.encode()
    at = next(i for i, text in enumerate(template.texts) if DIGEST_GOES in text)
    before, goes, after = template.texts[at].partition(DIGEST_GOES)
    texts = (*template.texts[:at], before + said + goes + after, *template.texts[at + 1 :])
    return WriteTemplate(texts, template.holes, template.whole)

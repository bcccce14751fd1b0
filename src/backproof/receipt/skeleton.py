"""A skeleton: the bytes that the lines of one shape share, with a slot for every number and free text.

It is made from one line that the strict reader has read; the native scanner fits the lines that follow to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.errors import InputError
from backproof.receipt.columns import Shape, Slot, TextSlot
from backproof.receipt.emission import emit
from backproof.receipt.limits import Limits
from backproof.receipt.native import NUMBER, TEXT, WHOLE, SkeletonStruct, address

# Every string and every number; nothing else of a document that is known to be JSON looks like one.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*')
_LABEL = object()


@dataclass(frozen=True, eq=False)
class Skeleton:
    """A shape as bytes."""

    shape: Shape
    literals: tuple[bytes, ...]
    canonical: bool  # whether the literals are those of the canonical bytes
    least: int  # bytes that a line has at least, its line feed included
    struct: SkeletonStruct
    held: tuple[Any, ...]  # what the struct points to


def skeleton_of(line: bytes, document: dict[str, Any], shape: Shape, limits: Limits) -> Skeleton | None:
    """The skeleton of a line without its line feed, or None where tokens and document do not agree."""
    slots = list(_slots(shape.template))
    literals = _literals(line, slots)
    if literals is None:
        return None
    ends = np.cumsum([len(literal) for literal in literals], dtype=np.int64)
    kinds = bytes(_kind(slot, limits) for slot in slots if slot is not _LABEL)
    joined = b"".join(literals)
    struct = SkeletonStruct(
        joined,
        address(ends),
        kinds,
        len(kinds),
        len(shape.paths),
        len(shape.text_paths),
    )
    canonical = _is_canonical(document, slots, literals)
    least = len(joined) + len(shape.paths) + 1
    return Skeleton(shape, literals, canonical, least, struct, (ends, kinds, joined))


def _is_canonical(document: dict[str, Any], slots: list[Any], literals: tuple[bytes, ...]) -> bool:
    if not str(document.get("schema_version")).startswith("0."):
        return False  # the scanner knows the spelling of nine digits alone
    try:
        return _literals(emit(document)[:-1], slots) == literals
    except InputError:
        return False


def _kind(slot: Any, limits: Limits) -> int:
    if isinstance(slot, TextSlot):
        return TEXT
    return WHOLE if slot.column in limits.whole else NUMBER


def _slots(value: Any) -> Iterator[Any]:
    """For each string and number of a template in the order of the text: its slot, or _LABEL."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield _LABEL
            assert isinstance(key, str)
            yield from _slots(item)
    elif isinstance(value, list):
        for item in value:
            yield from _slots(item)
    elif isinstance(value, Slot | TextSlot):
        yield value
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield _LABEL


def _literals(line: bytes, slots: list[Any]) -> tuple[bytes, ...] | None:
    """What stands between the slots; the quotes of a text belong to it."""
    spans = [found.span() for found in _TOKEN.finditer(line)]
    if len(spans) != len(slots):
        return None
    literals, begin = [], 0
    for slot, (start, end) in zip(slots, spans, strict=True):
        if slot is _LABEL:
            continue
        quote = 1 if isinstance(slot, TextSlot) else 0
        literals.append(line[begin : start + quote])
        begin = end - quote
    return (*literals, line[begin:])

"""A skeleton: the bytes that the lines of one shape share, with a slot for every number and free text.

It is made from one line that the strict reader has read; the native scanner fits the lines that follow to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.errors import InputError
from backproof.receipt.columns import Shape, Slot, TextSlot
from backproof.receipt.emission import emit
from backproof.receipt.limits import Limits
from backproof.receipt.native import NUMBER, TEXT, WHOLE, SkeletonStruct, address

# Every string and every number; nothing else of a document that is known to be JSON looks like one.
_TOKEN = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][-+.0-9eE]*)')
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
    slots: list[Any] = []
    _take_slots(shape.template, slots)
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
    canonical = _is_canonical(line, document, slots, literals)
    least = len(joined) + len(shape.paths) + 1
    return Skeleton(shape, literals, canonical, least, struct, (ends, kinds, joined))


def _is_canonical(line: bytes, document: dict[str, Any], slots: list[Any], literals: tuple[bytes, ...]) -> bool:
    if not str(document.get("schema_version")).startswith("0."):
        return False  # the scanner knows the spelling of nine digits alone
    try:
        emitted = emit(document)[:-1]
    except InputError:
        return False
    return emitted == line or _literals(emitted, slots) == literals


def _kind(slot: Any, limits: Limits) -> int:
    if isinstance(slot, TextSlot):
        return TEXT
    return WHOLE if slot.column in limits.whole else NUMBER


def _take_slots(value: Any, slots: list[Any]) -> None:
    """For each string and number of a template in the order of the text: its slot, or _LABEL."""
    if isinstance(value, dict):
        for item in value.values():
            slots.append(_LABEL)  # the key
            _take_slots(item, slots)
    elif isinstance(value, list):
        for item in value:
            _take_slots(item, slots)
    elif isinstance(value, Slot | TextSlot):
        slots.append(value)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        slots.append(_LABEL)


def _literals(line: bytes, slots: list[Any]) -> tuple[bytes, ...] | None:
    """What stands between the slots; the quotes of a text belong to it."""
    parts = _TOKEN.split(line)  # with the tokens themselves at the odd places
    if len(parts) != 2 * len(slots) + 1:
        return None
    literals, begin, quote = [], 0, b""
    for i, slot in enumerate(slots):
        if slot is not _LABEL:
            before, quote = quote, b'"' if isinstance(slot, TextSlot) else b""
            literals.append(before + b"".join(parts[begin : 2 * i + 1]) + quote)
            begin = 2 * i + 2
    return (*literals, quote + b"".join(parts[begin:]))

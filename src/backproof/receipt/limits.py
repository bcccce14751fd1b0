"""What a format asks of the numbers and free texts of a shape, for many records at a time.

A record within these limits deviates from its format only where every record of its shape does; the others are
validated one by one, which alone says how they deviate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.receipt import formats
from backproof.receipt.columns import Shape, Slot, TextSlot
from backproof.receipt.kinds import Field, Kind, Many, Map, Number, OneOf, Record, Text, When, Whole
from backproof.receipt.validation import FALLBACK_VERSION


@dataclass(frozen=True, eq=False)
class Limits:
    """The columns of a shape that a format bounds, and how. Where kinds contradict, the narrowest counts."""

    whole: frozenset[int]  # written as integers
    bounded: NDArray[np.intp]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    integers: NDArray[np.intp]
    dropped_if_zero: NDArray[np.intp]
    texts: tuple[tuple[int, tuple[Kind, ...]], ...]  # the free texts of which something is asked, and what

    def within(self, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which rows lie within every bound."""
        bounded, integers = numbers[:, self.bounded], numbers[:, self.integers]
        inside = ((bounded >= self.least) & (bounded <= self.most)).all(axis=1)
        return inside & (integers == np.trunc(integers)).all(axis=1)


def limits_of(shape: Shape) -> Limits:
    """The limits that the format of a shape's version sets."""
    version = shape.get("schema_version")
    known = isinstance(version, str) and version in formats.RECEIPT_VERSIONS
    kind = formats.of_version(version if known else FALLBACK_VERSION)
    numbers: dict[int, list[Number | Whole]] = {}
    texts: list[list[Kind]] = [[] for _ in shape.text_paths]
    dropped: set[int] = set()
    leaves: list[Leaf] = []
    _take_leaves(kind, shape.template, None, leaves)
    for slot, found, field in leaves:
        if isinstance(slot, TextSlot):
            if not isinstance(found, Text) or found != Text():
                texts[slot.column].append(found)
        elif isinstance(found, Number | Whole):
            numbers.setdefault(slot.column, []).append(found)
            if field is not None and field.emitted == "if not zero":
                dropped.add(slot.column)
    whole = {column for column, kinds in numbers.items() if any(isinstance(kind, Whole) for kind in kinds)}
    ranges = {column: _range(tuple(kinds)) for column, kinds in numbers.items()}
    bounded = sorted(column for column, (low, high) in ranges.items() if low > -np.inf or high < np.inf)
    return Limits(
        frozenset(whole),
        np.array(bounded, dtype=np.intp),
        np.array([ranges[column][0] for column in bounded]),
        np.array([ranges[column][1] for column in bounded]),
        np.array(sorted(whole), dtype=np.intp),
        np.array(sorted(dropped), dtype=np.intp),
        tuple((k, tuple(kinds)) for k, kinds in enumerate(texts) if kinds),
    )


@cache
def _range(kinds: tuple[Number | Whole, ...]) -> tuple[float, float]:
    """The interval that every kind admits."""
    low, high = -np.inf, np.inf
    for kind in kinds:
        for least in (kind.least, kind.const):
            low = max(low, -np.inf if least is None else float(least))
        for most in (kind.most, kind.const):
            high = min(high, np.inf if most is None else float(most))
        if isinstance(kind, Number):
            low = max(low, -np.inf if kind.above is None else float(np.nextafter(kind.above, np.inf)))
            high = min(high, np.inf if kind.below is None else float(np.nextafter(kind.below, -np.inf)))
    return low, high


Leaf = tuple[Slot | TextSlot, Kind, Field | None]


def _take_leaves(kind: Kind, value: Any, field: Field | None, leaves: list[Leaf]) -> None:
    """Every slot of a template with the kinds that the format gives it, those of conditions included."""
    if isinstance(value, Slot | TextSlot):
        leaves += [(value, option, field) for option in (kind.options if isinstance(kind, OneOf) else (kind,))]
        return
    match kind:
        case OneOf():
            for option in kind.options:
                _take_leaves(option, value, field, leaves)
        case Many():
            for item in value if isinstance(value, list) else ():
                _take_leaves(kind.items, item, None, leaves)
        case Map():
            for item in value.values() if isinstance(value, dict) else ():
                _take_leaves(kind.values, item, None, leaves)
        case Record():
            if isinstance(value, dict):
                _take_entries(kind, value, leaves)
        case _:
            return


def _take_entries(kind: Record, value: dict[str, Any], leaves: list[Leaf]) -> None:
    for field in kind.fields:
        if field.name in value:
            _take_leaves(field.kind, value[field.name], field, leaves)
    if kind.rest is not None:
        known = {field.name for field in kind.fields}
        for key in value.keys() - known:
            _take_leaves(kind.rest, value[key], None, leaves)
    for condition in kind.conditions:
        if isinstance(condition, When):
            inside: Any = value
            for key in condition.inside:
                inside = inside.get(key) if isinstance(inside, dict) else None
            for key, narrow in condition.narrows:
                if isinstance(inside, dict) and key in inside:
                    _take_leaves(narrow, inside[key], None, leaves)

"""What a format asks of the numbers and free texts of a shape, for many records at a time.

A record within these limits deviates from its format only where every record of its shape does; the others are
validated one by one, which alone says how they deviate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.receipt import formats
from backproof.receipt.columns import Shape, Slot, TextSlot
from backproof.receipt.kinds import Anything, Field, Kind, Many, Map, Number, OneOf, Record, Text, When, Whole
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
    for slot, found, field in _leaves(kind, shape.template, None):
        if isinstance(slot, TextSlot):
            if not isinstance(found, Text) or found != Text():
                texts[slot.column].append(found)
        elif isinstance(found, Number | Whole):
            numbers.setdefault(slot.column, []).append(found)
            if field is not None and field.emitted == "if not zero":
                dropped.add(slot.column)
    whole = {column for column, kinds in numbers.items() if any(isinstance(kind, Whole) for kind in kinds)}
    ranges = {column: _range(kinds) for column, kinds in numbers.items()}
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


def _range(kinds: list[Number | Whole]) -> tuple[float, float]:
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


def _leaves(  # noqa: C901 - one case a kind
    kind: Kind, value: Any, field: Field | None
) -> Iterator[tuple[Slot | TextSlot, Kind, Field | None]]:
    """Every slot of a template with the kinds that the format gives it, those of conditions included."""
    if isinstance(value, Slot | TextSlot):
        for option in kind.options if isinstance(kind, OneOf) else (kind,):
            yield value, option, field
        return
    match kind:
        case OneOf():
            for option in kind.options:
                yield from _leaves(option, value, field)
        case Many():
            for item in value if isinstance(value, list) else ():
                yield from _leaves(kind.items, item, None)
        case Map():
            for item in value.values() if isinstance(value, Mapping) else ():
                yield from _leaves(kind.values, item, None)
        case Record() | Anything():
            if isinstance(value, Mapping):
                yield from _entries(kind, value)
        case _:
            return


def _entries(kind: Record | Anything, value: Mapping[str, Any]) -> Iterator[tuple[Slot | TextSlot, Kind, Field | None]]:
    fields = {field.name: field for field in kind.fields} if isinstance(kind, Record) else {}
    rest = kind.rest if isinstance(kind, Record) else None
    for key, item in value.items():
        if key in fields:
            yield from _leaves(fields[key].kind, item, fields[key])
        elif rest is not None:
            yield from _leaves(rest, item, None)
    for condition in kind.conditions if isinstance(kind, Record) else ():
        if isinstance(condition, When):
            inside: Any = value
            for key in condition.inside:
                inside = inside.get(key) if isinstance(inside, Mapping) else None
            for key, narrow in condition.narrows:
                if isinstance(inside, Mapping) and key in inside:
                    yield from _leaves(narrow, inside[key], None)

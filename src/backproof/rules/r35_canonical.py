"""A receipt is what its canonical bytes say: nothing in it is dropped, nothing missing, every number representable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from backproof.receipt import formats
from backproof.receipt.columns import Path, written
from backproof.receipt.kinds import Anything, Flag, Kind, Many, Map, Number, OneOf, Record, Text, Whole
from backproof.rules.layout import Layout
from backproof.rules.rule import Ledger, Mutation, Rule, Violation, Wrong

LEAST, MOST = 1e-13, 1e7


def labels(layout: Layout) -> Iterator[Wrong]:
    """Keys that canonical bytes leave out, and keys that they cannot do without."""
    version = layout.shape.get("schema_version")
    if version not in formats.RECEIPT_VERSIONS:
        known = ", ".join(formats.RECEIPT_VERSIONS)
        yield Wrong("schema_version", f"has no canonical bytes; known are {known}", version)
        return
    yield from _walk(formats.of_version(version), layout.shape.template, ())


def _walk(kind: Kind, value: Any, path: Path) -> Iterator[Wrong]:
    match kind:
        case Record():
            if isinstance(value, dict):
                yield from _record(kind, value, path)
        case Anything():
            if isinstance(value, dict):
                yield from _record(Record(kind.fields), value, path)
        case Map():
            for key, item in value.items() if isinstance(value, dict) else ():
                yield from _inside(kind.values, item, (*path, key))
        case Many():
            for i, item in enumerate(value) if isinstance(value, list) else ():
                yield from _inside(kind.items, item, (*path, i))
        case OneOf() | Text() | Number() | Whole() | Flag():
            return


def _inside(kind: Kind, value: Any, path: Path) -> Iterable[Wrong]:
    """A number or a text has no keys."""
    return _walk(kind, value, path) if isinstance(value, dict | list) else ()


def _record(kind: Record, value: dict[str, Any], path: Path) -> Iterator[Wrong]:
    for field in kind.fields:
        if field.name not in value:
            if field.emitted == "always":
                place = written((*path, field.name))
                yield Wrong(place, "is missing; canonical bytes cannot be written without it")
        elif field.emitted == "never":
            place = written((*path, field.name))
            yield Wrong(place, "is left out of the canonical bytes, so that no digest covers it")
        else:
            yield from _inside(field.kind, value[field.name], (*path, field.name))
    known = {field.name for field in kind.fields}
    for key in value:
        if key not in known and kind.rest is None:
            place = written((*path, key))
            yield Wrong(place, "is no key of the format; canonical bytes leave it out")


def equations(ledger: Ledger) -> Iterator[Violation]:
    """Every number is 0 or lies in the range of a nine-digit plain decimal."""
    if ledger.layout.is_lossless or ledger.columns.exponents is not None:
        return  # canonical bytes spell every number in range
    numbers = ledger.columns.numbers[:, :-1]
    size = np.abs(numbers)
    outside = ((size != 0.0) & (size < LEAST)) | (size >= MOST)
    for row, column in zip(*outside.nonzero(), strict=True):
        place = written(ledger.layout.shape.paths[column])
        message = "has no nine-digit plain decimal (0, or 1e-13 to below 1e7)"
        yield Violation(int(row), place, message, float(numbers[row, column]))


RULE = Rule(
    35,
    "canonical",
    "canonical bytes can be written, and say everything that the file says",
    "Whatever the canonical form drops can be added or changed without touching a digest.",
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("a remark that no digest covers", "sgd", "metadata.reviewed_by", 'set:"nobody"'),
        Mutation("the outcome is gone", "sgd", "post_update_loss", "drop"),
        Mutation("a version that nobody knows", "sgd", "schema_version", 'set:"9.9.9"'),
        Mutation("a number out of range", "sgd", "inputs.x1", "set:1e300"),
    ),
)

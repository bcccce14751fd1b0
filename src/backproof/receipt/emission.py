"""The canonical bytes of a receipt: one line, keys in the order of the format, nine-digit plain decimals.

Keys that the format does not write (unknown metadata, lifecycle remarks, entries of a map that no order
names) are left out, as the format says; a rule tells when something was.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from backproof.errors import InputError
from backproof.receipt import formats
from backproof.receipt.json_text import compact, quote
from backproof.receipt.kinds import Anything, Field, Flag, Kind, Many, Map, Number, OneOf, Record, Text, Whole
from backproof.receipt.numbers import NumberRangeError, canonical_number
from backproof.receipt.orders import orders_of
from backproof.receipt.topology import LOSSLESS


class EmissionError(InputError):
    """A receipt without canonical bytes: a key missing, a wrong type, a number out of range."""


def emit(document: Mapping[str, Any]) -> bytes:
    """The canonical bytes of one receipt, with the line feed at its end."""
    version = document.get("schema_version")
    if version not in formats.RECEIPT_VERSIONS:
        known = ", ".join(formats.RECEIPT_VERSIONS)
        raise EmissionError(f"schema_version {version!r} has no canonical bytes; known are {known}")
    if version == LOSSLESS:
        return (sorted_compact(document, "") + "\n").encode("utf-8")
    text = _record(formats.of_version(version), document, "", orders_of(document))
    return (text + "\n").encode("utf-8")


def sorted_compact(value: Any, path: str) -> str:
    """A document in the canonical form of RFC 8785: keys in the order of their UTF-16 units, shortest numbers."""
    if isinstance(value, Mapping):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{quote(key)}:{sorted_compact(value[key], _join(path, key))}" for key in keys) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(sorted_compact(item, f"{path}[{i}]") for i, item in enumerate(value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        raise EmissionError(f"{path}: {value} is not a number that a receipt can carry")
    return compact(value)


def _write(  # noqa: C901, PLR0912 - one case a kind
    kind: Kind, value: Any, path: str, orders: Mapping[str, list[str]]
) -> str:
    match kind:
        case Number():
            return _number(value, path)
        case Text():
            if not isinstance(value, str):
                raise _wrong(path, "a string", value)
            return quote(value)
        case Record():
            return _record(kind, value, path, orders)
        case Many():
            if not isinstance(value, list):
                raise _wrong(path, "a list", value)
            items = (_write(kind.items, item, f"{path}[{i}]", orders) for i, item in enumerate(value))
            return f"[{','.join(items)}]"
        case Map():
            return "{" + ",".join(_entries(kind.values, value, path, orders[kind.order], orders)) + "}"
        case Whole():
            if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
                raise _wrong(path, "an integer", value)
            return str(int(value))
        case Flag():
            if not isinstance(value, bool):
                raise _wrong(path, "true or false", value)
            return "true" if value else "false"
        case OneOf():
            return _write(_chosen(kind, value), value, path, orders)
        case Anything():
            return _record(Record(kind.fields), value, path, orders)


def _record(kind: Record, value: Any, path: str, orders: Mapping[str, list[str]]) -> str:
    if not isinstance(value, Mapping):
        raise _wrong(path, "an object", value)
    parts = [_pair(field.name, field.kind, value, path, orders) for field in kind.fields if _is_written(field, value)]
    if kind.rest is not None and kind.order is not None:
        nested = value.get("units")
        held = {**value, **nested} if isinstance(nested, Mapping) else value
        parts += _entries(kind.rest, held, path, orders[kind.order], orders)
    return "{" + ",".join(parts) + "}"


def _entries(kind: Kind, value: Any, path: str, keys: list[str], orders: Mapping[str, list[str]]) -> list[str]:
    if not isinstance(value, Mapping):
        raise _wrong(path, "an object", value)
    return [_pair(key, kind, value, path, orders) for key in keys]


def _pair(key: str, kind: Kind, held: Mapping[str, Any], path: str, orders: Mapping[str, list[str]]) -> str:
    if key not in held:
        raise EmissionError(f"{_join(path, key)} is missing; canonical bytes cannot be written without it")
    return f"{quote(key)}:{_write(kind, held[key], _join(path, key), orders)}"


def _is_written(field: Field, value: Mapping[str, Any]) -> bool:
    match field.emitted:
        case "always":
            return True
        case "never":
            return False
        case "if true":
            return value.get(field.name) is True
        case "if not zero":
            return bool(value.get(field.name, 0) != 0)
        case "if present":
            # Samples without a batch have no order, so the format does not write them.
            return field.name in value and (field.name != "per_sample" or "batch" in value or "per_output" in value)


def _number(value: Any, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(path, "a number", value)
    try:
        return canonical_number(value)
    except NumberRangeError as error:
        raise EmissionError(f"{path}: {error}") from error


def _chosen(kind: OneOf, value: Any) -> Kind:
    """The option whose keys are the value's, else the one of its JSON type."""
    for option in kind.options:
        if isinstance(option, Record) == isinstance(value, Mapping) and (
            not isinstance(option, Record) or {field.name for field in option.fields} == set(value)
        ):
            return option
    return kind.options[0]


def _wrong(path: str, expected: str, value: Any) -> EmissionError:
    return EmissionError(f"{path or 'the receipt'} must be {expected}, not {type(value).__name__}")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key

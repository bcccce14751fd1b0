"""Validation against a format: every deviation with its place, its keyword and what was expected there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from backproof.errors import InputError
from backproof.receipt import formats
from backproof.receipt.json_text import compact
from backproof.receipt.kinds import (
    Anything,
    Field,
    Flag,
    Kind,
    Many,
    Map,
    Number,
    OneOf,
    Record,
    Requires,
    Text,
    When,
    Whole,
    accepts_type,
)
from backproof.receipt.numbers import js_number

_TYPE = {Text: "string", Number: "number", Whole: "integer", Flag: "boolean", Many: "array"}
FALLBACK_VERSION = "0.2.0"  # the format that a receipt of unknown version is judged against


class Deviation(NamedTuple):
    """One place where a document leaves its format; `path` and `rule` are JSON pointers."""

    path: str
    rule: str
    keyword: str
    message: str
    params: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The error object of the JSON envelopes."""
        return {
            "instancePath": self.path,
            "schemaPath": self.rule,
            "keyword": self.keyword,
            "message": self.message,
            "params": self.params,
        }

    def describe(self) -> str:
        """The deviation in one line."""
        return f"{self.path or '(root)'}: {self.message}"


def deviations(document: Any, kind: Kind) -> list[Deviation]:
    """All deviations of a document from a kind, in the order in which they are met."""
    return list(_walk(kind, document, "", "#"))


def receipt_deviations(document: Any) -> list[Deviation]:
    """The deviations of a receipt from the format that its schema_version names."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version in formats.RECEIPT_VERSIONS:
        return deviations(document, formats.of_version(version))
    found = deviations(document, formats.of_version(FALLBACK_VERSION))
    if not isinstance(version, str):
        return found
    unknown = Deviation(
        "/schema_version",
        "#/properties/schema_version",
        "schema_version",
        f"unknown schema_version {version!r}; known are {', '.join(formats.RECEIPT_VERSIONS)}",
        {
            "unknownSchemaVersion": version,
            "knownVersions": list(formats.RECEIPT_VERSIONS),
            "dispatchedTo": FALLBACK_VERSION,
        },
    )
    return [unknown, *found]


def sidecar_deviations(document: Any) -> list[Deviation]:
    """The deviations of a sidecar from the format that it names (the first one, if it names none)."""
    name = document.get("format") if isinstance(document, dict) else None
    known = name in formats.SIDECAR_FORMATS
    return deviations(document, formats.named(name if known else formats.SIDECAR_FORMATS[0]))


def refuse(found: list[Deviation], where: str, what: str) -> None:
    """Raise if there is a deviation; the message lists the first few."""
    if not found:
        return
    shown = "\n".join(f"  {deviation.describe()}" for deviation in found[:5])
    more = f"\n  and {len(found) - 5} more" if len(found) > 5 else ""
    raise InputError(f"{where}: not a valid {what}\n{shown}{more}")


def _walk(kind: Kind, value: Any, path: str, rule: str) -> Iterator[Deviation]:
    if isinstance(kind, OneOf):
        yield from _one_of(kind, value, path, rule)
    elif not accepts_type(kind, value):
        name = _TYPE.get(type(kind), "object")
        yield Deviation(path, f"{rule}/type", "type", f"must be {name}", {"type": name})
    else:
        match kind:
            case Text():
                yield from _text(kind, value, path, rule)
            case Number() | Whole():
                yield from _number(kind, value, path, rule)
            case Flag():
                yield from _const(kind.const, value, path, rule)
            case Many():
                yield from _many(kind, value, path, rule)
            case Map():
                yield from _map(kind, value, path, rule)
            case Record():
                yield from _record(kind, value, path, rule)
            case Anything():
                return


def _one_of(kind: OneOf, value: Any, path: str, rule: str) -> Iterator[Deviation]:
    inner = [list(_walk(option, value, path, f"{rule}/oneOf/{i}")) for i, option in enumerate(kind.options)]
    if sum(not found for found in inner) == 1:
        return
    for found in inner:
        yield from found
    message = "must match exactly one schema in oneOf"
    yield Deviation(path, f"{rule}/oneOf", "oneOf", message, {"passingSchemas": None})


def _const(const: Any, value: Any, path: str, rule: str) -> Iterator[Deviation]:
    if const is not None and value != const:
        yield Deviation(path, f"{rule}/const", "const", "must be equal to constant", {"allowedValue": const})


def _text(kind: Text, value: str, path: str, rule: str) -> Iterator[Deviation]:
    yield from _const(kind.const, value, path, rule)
    if kind.among and value not in kind.among:
        allowed = {"allowedValues": list(kind.among)}
        yield Deviation(path, f"{rule}/enum", "enum", "must be equal to one of the allowed values", allowed)
    if len(value) < kind.least:
        message = f"must NOT have fewer than {kind.least} characters"
        yield Deviation(path, f"{rule}/minLength", "minLength", message, {"limit": kind.least})
    # `$` of a JSON Schema is the end of the text, never before a final line feed.
    if kind.pattern is not None and not re.search(kind.pattern.replace("$", r"\Z"), value, re.ASCII):
        message = f'must match pattern "{kind.pattern}"'
        yield Deviation(path, f"{rule}/pattern", "pattern", message, {"pattern": kind.pattern})


def _number(kind: Number | Whole, value: float, path: str, rule: str) -> Iterator[Deviation]:
    yield from _const(kind.const, value, path, rule)
    above = kind.above if isinstance(kind, Number) else None
    below = kind.below if isinstance(kind, Number) else None
    for limit, sign, keyword, fails in (
        (kind.most, "<=", "maximum", kind.most is not None and value > kind.most),
        (kind.least, ">=", "minimum", kind.least is not None and value < kind.least),
        (below, "<", "exclusiveMaximum", below is not None and value >= below),
        (above, ">", "exclusiveMinimum", above is not None and value <= above),
    ):
        if fails and limit is not None:
            params = {"comparison": sign, "limit": limit}
            yield Deviation(path, f"{rule}/{keyword}", keyword, f"must be {sign} {js_number(limit)}", params)


def _many(kind: Many, value: list[Any], path: str, rule: str) -> Iterator[Deviation]:
    if kind.most is not None and len(value) > kind.most:
        message = f"must NOT have more than {kind.most} items"
        yield Deviation(path, f"{rule}/maxItems", "maxItems", message, {"limit": kind.most})
    if len(value) < kind.least:
        message = f"must NOT have fewer than {kind.least} items"
        yield Deviation(path, f"{rule}/minItems", "minItems", message, {"limit": kind.least})
    if kind.unique:
        yield from _unique(value, path, rule)
    for i, item in enumerate(value):
        yield from _walk(kind.items, item, f"{path}/{i}", f"{rule}/items")


def _unique(value: list[Any], path: str, rule: str) -> Iterator[Deviation]:
    seen: dict[str, int] = {}
    for i, item in enumerate(value):
        key = compact(item)
        if key in seen:
            message = f"must NOT have duplicate items (items ## {i} and {seen[key]} are identical)"
            yield Deviation(path, f"{rule}/uniqueItems", "uniqueItems", message, {"i": i, "j": seen[key]})
            return
        seen[key] = i


def _map(kind: Map, value: dict[str, Any], path: str, rule: str) -> Iterator[Deviation]:
    if kind.most is not None and len(value) > kind.most:
        message = f"must NOT have more than {kind.most} properties"
        yield Deviation(path, f"{rule}/maxProperties", "maxProperties", message, {"limit": kind.most})
    for key, item in value.items():
        yield from _walk(kind.values, item, f"{path}/{_escape(key)}", f"{rule}/additionalProperties")


def _record(kind: Record, value: dict[str, Any], path: str, rule: str) -> Iterator[Deviation]:
    for i, condition in enumerate(kind.conditions):
        yield from _condition(condition, value, path, f"{rule}/allOf/{i}")
    for field in kind.fields:
        if field.needed and field.name not in value:
            yield _missing(field.name, path, rule)
    known = {field.name: field for field in kind.fields}
    for key, item in value.items():
        if key in known:
            continue
        if kind.rest is None:
            message = "must NOT have additional properties"
            params = {"additionalProperty": key}
            yield Deviation(path, f"{rule}/additionalProperties", "additionalProperties", message, params)
        else:
            yield from _walk(kind.rest, item, f"{path}/{_escape(key)}", f"{rule}/additionalProperties")
    for field in kind.fields:
        if field.name in value:
            yield from _field(field, value[field.name], path, rule)


def _field(field: Field, value: Any, path: str, rule: str) -> Iterator[Deviation]:
    yield from _walk(field.kind, value, f"{path}/{_escape(field.name)}", f"{rule}/properties/{field.name}")


def _missing(key: str, path: str, rule: str) -> Deviation:
    message = f"must have required property '{key}'"
    return Deviation(path, f"{rule}/required", "required", message, {"missingProperty": key})


def _condition(  # noqa: C901 - a condition has five clauses
    condition: When | Requires, value: dict[str, Any], path: str, rule: str
) -> Iterator[Deviation]:
    if isinstance(condition, Requires):
        if condition.key in value and condition.other not in value:
            yield _missing(condition.other, path, f"{rule}/anyOf/1")
        return
    if not _holds(condition, value):
        return
    inside = value
    for key in condition.inside:
        inside = inside[key] if isinstance(inside, dict) else {}
    where = path + "".join(f"/{key}" for key in condition.inside)
    rule = f"{rule}/then" + "".join(f"/properties/{key}" for key in condition.inside)
    for key in condition.needs:
        if key not in inside:
            yield _missing(key, where, rule)
    for key in condition.forbids:
        if key in inside:
            yield Deviation(where, f"{rule}/not", "not", f"must NOT be valid: it has '{key}'", {})
    for key, kind in condition.narrows:
        if key in inside:
            yield from _walk(kind, inside[key], f"{where}/{key}", f"{rule}/properties/{key}")


def _holds(condition: When, value: dict[str, Any]) -> bool:
    found = _at(value, condition.path)
    # `in` would take 1 for true.
    if not any(type(found) is type(option) and found == option for option in condition.values):
        return False
    return condition.unless is None or _at(value, condition.unless[0]) != condition.unless[1]


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")

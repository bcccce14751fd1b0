"""A JSON Schema (draft 2020-12) of every format, generated from its description: `bp schema NAME`."""

from __future__ import annotations

from typing import Any

from backproof.receipt import formats
from backproof.receipt.kinds import (
    Anything,
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
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema of the format of that name."""
    return {"$schema": DIALECT, "title": name, **_of(formats.named(name))}


def _of(kind: Kind) -> dict[str, Any]:
    match kind:
        case Text():
            pairs = {"const": kind.const, "pattern": kind.pattern, "minLength": kind.least or None}
            return {"type": "string"} | ({"enum": list(kind.among)} if kind.among else {}) | _given(pairs)
        case Number():
            limits = {"exclusiveMinimum": kind.above, "exclusiveMaximum": kind.below}
            return {"type": "number"} | _given(
                {"const": kind.const, "minimum": kind.least, "maximum": kind.most} | limits
            )
        case Whole():
            limits = {"const": kind.const, "minimum": kind.least, "maximum": kind.most}
            return {"type": "integer"} | _given(limits)
        case Flag():
            return {"type": "boolean"} | _given({"const": kind.const})
        case Many():
            limits = {
                "minItems": kind.least or None,
                "maxItems": kind.most,
                "uniqueItems": kind.unique or None,
            }
            return {"type": "array", "items": _of(kind.items)} | _given(limits)
        case Map():
            return {"type": "object", "additionalProperties": _of(kind.values)} | _given({"maxProperties": kind.most})
        case OneOf():
            return {"oneOf": [_of(option) for option in kind.options]}
        case Anything():
            return {"type": "object"}
        case Record():
            return _record(kind)


def _record(kind: Record) -> dict[str, Any]:
    return {
        "type": "object",
        **({"allOf": [_condition(condition) for condition in kind.conditions]} if kind.conditions else {}),
        "required": [field.name for field in kind.fields if field.needed],
        "additionalProperties": False if kind.rest is None else _of(kind.rest),
        "properties": {field.name: _of(field.kind) for field in kind.fields},
    }


def _condition(condition: When | Requires) -> dict[str, Any]:
    if isinstance(condition, Requires):
        return {"anyOf": [{"not": {"required": [condition.key]}}, {"required": [condition.other]}]}
    given = _inside(condition.path, {"enum": list(condition.values)}, needed=True)
    if condition.unless is not None:
        path, value = condition.unless
        given = {"allOf": [given, {"not": _inside(path, {"const": value}, needed=True)}]}
    then: dict[str, Any] = {}
    if condition.needs:
        then["required"] = list(condition.needs)
    if condition.forbids:
        then["not"] = {"anyOf": [{"required": [key]} for key in condition.forbids]}
    if condition.narrows:
        then["properties"] = {key: _of(kind) for key, kind in condition.narrows}
    return {"if": given, "then": _inside(condition.inside, then, needed=False)}


def _inside(path: tuple[str, ...], schema: dict[str, Any], *, needed: bool) -> dict[str, Any]:
    for key in reversed(path):
        schema = {"type": "object", "properties": {key: schema}} | ({"required": [key]} if needed else {})
    return schema


def _given(pairs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pairs.items() if value is not None}

"""The small language in which every format is described once.

A kind says what a value may be. From one description come the validation, the JSON Schema, the order of
emission and the columns of a bundle; there is no second list.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, TypeAlias

Emission: TypeAlias = Literal["always", "if present", "if true", "if not zero", "never"]


class Text(NamedTuple):
    """A string: any, one of some, or one that matches a pattern."""

    pattern: str | None = None
    among: tuple[str, ...] = ()
    const: str | None = None
    least: int = 0


class Number(NamedTuple):
    """A finite number within bounds; `above` and `below` exclude their end."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    const: float | None = None


class Whole(NamedTuple):
    """An integer within bounds; 1.0 is one."""

    least: int | None = None
    most: int | None = None
    const: int | None = None


class Flag(NamedTuple):
    """true or false."""

    const: bool | None = None


class Field(NamedTuple):
    """One key of a record, whether it must be there, and when it is written."""

    name: str
    kind: Kind
    needed: bool = True
    emitted: Emission = "always"


class When(NamedTuple):
    """If what stands at `path` is among `values`, the record at `inside` needs, forbids or narrows keys."""

    path: tuple[str, ...]
    values: tuple[str | bool, ...]
    inside: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    narrows: tuple[tuple[str, Kind], ...] = ()
    unless: tuple[tuple[str, ...], str] | None = None


class Requires(NamedTuple):
    """If one key is there, so must be another."""

    key: str
    other: str


class Record(NamedTuple):
    """An object of named keys. `rest` is the kind of every other key; without it there is no other key."""

    fields: tuple[Field, ...]
    conditions: tuple[When | Requires, ...] = ()
    rest: Kind | None = None
    order: str | None = None  # governs the emission of the other keys

    def field(self, name: str) -> Field | None:
        """The field of that name, if the record has it."""
        return next((field for field in self.fields if field.name == name), None)


class Map(NamedTuple):
    """An object whose keys are ids; `order` names the list in the receipt that governs them."""

    values: Kind
    order: str
    most: int | None = None


class Many(NamedTuple):
    """A list."""

    items: Kind
    least: int = 0
    most: int | None = None
    unique: bool = False


class OneOf(NamedTuple):
    """Exactly one of some kinds."""

    options: tuple[Kind, ...]


class Anything(NamedTuple):
    """An object of which the format says nothing but the keys that are written."""

    fields: tuple[Field, ...]


Kind: TypeAlias = Text | Number | Whole | Flag | Record | Map | Many | OneOf | Anything


def accepts_type(kind: Kind, value: Any) -> bool:
    """Whether the JSON type alone fits."""
    match kind:
        case Text():
            return isinstance(value, str)
        case Number():
            return _is_finite(value)
        case Whole():
            return _is_finite(value) and value == int(value)
        case Flag():
            return isinstance(value, bool)
        case Many():
            return isinstance(value, list)
        case OneOf():
            return any(accepts_type(option, value) for option in kind.options)
        case _:
            return isinstance(value, dict)


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

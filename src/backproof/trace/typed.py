"""A dataclass or a typed dictionary out of its JSON: every key is one that it has, every value of the type that it says."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from backproof.errors import InputError

SAYS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "null",
}


def built(kind: Any, data: Any, place: str) -> Any:
    """What this object of JSON stands for; an error names the place of what does not belong there."""
    if not isinstance(data, dict):
        raise _misfit(place, data, "an object")
    known = _fields(kind)
    for key in data:
        if key not in known:
            raise InputError(f"{place}: {str(key)[:60]!r} is no key of it; there are {', '.join(known)}")
    given = {}
    for name, (hint, needed) in known.items():
        if name in data:
            given[name] = fitted(hint, data[name], f"{place}.{name}")
        elif needed:
            raise InputError(f"{place}: {name!r} is missing")
    return kind(**given)


@cache
def _fields(kind: Any) -> Mapping[str, tuple[Any, bool]]:
    """By name: the type, and whether there is no default."""
    hints = get_type_hints(kind)
    if is_typeddict(kind):
        return {name: (hint, name in kind.__required_keys__) for name, hint in hints.items()}
    return {
        each.name: (hints[each.name], each.default is MISSING and each.default_factory is MISSING)
        for each in fields(kind)
    }


def fitted(hint: Any, data: Any, place: str) -> Any:
    """What JSON gave, as a value of a type; an error where it is of another."""
    if hint is Any:
        return data
    if is_dataclass(hint) or is_typeddict(hint):
        return built(hint, data, place)
    outer: Any = get_origin(hint)
    if outer in (Union, types.UnionType):
        return _one_of(get_args(hint), data, place)
    if outer in CONTAINERS:
        return CONTAINERS[outer](get_args(hint), data, place)
    if type(data) is hint or (hint is float and type(data) is int):
        return data
    raise _misfit(place, data, SAYS[hint])


def _one_of(hints: tuple[Any, ...], data: Any, place: str) -> Any:
    """The kinds of JSON are told apart by themselves: at most one of them is not `None`."""
    (hint,) = (each for each in hints if each is not type(None))
    return None if data is None and len(hints) > 1 else fitted(hint, data, place)


def _items(hint: Any, data: Any, place: str) -> Iterator[Any]:
    if not isinstance(data, list):
        raise _misfit(place, data, "an array")
    return (fitted(hint, item, f"{place}[{i}]") for i, item in enumerate(data))


def _table(hints: tuple[Any, ...], data: Any, place: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _misfit(place, data, "an object")
    return {key: fitted(hints[1], item, f"{place}.{str(key)[:60]}") for key, item in data.items()}


CONTAINERS: dict[Any, Callable[[tuple[Any, ...], Any, str], Any]] = {
    list: lambda hints, data, place: list(_items(hints[0], data, place)),
    tuple: lambda hints, data, place: tuple(_items(hints[0], data, place)),
    dict: _table,
}


def _misfit(place: str, data: Any, wanted: str) -> InputError:
    return InputError(f"{place}: said {str(data)[:60]!r}, where {wanted} belongs")

"""Changes to documents: the ones that rules name, and every possible one."""

from __future__ import annotations

import copy
import json


def at(value, path):
    """What stands at a path."""
    for key in path:
        value = value[key]
    return value


def mutated(documents, mutation):
    """Documents with one mutation of a rule applied; a path that begins with a number names the record."""
    documents = copy.deepcopy(documents)
    path = mutation.path.split(".")
    record = int(path.pop(0)) if path[0].isdigit() else 0
    held = documents[record]
    for key in path[:-1]:
        held = held[_key(held, key)]
    last = (
        path[-1]
        if mutation.change.startswith("set:") and isinstance(held, dict) and path[-1] != "*"
        else _key(held, path[-1])
    )
    _change(held, last, mutation.change)
    return documents


def _key(held, key):
    if isinstance(held, list):
        return int(key)
    return next(iter(held)) if key == "*" else key


def _change(held, key, change):
    if change == "drop":
        del held[key]
    elif change == "repeat":
        held.insert(key, copy.deepcopy(held[key]))
    elif change.startswith("set:"):
        held[key] = json.loads(change[4:])
    else:
        value = held[key]
        held[key] = {"negate": -value, "zero": 0.0, "double": 2 * value, "nudge": value * 1.001 if value else 0.001}[
            change
        ]


def walk(value, path=()):
    """Every value in a document with its path."""
    yield path, value
    if isinstance(value, dict):
        for key in value:
            yield from walk(value[key], (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from walk(item, (*path, i))


def every_change(document):
    """(kind, path, changed document) for every leaf, key and entry."""
    for path, value in list(walk(document)):
        for kind in _kinds(path, value):
            changed = copy.deepcopy(document)
            _apply(changed, kind, path)
            yield kind, path, changed


def _kinds(path, value):
    if isinstance(value, dict):
        yield "add"
    if not path:
        return
    yield "drop"
    if isinstance(path[-1], int):
        yield "repeat"
    if not isinstance(value, dict | list):
        yield "null"
    if isinstance(value, bool):
        yield "flip"
    elif isinstance(value, int | float):
        yield "nudge"
        if value:
            yield "negate"
            yield "zero"
    elif isinstance(value, str):
        yield "text"


def _apply(document, kind, path):
    if kind == "add":
        held = at(document, path)
        held["ghost"] = copy.deepcopy(next(iter(held.values()), 1))
        return
    held, key = at(document, path[:-1]), path[-1]
    if kind == "flip":
        held[key] = not held[key]
    elif kind == "null":
        held[key] = None
    elif kind == "text":
        held[key] += "x"
    else:
        _change(held, key, kind)

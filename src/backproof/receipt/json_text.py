"""JSON text written as JavaScript writes it: strings, numbers, compact and indented documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any

from backproof.receipt.numbers import js_number

_SURROGATE = re.compile("[\ud800-\udfff]")


def quote(text: str) -> str:
    """A string in JSON: the quote, the backslash, control characters, lone surrogates are escaped."""
    quoted: str = encode_basestring(text)
    if quoted.isascii():
        return quoted
    return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)


def compact(value: Any) -> str:
    """A document on one line, as JSON.stringify writes it; NaN and infinities become null."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{quote(str(key))}:{compact(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(compact, value)) + "]"
    return _scalar(value)


def pieces(value: Any) -> Iterator[str]:
    """The text of `compact` bit by bit; an iterator anywhere in nested objects is a list that is never held whole."""
    if isinstance(value, Mapping):
        for i, (key, item) in enumerate(value.items()):
            yield f"{',' if i else '{'}{quote(str(key))}:"
            yield from pieces(item)
        yield "}" if value else "{}"
    elif isinstance(value, Iterator):
        yield "["
        for i, item in enumerate(value):
            yield f"{',' if i else ''}{compact(item)}"
        yield "]"
    else:
        yield compact(value)


def indented(value: Any, indent: str = "") -> str:
    """A document with two spaces for each level, as JSON.stringify(value, null, 2) writes it."""
    deeper = indent + "  "
    if isinstance(value, Mapping) and value:
        rows = (f"{deeper}{quote(str(key))}: {indented(item, deeper)}" for key, item in value.items())
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list | tuple) and value:
        return "[\n" + ",\n".join(deeper + indented(item, deeper) for item in value) + f"\n{indent}]"
    return compact(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = js_number(value)
    return "null" if text in {"NaN", "Infinity", "-Infinity"} else text

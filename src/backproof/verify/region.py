"""A call as a region: the graph that is its mathematics, with what it reads as leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from backproof.errors import BackproofError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph
from backproof.ir.types import Type
from backproof.lowering import LOWERINGS, canonical
from backproof.trace.step import Call, Value

# Arguments that say where numbers lie and how, and nothing of what they are.
WHERE_AND_HOW = ("device", "memory_format", "layout")
KINDS = {"bool": "bool", **dict.fromkeys(("int64", "int32", "int16", "int8", "uint8"), "int")}


@dataclass(frozen=True)
class Region:
    """A call as a graph: its leaves are the values it reads."""

    graph: Graph
    reads: tuple[int, ...]
    """Positions, among the values of a call, of the leaves."""


class Unlowered(Exception):  # noqa: N818 # not an error: something that is said in the verdict
    """A call that has no mathematics here; the message says why."""


def region_of(call: Call, reads: tuple[int, ...], value: Callable[[int], Value]) -> Region:
    """The region of a call that reads these values, or Unlowered with the reason."""
    types = tuple(type_of(value(number)) for number in reads)
    outputs = tuple(type_of(value(number)) for number in call.outputs)
    lowering = LOWERINGS.get(canonical(call.op).removesuffix("_"))
    asked = {"format": value(call.outputs[0]).dtype} if lowering is not None and lowering.formatted else {}
    said = json.dumps([call.op, _renumber(call.args, reads), _named({**call.kwargs, **asked}, reads)], sort_keys=True)
    found = _lowered(said, types, outputs)
    if isinstance(found, str):
        raise Unlowered(found)
    return found


def with_witnesses(call: Call, stored: Callable[[int], bool]) -> Call:
    """The call with what it gave as one more argument, where its mathematics asks for that and it was recorded."""
    lowering = LOWERINGS.get(canonical(call.op).removesuffix("_"))
    if lowering is None or not lowering.witnessed or not all(map(stored, call.outputs)):
        return call
    return replace(call, kwargs={**call.kwargs, "seen": [{"value": output} for output in call.outputs]})


def type_of(value: Value) -> Type:
    return Type(KINDS.get(value.dtype, "real"), tuple(value.shape))  # type: ignore[arg-type] # a kind, by the table


def label(call: Call) -> str:
    return f"{call.place}: {call.op}" if call.place else call.op


def values_in(item: Any) -> Iterator[int]:
    if isinstance(item, dict):
        if set(item) == {"value"}:
            yield int(item["value"])
        else:
            for inner in item.values():
                yield from values_in(inner)
    elif isinstance(item, (list, tuple)):
        for inner in item:
            yield from values_in(inner)


def _renumber(item: Any, reads: tuple[int, ...]) -> Any:
    """Values by their place among what the call reads, so that equal calls of other values are one region."""
    if isinstance(item, dict):
        if set(item) == {"value"}:
            return {"value": reads.index(item["value"])}
        return {key: _renumber(inner, reads) for key, inner in item.items()}
    return [_renumber(inner, reads) for inner in item] if isinstance(item, (list, tuple)) else item


def _named(given: dict[str, Any], reads: tuple[int, ...]) -> dict[str, Any]:
    return {name: _renumber(item, reads) for name, item in given.items()}


def rewritten(
    call: Call, reads: tuple[int, ...], graph: Graph, function: Callable[..., Any] | None = None
) -> Graph | None:
    """The graph that a call would be with other arguments, or by another function, of the types of the graph that it is."""
    types = tuple(leaf.type for leaf in graph.leaves)
    wanted = tuple(graph.types[output] for output in graph.outputs)
    said = json.dumps([call.op, _renumber(call.args, reads), _named(call.kwargs, reads)], sort_keys=True)
    found = _lowered(said, types, wanted) if function is None else _written(function, False, said, types, wanted)
    return found.graph if isinstance(found, Region) else None


@cache
def _lowered(said: str, types: tuple[Type, ...], wanted: tuple[Type, ...]) -> Region | str:
    """The region of a call, or why there is none."""
    op = json.loads(said)[0]
    name = canonical(op).removesuffix("_") if not op.endswith("__") else canonical(op)
    if name not in LOWERINGS:
        return f"there is no lowering for {op}"
    return _written(LOWERINGS[name].function, LOWERINGS[name].sized, said, types, wanted)


def _written(
    function: Callable[..., Any], sized: bool, said: str, types: tuple[Type, ...], wanted: tuple[Type, ...]
) -> Region | str:
    """The graph that a function writes for a call, or why it cannot."""
    op, args, kwargs = json.loads(said)
    b = Builder()
    leaves = [b.leaf(kind) for kind in types]
    try:
        named = {key: _decode(item, leaves) for key, item in kwargs.items()}
        first = [named.pop("input")] if "input" in named else []
        if sized:
            named["results"] = wanted
        found = function(*first, *(_decode(item, leaves) for item in args), **named)
        results = [_as_kind(x, kind) for x, kind in zip(_flat(found), wanted, strict=True)]
        given = tuple(result.type for result in results)
        if given != wanted:
            return f"its mathematics gives {', '.join(map(str, given))}, and it gave {', '.join(map(str, wanted))}"
        return Region(b.graph(*results), tuple(range(len(types))))
    except (BackproofError, TypeError, ValueError, KeyError, AttributeError, NotImplementedError) as error:
        return f"{op} is not lowered in this form: {error or 'it is random'}"


def _flat(found: Any) -> list[Ref]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def _as_kind(x: Ref, kind: Type) -> Ref:
    """Arithmetic on integers is done with reals, exactly; its result is an integer again."""
    return x.builder.apply("cast", x, to=kind.kind) if x.type.kind != kind.kind else x


def _decode(item: Any, leaves: list[Ref]) -> Any:
    if isinstance(item, list):
        return [_decode(inner, leaves) for inner in item]
    if not isinstance(item, dict):
        return item
    match item:
        case {"value": place}:
            return leaves[place]
        case {"tuple": inner}:
            return tuple(_decode(part, leaves) for part in inner)
        case {"slice": [begin, end, step]}:
            return slice(begin, end, step)
        case {"ellipsis": _}:
            return Ellipsis
        case {"lies": lies}:
            return lies
        case {"float": text}:
            return float(text)
        case {"opaque": str(text)} if text.split(" ")[0] in WHERE_AND_HOW:
            return None
    raise ValueError(f"an argument that is not data: {item}")

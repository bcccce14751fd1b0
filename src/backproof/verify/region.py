"""A call as a region: the graph that is its mathematics, with what it reads as leaves."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any

from backproof.errors import BackproofError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph
from backproof.ir.types import Type
from backproof.lowering import LOWERINGS, PAIRED, canonical
from backproof.trace.step import Call, Value

# Arguments that say where numbers lie and how, and nothing of what they are.
WHERE_AND_HOW = ("device", "memory_format", "layout")
OTHERWISE = {"axis": "dim", "keepdims": "keepdim", "x1": "input", "x2": "other", "self": "input"}
"""Names that PyTorch takes from NumPy, in place of its own."""
SECOND = ("other", "mat2", "vec", "tensor", "vec2")
SIZES = ("size", "shape", "dims", "repeats", "sizes")
UNFIT = (LookupError, NotImplementedError, StopIteration, ZeroDivisionError, AssertionError)
"""What the mathematics of a function may stumble over when it is asked for in a form that it does not have."""
KINDS = {"bool": "bool", **dict.fromkeys(("int64", "int32", "int16", "int8", "uint8"), "int")}


@dataclass(frozen=True)
class Region:
    """A call as a graph: its leaves are the values it reads."""

    graph: Graph
    reads: tuple[int, ...]
    """Positions, among the values of a call, of the leaves."""

    def leaves_of(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """The values of the leaves."""
        return tuple(values[place] for place in self.reads)


class Unlowered(Exception):  # noqa: N818 # not an error: something that is said in the verdict
    """A call that has no mathematics here; the message says why."""


def region_of(call: Call, reads: tuple[int, ...], value: Callable[[int], Value]) -> Region:
    """The region of a call that reads these values, or Unlowered with the reason."""
    types = tuple(type_of(value(number)) for number in reads)
    outputs = tuple(type_of(value(number)) for number in call.outputs)
    lowering = LOWERINGS.get(canonical(call.op).removesuffix("_"))
    asked: dict[str, Any] = (
        {"format": value(call.outputs[0]).dtype} if lowering is not None and lowering.formatted else {}
    )
    lower = _in_pieces if lowering is not None and lowering.in_pieces else _lowered
    found = lower(_said(call, asked), types, outputs)
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
    op = call.op.removeprefix(PAIRED)
    return f"{call.place}: {op}" if call.place else op


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


def _said(call: Call, more: dict[str, Any] | None = None) -> str:
    """A call with values by their place among what it reads, so that equal calls of other values are one region."""
    places = count()
    args = [_renumber(item, places) for item in call.args]
    kwargs = {name: _renumber(item, places) for name, item in call.kwargs.items()}
    return json.dumps([call.op, args, {**kwargs, **(more or {})}])


def _renumber(item: Any, places: Iterator[int]) -> Any:
    if isinstance(item, dict):
        if set(item) == {"value"}:
            return {"value": next(places)}
        return {key: _renumber(inner, places) for key, inner in item.items()}
    return [_renumber(inner, places) for inner in item] if isinstance(item, (list, tuple)) else item


def rewritten(call: Call, graph: Graph, function: Callable[..., Any] | None = None) -> Graph | None:
    """The graph that a call would be with other arguments, or by another function, of the types of the graph that it is."""
    types = tuple(leaf.type for leaf in graph.leaves)
    wanted = tuple(graph.types[output] for output in graph.outputs)
    said = _said(call)
    found = _lowered(said, types, wanted) if function is None else _written(function, False, said, types, wanted)
    return found.graph if isinstance(found, Region) else None


@cache
def _lowered(said: str, types: tuple[Type, ...], wanted: tuple[Type, ...]) -> Region | str:
    """The region of a call, or why there is none."""
    op = json.loads(said)[0]
    name = canonical(op).removesuffix("_") if not op.endswith("__") else canonical(op)
    if name not in LOWERINGS:
        of = " of complex numbers" if op.startswith(PAIRED) else ""
        return f"there is no lowering for {op.removeprefix(PAIRED)}{of}"
    return _written(LOWERINGS[name].function, LOWERINGS[name].sized, said, types, wanted)


@cache
def _in_pieces(said: str, types: tuple[Type, ...], wanted: tuple[Type, ...]) -> Region | str:
    """The same with a leaf of its own for every use of an operand, so that what comes back to it is several contributions."""
    region = _lowered(said, types, wanted)
    if isinstance(region, str):
        return region
    b, graph, reads = Builder(), region.graph, list(region.reads)
    inputs = [b.leaf(leaf.type) for leaf in graph.leaves]
    used: set[int] = set()
    more: dict[tuple[int, int], Ref] = {}
    for at, node in enumerate(graph.nodes):
        for place, value in enumerate(node.arguments):
            if value < len(inputs) and graph.types[value].kind == "real":
                if value in used:
                    more[at, place] = b.leaf(graph.types[value])
                    reads.append(region.reads[value])
                used.add(value)
    values = list(inputs)
    for at, node in enumerate(graph.nodes):
        given = [more.get((at, place), values[value]) for place, value in enumerate(node.arguments)]
        values.append(b.apply(node.op, *given, name=node.name, **node.given))
    return Region(b.graph(*(values[output] for output in graph.outputs)), tuple(reads))


def _written(
    function: Callable[..., Any], sized: bool, said: str, types: tuple[Type, ...], wanted: tuple[Type, ...]
) -> Region | str:
    """The graph that a function writes for a call, or why it cannot."""
    op, args, kwargs = json.loads(said)
    b = Builder()
    leaves = [b.leaf(kind) for kind in types]
    try:
        named = {OTHERWISE.get(key, key): _decode(item, leaves) for key, item in kwargs.items()}
        if named.get("out", named) is None:  # there is no place to write to
            del named["out"]
        given = _placed(function, [_decode(item, leaves) for item in args], named)
        if sized:
            named["results"] = wanted
        found = function(*given, **named)
        results = [_as_kind(x, kind) for x, kind in zip(_flat(found), wanted, strict=True)]
        types = tuple(result.type for result in results)
        if types != wanted:
            return f"its mathematics gives {', '.join(map(str, types))}, and it gave {', '.join(map(str, wanted))}"
        return Region(b.graph(*results), tuple(range(len(leaves))))
    except (BackproofError, TypeError, ValueError, AttributeError, *UNFIT) as error:
        return f"{op} is not lowered in this form: {error or 'it is random'}"


def _placed(function: Callable[..., Any], given: list[Any], named: dict[str, Any]) -> list[Any]:
    """The arguments by place, with those that were given by a name for which the mathematics has none."""
    if not given and "input" in named:
        given = [named.pop("input")]
    has, several = _parameters(function)
    for name in SECOND if len(given) == 1 else ():
        if name in named and name not in has:
            given.append(named.pop(name))
    for name in SIZES if several and len(given) == 1 else ():
        if name in named and name not in has:
            given.append(named.pop(name))
    return given


@cache
def _parameters(function: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    """The names of a function's parameters, and whether it takes any number of arguments by place."""
    found = inspect.signature(function).parameters.values()
    several = [one.name for one in found if one.kind is one.VAR_POSITIONAL]
    return frozenset(one.name for one in found) - frozenset(several), bool(several)


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

"""A graph as text and as JSON, and back; and the digest that names it.

%0 x = leaf : real[2,3]
%1 w = leaf : real[3,4]
%2 = dot_general(%0, %1, contract=[[1], [0]], batch=[[], []]) : real[2,4]
%3 y = tanh(%2) : real[2,4]
output %3
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

from backproof.errors import GraphError, InputError, once
from backproof.ir.graph import Graph, Leaf, Node, freeze
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.tensor import Tensor
from backproof.ir.types import KINDS, Type

FORMAT = "backproof.graph.v1"
_MOST_DIGITS = 4300  # what Python reads by default

# ── parameters as JSON ──────────────────────────────────────────────────────────────────────────────────────────────


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {value.kind: [_plain(number) for number in value.array.ravel().tolist()], "shape": list(value.shape)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _unplain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_unplain(item) for item in value)
    if not isinstance(value, dict):
        return freeze(value)
    if set(value) == {"float"} and value["float"] in ("inf", "-inf", "nan"):
        return float(value["float"])
    kinds = [kind for kind in KINDS if kind in value]
    if len(kinds) != 1 or set(value) != {kinds[0], "shape"}:
        raise GraphError(f"not a parameter: {str(value)[:80]}")
    return _tensor(kinds[0], value[kinds[0]], value["shape"])


def _tensor(kind: str, numbers: Any, shape: Any) -> Tensor:
    import numpy as np

    if not isinstance(numbers, list) or not isinstance(shape, list):
        raise GraphError(f"a tensor is {{{kind!r}: [numbers], 'shape': [sizes]}}, all numbers in one list")
    given = Type(kind, tuple(shape))  # type: ignore[arg-type] # one of KINDS
    flat = [_unplain(number) for number in numbers]
    right = {"real": (int, float), "int": (int,), "bool": (bool,)}[kind]
    wrong = [n for n in flat if not isinstance(n, right) or (isinstance(n, bool) and kind != "bool")]
    if wrong:
        raise GraphError(f"a tensor of kind {kind} cannot hold {str(wrong[0])[:60]!r}")
    if len(flat) != given.size:
        raise GraphError(f"a tensor of shape {shape} with {len(flat)} numbers")
    try:
        array: np.ndarray[Any, Any] = np.array(
            flat, dtype={"real": np.float64, "int": np.int64, "bool": np.bool_}[kind]
        )
    except OverflowError:
        raise GraphError(f"a tensor of kind {kind} holds a number that is too large") from None
    return Tensor.of(array.reshape(given.shape))


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def to_json(graph: Graph) -> str:
    """The graph as JSON, one line per value, to be read by `from_json`."""
    leaves = [json.dumps({"type": str(leaf.type), "name": leaf.name}, ensure_ascii=False) for leaf in graph.leaves]
    nodes = [
        json.dumps(
            {
                "op": node.op,
                "arguments": list(node.arguments),
                "params": {key: _plain(value) for key, value in node.params},
                "name": node.name,
            },
            ensure_ascii=False,
        )
        for node in graph.nodes
    ]
    return (
        f'{{"format": "{FORMAT}",\n "leaves": [\n  '
        + ",\n  ".join(leaves)
        + '],\n "nodes": [\n  '
        + ",\n  ".join(nodes)
        + f'],\n "outputs": {list(graph.outputs)}}}\n'
    )


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a whole number of {len(digits)} digits; no size or index has more than {_MOST_DIGITS}")
    return int(digits)


def from_json(text: str | bytes) -> Graph:
    """The graph that `to_json` wrote; anything else is refused with the place and the reason."""
    try:
        return _graph(json.loads(text, parse_constant=_no_constant, parse_int=_whole_number, object_pairs_hook=once))
    except ValueError as error:
        raise InputError(f"not a graph in JSON: {error}") from None
    except RecursionError:
        raise InputError("not a graph in JSON: brackets within brackets, too deep to be a graph's") from None


def _graph(data: Any) -> Graph:
    expect = _Expect()
    expect.keys(data, "the graph", {"format", "leaves", "nodes", "outputs"})
    if data["format"] != FORMAT:
        raise InputError(f"format: said {data['format']!r}; this version reads {FORMAT!r}")
    leaves, nodes = [], []
    for i, leaf in enumerate(expect.list(data["leaves"], "leaves")):
        expect.keys(leaf, f"leaves[{i}]", {"type", "name"})
        leaves.append(
            Leaf(
                Type.parse(expect.text(leaf["type"], f"leaves[{i}].type")),
                expect.text(leaf["name"], f"leaves[{i}].name"),
            )
        )
    for i, node in enumerate(expect.list(data["nodes"], "nodes")):
        place = f"nodes[{i}]"
        expect.keys(node, place, {"op", "arguments", "params", "name"})
        if not isinstance(node["params"], dict):
            raise InputError(f"{place}.params: expected an object, found {type(node['params']).__name__}")
        op, name = expect.text(node["op"], f"{place}.op"), expect.text(node["name"], f"{place}.name")
        params = {key: _unplain(value) for key, value in node["params"].items()}
        order = PRIMITIVES[op].params if op in PRIMITIVES and params.keys() == {*PRIMITIVES[op].params} else params
        arguments = expect.integers(node["arguments"], f"{place}.arguments")
        nodes.append(Node(op, arguments, tuple((key, params[key]) for key in order), name))
    return Graph(tuple(leaves), tuple(nodes), expect.integers(data["outputs"], "outputs"))


class _Expect:
    """Checks on what came from outside, each with the place in its message."""

    def keys(self, value: Any, place: str, keys: set[str]) -> None:
        if not isinstance(value, dict):
            raise InputError(f"{place}: expected an object, found {type(value).__name__}")
        if set(value) != keys:
            raise InputError(f"{place}: expected the keys {sorted(keys)}, found {sorted(value)}")

    def list(self, value: Any, place: str) -> list[Any]:
        if not isinstance(value, list):
            raise InputError(f"{place}: expected a list, found {type(value).__name__}")
        return value

    def text(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise InputError(f"{place}: expected text, found {type(value).__name__}")
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise InputError(f"{place}: {value[:60]!r} is not text: it has half a character")
        return value

    def integers(self, value: Any, place: str) -> tuple[int, ...]:
        if not isinstance(value, list) or any(type(item) is not int for item in value):
            raise InputError(f"{place}: expected a list of whole numbers, found {str(value)[:60]}")
        return tuple(value)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_LINE = re.compile(r"%([0-9]{1,18})(?: (\S+))? = (\w+)(?:\((.*)\))? : (\S+)")
_OUTPUTS = re.compile(r"output((?: %[0-9]{1,18})*)")
_ITEM = re.compile(r"%([0-9]{1,18})|(\w+)=")
_NAME = re.compile(r"[^\s=%()\"][^\s=%()]*")


def to_text(graph: Graph) -> str:
    """The graph as lines that a person reads and `from_text` reads back."""
    lines = []
    for value, kind in enumerate(graph.types):
        node = graph.node(value)
        name = graph.leaves[value].name if node is None else node.name
        label = f"%{value} {_printable(name)}" if name else f"%{value}"
        if node is None:
            lines.append(f"{label} = leaf : {kind}")
            continue
        given = [f"%{argument}" for argument in node.arguments]
        given += [f"{key}={json.dumps(_plain(item), ensure_ascii=False)}" for key, item in node.params]
        lines.append(f"{label} = {node.op}({', '.join(given)}) : {kind}")
    lines.append(" ".join(["output", *(f"%{value}" for value in graph.outputs)]))
    return "\n".join(lines) + "\n"


def _printable(name: str) -> str:
    return (
        name
        if _NAME.fullmatch(name)
        else json.dumps(name).replace(" ", "\\u0020").replace("=", "\\u003d").replace("(", "\\u0028")
    )


def from_text(text: str) -> Graph:
    """The graph that `to_text` wrote."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    last = _OUTPUTS.fullmatch(lines[-1][1]) if lines else None
    if not lines:
        raise InputError("there is nothing in it; a graph is JSON or text, as backproof.ir.text writes it")
    if last is None:
        raise InputError("the text does not end with its line of outputs, 'output %0 %1'; it was cut short, or changed")
    outputs = tuple(int(found[1:]) for found in last[1].split())
    leaves: list[Leaf] = []
    nodes: list[Node] = []
    types: list[Type] = []
    for number, line in lines[:-1]:
        match = _LINE.fullmatch(line)
        if match is None or int(match[1]) != len(types):
            raise InputError(f"line {number}: expected '%{len(types)} = op(...) : type', found {line[:80]!r}")
        name = _read_name(number, match[2] or "")
        types.append(Type.parse(match[5]))
        if match[3] != "leaf":
            nodes.append(_read_node(number, match[3], match[4] or "", name))
        elif nodes:
            raise InputError(f"line {number}: a leaf after a node; all leaves come first")
        else:
            leaves.append(Leaf(types[-1], name))
    graph = Graph(tuple(leaves), tuple(nodes), outputs)
    for value, (said, found) in enumerate(zip(types, graph.types, strict=True)):
        if said != found:
            raise InputError(f"%{value}: said to be {said}, and is {found}")
    return graph


def _read_name(number: int, said: str) -> str:
    if not said.startswith('"'):
        return said
    try:
        return _Expect().text(json.loads(said), f"line {number}: name")
    except ValueError as error:
        raise InputError(f"line {number}: name {said[:60]}: {error}") from None


def _read_node(number: int, op: str, inside: str, name: str) -> Node:
    arguments: list[int] = []
    params: list[tuple[str, Any]] = []
    decoder, at = json.JSONDecoder(parse_constant=_no_constant), 0
    while at < len(inside):
        match = _ITEM.match(inside, at)
        if match is None:
            raise InputError(f"line {number}: cannot read {inside[at : at + 40]!r}")
        at = match.end()
        if match[1] is not None:
            arguments.append(int(match[1]))
        else:
            try:
                value, at = decoder.raw_decode(inside, at)
                params.append((match[2], _unplain(value)))
            except (ValueError, RecursionError) as error:
                raise InputError(f"line {number}: parameter {match[2]}: {error}") from None
        if at < len(inside):
            if not inside.startswith(", ", at) or at + 2 == len(inside):
                raise InputError(f"line {number}: expected ', ' and more, found {inside[at : at + 40]!r}")
            at += 2
    return Node(op, tuple(arguments), tuple(params), name)


# ── digest ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def digest(graph: Graph) -> str:
    """sha256 of the graph's canonical form. It does not depend on names, only on what is computed and how."""
    canonical = {
        "format": FORMAT,
        "leaves": [str(leaf.type) for leaf in graph.leaves],
        "nodes": [
            [node.op, list(node.arguments), {key: _plain(value) for key, value in node.params}] for node in graph.nodes
        ],
        "outputs": list(graph.outputs),
    }
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def read_graph(text: str) -> Graph:
    """A graph from either of its forms."""
    return from_json(text) if text.lstrip().startswith("{") else from_text(text)

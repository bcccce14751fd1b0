"""A graph, run in a domain: its values, and its tangents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backproof.engine.domain import Domain
from backproof.errors import DomainError
from backproof.ir.graph import Graph
from backproof.ir.primitive import Value


def evaluate(graph: Graph, D: Domain, leaves: Sequence[Any]) -> list[Value]:
    """Every value of the graph, leaves first."""
    if len(leaves) != len(graph.leaves):
        raise DomainError(f"the graph has {len(graph.leaves)} leaves, and got {len(leaves)} values")
    values: list[Value] = []
    for i, (leaf, given) in enumerate(zip(graph.leaves, leaves, strict=True)):
        try:
            values.append(D.value(given, leaf.type))
        except DomainError as error:
            raise DomainError(f"leaf {graph.name(i)}: {error}") from None
    with np.errstate(all="ignore"):  # infinities are values like others: who reads them judges them
        for node in graph.nodes:
            try:
                values.append(D.apply(node.primitive, *(values[a] for a in node.arguments), **node.given))
            except DomainError as error:
                raise DomainError(f"%{len(values)} {node.op}: {error}") from None
    return values


def pushforward(graph: Graph, D: Domain, values: Sequence[Value], tangents: Mapping[int, Value]) -> list[Value | None]:
    """The tangent of every value, given those of leaves; None where it is 0 because nothing arrives there."""
    found: list[Value | None] = [tangents.get(i) for i in range(len(graph.leaves))]
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        total = None
        if graph.types[value].kind == "real":
            x = tuple(values[a] for a in node.arguments)
            for i, a in enumerate(node.arguments):
                rule = node.primitive.push(i)
                if rule is None or found[a] is None or graph.types[a].kind != "real":
                    continue
                part = rule(D, x, values[value], found[a], **node.given)
                total = part if total is None else D.add(total, part)
        found.append(total)
    return found

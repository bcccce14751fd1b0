"""Backpropagation as a definition. The tape loop of a session is compared with this; it shares no code with it.

gradient(v) = seed(v) + Σ over every use of v, as input i of a node u:  vjpᵢ of u, applied to gradient(u)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from backproof.ir.graph import Graph
from backproof.ir.primitive import Value


def backprop(graph: Graph, D: Any, values: Sequence[Value], seeds: Mapping[int, Value]) -> list[Value | None]:
    """The gradient of every value, given the graph's values and the seeds; None where it is 0 because nothing leads there."""

    @cache
    def gradient(v: int) -> Value | None:
        total = seeds.get(v)
        for user, i in graph.consumers[v]:
            part = contribution(user, i)
            if part is not None:
                total = part if total is None else D.add(total, part)
        return total

    def contribution(u: int, i: int) -> Value | None:
        node = graph.node(u)
        assert node is not None  # only nodes use values
        rule = node.primitive.pull(i)
        if rule is None or graph.types[u].kind != "real" or graph.types[node.arguments[i]].kind != "real":
            return None
        upstream = gradient(u)
        if upstream is None:
            return None
        return rule(D, tuple(values[a] for a in node.arguments), values[u], upstream, **node.given)

    # From the last value down, so that the recursion finds what it needs already known and never goes deep.
    found = [gradient(v) for v in range(len(graph) - 1, -1, -1)]
    return found[::-1]


def differentiable(graph: Graph, frozen: Collection[int] = ()) -> frozenset[int]:
    """The values that depend on a leaf of reals which is not frozen, through uses that hand a gradient back."""
    known: set[int] = set()
    ahead = [leaf for leaf in graph.real_leaves if leaf not in frozen]
    while ahead:
        value = ahead.pop()
        if value in known:
            continue
        known.add(value)
        for user, i in graph.consumers[value]:
            node = graph.node(user)
            if node is not None and graph.types[user].kind == "real" and node.primitive.pull(i) is not None:
                ahead.append(user)
    return frozenset(known)

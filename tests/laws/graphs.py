"""Random graphs: leaves of every kind, then nodes that fit what is there; fan-out and unused values included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from points import GENERATORS, Draw, sample

from backproof.errors import GraphError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.types import Type, boolean, integer, real

# Functions that are smooth everywhere and grow slowly, so that difference quotients of deep graphs mean something.
SMOOTH = ("neg", "tanh", "sigmoid", "erf", "sin", "cos")
PAIRS = ("add", "sub", "mul")
NAMES = ("", "", "w", "h.0.attn", "a b", 'say "x"', "%9", "x=1(2)", "π", "line\nbreak", "\u2028", "leaf")


@st.composite
def anything(draw: Callable[..., Any]) -> Graph:
    """A graph in which every primitive may occur, with names of all sorts."""
    d, builder = Draw(draw), Builder()
    drawn = [(op, *GENERATORS[op](d)) for op in (d.pick(*PRIMITIVES) for _ in range(d.size(0, 5)))]
    refs = [[builder.leaf(kind, d.pick(*NAMES)) for kind in types] for _, types, _, _ in drawn]
    made: list[Ref] = [ref for row in refs for ref in row]
    for (op, _, params, _), row in zip(drawn, refs, strict=True):
        inputs = [d.pick(ref, *(other for other in made if other.type == ref.type)) for ref in row]
        try:
            made.append(builder.apply(op, *inputs, name=d.pick(*NAMES), **params))
        except GraphError:
            continue
    return builder.graph(*(d.pick(*made) for _ in range(d.size(0, 3)) if made))


@st.composite
def smooth(draw: Callable[..., Any]) -> tuple[Graph, list[Any]]:
    """A smooth graph with one number as output, and numbers for its leaves: some unused, some not real."""
    d, builder = Draw(draw), Builder()
    n = d.size(1, 3)
    types: list[Type] = [real(n, n), real(n), real(n, n), real(), integer(2), boolean(n, n)]
    leaves = [builder.leaf(kind) for kind in types]
    index, mask = leaves[4], leaves[5]
    pool = [leaves[0], leaves[2], builder.broadcast(leaves[1], shape=(n, n), axes=(d.size(0, 1),))]
    for _ in range(d.size(1, 8)):
        a, b = d.pick(*pool), d.pick(*pool)
        pool.append(_step(d, builder, a, b, index, mask, n))
    total = builder.sum(builder.mul(d.pick(*pool), d.pick(*pool)), axes=(0, 1))
    rng = np.random.default_rng(d.size(0, 2**16))
    domains = ("any", "any", "any", "any", ("index", n), "any")
    return builder.graph(total), [sample(rng, *given, "plain") for given in zip(types, domains, strict=True)]


def _step(d: Draw, builder: Builder, a: Ref, b: Ref, index: Ref, mask: Ref, n: int) -> Ref:
    match d.pick("pair", "smooth", "matmul", "where", "gather", "logsumexp", "stop", "transpose"):
        case "pair":
            return builder.apply(d.pick(*PAIRS), a, b)
        case "matmul":
            return builder.tanh(a @ b)
        case "where":
            return builder.where(mask, a, b)
        case "gather":
            rows = builder.gather(a, index, axis=0)
            return builder.scatter_add(index, rows, axis=0, size=n)
        case "logsumexp":
            return builder.broadcast(builder.logsumexp(a, axes=(1,)), shape=(n, n), axes=(0,))
        case "stop":
            return builder.mul(a, builder.stop_gradient(builder.constant(value=0.5, shape=(n, n))))
        case "transpose":
            return builder.transpose(a, axes=(1, 0))
        case _:
            return builder.apply(d.pick(*SMOOTH), a)

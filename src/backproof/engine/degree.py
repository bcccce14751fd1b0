"""The degrees of the polynomials that a graph computes, with every symbol as a variable: what bounds the error of identity testing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from backproof.engine.domain import Domain
from backproof.engine.evaluate import evaluate, pushforward
from backproof.ir.backprop import backprop
from backproof.ir.graph import Graph
from backproof.ir.primitive import Primitive
from backproof.ir.types import Shape, Type

# A symbol's value is a variable of its own, whatever its argument.
_SYMBOLS = frozenset(
    "exp log log1p expm1 sqrt rsqrt tanh sigmoid erf sin cos abs sign pow max min logsumexp argmax iota constant".split()
)
_PRODUCTS = frozenset({"mul", "dot_general", "conv"})


@dataclass(frozen=True, slots=True)
class Degree:
    """A value of which only the type and the total degree are known."""

    type: Type
    degree: int

    @property
    def shape(self) -> Shape:
        """The value's shape."""
        return self.type.shape


@final
class Degrees(Domain):
    """Formulas, run on degrees."""

    name = "degree"

    def value(self, given: Any, kind: Type) -> Degree:
        return given if isinstance(given, Degree) else Degree(kind, 1)

    def array(self, value: Degree) -> Any:
        return value.degree

    def apply(self, primitive: Primitive, *x: Degree, **params: Any) -> Degree:
        kind = primitive.shape(*(given.type for given in x), **params)
        degrees = [given.degree for given in x if given.type.kind == "real"]
        if primitive.name in _SYMBOLS or kind.kind != "real":
            return Degree(kind, 1)
        if primitive.name in _PRODUCTS:
            return Degree(kind, sum(degrees))
        if primitive.name == "div":
            return Degree(kind, degrees[0] + 1)
        if primitive.name == "prod":
            return Degree(kind, degrees[0] * max(1, x[0].type.size // max(1, kind.size)))
        return Degree(kind, max(degrees, default=1))


def of_backward(graph: Graph, out: int) -> int:
    """The largest degree in the identities of a backward pass and a forward-mode pass from `out`."""
    D = Degrees()
    values = evaluate(graph, D, [Degree(leaf.type, 1) for leaf in graph.leaves])
    gradients = backprop(graph, D, values, {out: Degree(graph.types[out], 1)})
    tangents = pushforward(graph, D, values, {leaf: Degree(graph.types[leaf], 1) for leaf in graph.real_leaves})
    highest = max((found.degree for found in gradients if found is not None), default=0)
    forward = tangents[out]
    return max(highest, 0 if forward is None else forward.degree) + 1

"""A graph: leaves, then nodes, each a primitive applied to earlier values. Frozen data, checked when made.

Values are numbered from 0: first the leaves in order, then the nodes in order. Nothing is ever renumbered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from backproof.errors import GraphError
from backproof.ir.primitive import Primitive
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.tensor import Tensor
from backproof.ir.types import Type


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value that is given from outside."""

    type: Type
    name: str = ""


@dataclass(frozen=True)
class Node:
    """A primitive applied to earlier values, with its static parameters in the primitive's order."""

    op: str
    arguments: tuple[int, ...]
    params: tuple[tuple[str, Any], ...] = ()
    name: str = ""

    @cached_property
    def given(self) -> dict[str, Any]:
        """The parameters, to call with."""
        return dict(self.params)

    @property
    def primitive(self) -> Primitive:
        """The record of the operation."""
        return PRIMITIVES[self.op]


@dataclass(frozen=True)
class Graph:
    """A whole computation."""

    leaves: tuple[Leaf, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.types) != len(self):  # computing the types is the check
            raise GraphError("a value has no type")
        for output in self.outputs:
            if not 0 <= output < len(self):
                raise GraphError(f"output %{output} does not exist; values go from %0 to %{len(self) - 1}")

    def __len__(self) -> int:
        return len(self.leaves) + len(self.nodes)

    @cached_property
    def types(self) -> tuple[Type, ...]:
        """The type of every value."""
        types = [leaf.type for leaf in self.leaves]
        for node in self.nodes:
            types.append(type_of(node, types))
        return tuple(types)

    def node(self, value: int) -> Node | None:
        """The node that makes this value; None for a leaf."""
        return None if value < len(self.leaves) else self.nodes[value - len(self.leaves)]

    def name(self, value: int) -> str:
        """What the user called this value, or its number."""
        node = self.node(value)
        return (self.leaves[value].name if node is None else node.name) or f"%{value}"

    @cached_property
    def real_leaves(self) -> tuple[int, ...]:
        """The leaves that have derivatives."""
        return tuple(i for i, leaf in enumerate(self.leaves) if leaf.type.kind == "real")

    @cached_property
    def consumers(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each value the (value, argument position) pairs that read it, last reader first."""
        readers: list[list[tuple[int, int]]] = [[] for _ in range(len(self))]
        for value in range(len(self) - 1, len(self.leaves) - 1, -1):
            for position, argument in enumerate(self.nodes[value - len(self.leaves)].arguments):
                readers[argument].append((value, position))
        return tuple(tuple(found) for found in readers)


def type_of(node: Node, types: Sequence[Type]) -> Type:
    """The type of a node's value, given those of all earlier values; or an error that says which node and what is wrong."""
    primitive = PRIMITIVES.get(node.op)
    place = f"value %{len(types)}" + (f" ({node.name})" if node.name else "")
    if primitive is None:
        raise GraphError(f"{place}: there is no primitive {node.op!r}; there are {', '.join(PRIMITIVES)}")
    for argument in node.arguments:
        if not 0 <= argument < len(types):
            raise GraphError(f"{place}: {node.op} reads %{argument}, which does not come before it")
    if primitive.arity is not None and len(node.arguments) != primitive.arity:
        raise GraphError(f"{place}: {node.op} takes {primitive.arity} inputs, and got {len(node.arguments)}")
    if tuple(key for key, _ in node.params) != primitive.params:
        raise GraphError(
            f"{place}: {node.op} takes the parameters ({', '.join(primitive.params)}), and got "
            f"({', '.join(key for key, _ in node.params)})"
        )
    try:
        for key, value in node.params:
            _require_static(key, value)
        return primitive.shape(*(types[argument] for argument in node.arguments), **node.given)
    except GraphError as error:
        raise GraphError(f"{place} = {node.op}: {error}") from None
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise GraphError(f"{place} = {node.op}: parameters {str(node.given)[:200]} do not fit: {error}") from None


def _require_static(name: str, value: Any) -> None:
    """Refuse a parameter of the wrong sort, wherever it comes from; whether it fits its operands is the shape rule's business."""
    if name == "value":
        right = isinstance(value, (bool, float, Tensor)) or _is_whole(value)
        wanted = "a number, a truth value or a tensor"
    elif name == "to":
        right, wanted = isinstance(value, str), "the name of a kind or a format"
    elif name in ("reverse", "descending"):
        right, wanted = isinstance(value, bool), "true or false"
    else:
        right, wanted = _all_whole(value), "made of whole numbers"
    if not right:
        raise GraphError(f"the parameter {name} is {str(value)[:60]!r}, and must be {wanted}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _all_whole(value: Any) -> bool:
    return all(map(_all_whole, value)) if isinstance(value, tuple) else _is_whole(value)


def freeze(value: Any) -> Any:
    """A static parameter as immutable data: lists become tuples, NumPy's numbers become Python's."""
    if isinstance(value, (bool, int, float, str, Tensor)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    raise GraphError(f"a parameter is made of numbers, text, tuples or tensors, not {type(value).__name__}")


def ordered(primitive: Primitive, params: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The parameters in the primitive's order; unknown and missing names are refused."""
    unknown = [name for name in params if name not in primitive.params]
    missing = [name for name in primitive.params if name not in params]
    if unknown or missing:
        raise GraphError(
            f"{primitive.name} takes the parameters ({', '.join(primitive.params)})"
            + (f"; unknown: {', '.join(unknown)}" if unknown else "")
            + (f"; missing: {', '.join(missing)}" if missing else "")
        )
    return tuple((name, freeze(params[name])) for name in primitive.params)

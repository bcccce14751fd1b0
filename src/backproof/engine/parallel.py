"""Which axes of a value are computed apart: no rounded intermediate result serves two places along them.

What is recorded is exact and may be shared; so the rows of a product, the rows of a layer norm and the channels of a batch norm are
computed apart, and the roundings that lead to one have no part in another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backproof.ir.graph import Graph, Node
from backproof.ir.rounding import Decides, Moves, Rounds
from backproof.ir.types import Shape


def axes_apart(graph: Graph, output: int) -> tuple[int, ...]:
    """The axes of an output along which nothing that is rounded is shared."""
    exact = _exact(graph)
    rank = len(graph.types[output].shape)
    return tuple(axis for axis in range(rank) if _apart(graph, output, axis, exact))


def _exact(graph: Graph) -> list[bool]:
    """Whether a value is known without rounding, given the leaves."""
    exact = [True] * len(graph.leaves)
    for node in graph.nodes:
        kind = node.primitive.rounding
        free = isinstance(kind, (Moves, Decides)) or (isinstance(kind, Rounds) and kind.ulps == 0 and not kind.absolute)
        exact.append((free or node.op in ("constant", "iota")) and all(exact[i] for i in node.arguments))
    return exact


def _apart(graph: Graph, output: int, axis: int, exact: list[bool]) -> bool:
    along = {output: axis}
    for value in range(output, len(graph.leaves) - 1, -1):
        if value not in along or exact[value]:
            continue
        node = graph.node(value)
        assert node is not None  # a leaf is exact
        shapes = [graph.types[i].shape for i in node.arguments]
        for position, argument in enumerate(node.arguments):
            if exact[argument]:
                continue
            found = _axis_of(node, position, shapes, graph.types[value].shape, along[value])
            if found is None or along.setdefault(argument, found) != found:
                return False
    return True


def _axis_of(node: Node, position: int, shapes: list[Shape], shape: Shape, axis: int) -> int | None:
    """The axis of an input that belongs to this axis of the output, place by place; None where there is none."""
    source = shapes[position]
    if node.op == "dot_general":
        return contracted(node.given, position, shapes, axis)
    if node.op in WINDOWS:
        return 0 if axis == 0 and position == 0 else None
    if node.op in RULES:
        return RULES[node.op](node.given, source, shape, axis)
    pointwise = node.op in POINTWISE or isinstance(node.primitive.rounding, (Rounds, Decides))
    return axis if pointwise and source == shape else None


def reshaped(source: Shape, shape: Shape, axis: int) -> int | None:
    """The axis that a reshape leaves as this axis: of the same size, with as many numbers before it."""
    before = math.prod(shape[:axis])
    for found, size in enumerate(source):
        if size == shape[axis] and math.prod(source[:found]) == before:
            return found
    return None


def contracted(given: dict[str, Any], position: int, shapes: list[Shape], axis: int) -> int | None:
    """Batch axes come first, then the free axes of the left, then of the right."""
    contract, batch = given["contract"], given["batch"]
    if axis < len(batch[0]):
        return int(batch[position][axis])
    free = [
        [i for i in range(len(shapes[side])) if i not in contract[side] and i not in batch[side]] for side in (0, 1)
    ]
    at = axis - len(batch[0])
    side = 0 if at < len(free[0]) else 1
    return free[side][at - side * len(free[0])] if side == position else None


def kept(given: dict[str, Any], source: Shape, shape: Shape, axis: int) -> int | None:
    """The axis that is this axis once others have been summed away."""
    return [i for i in range(len(source)) if i not in given["axes"]][axis]


def _untouched(given: dict[str, Any], source: Shape, shape: Shape, axis: int) -> int | None:
    return axis if source[axis] == shape[axis] and axis not in given.get("axes", (given.get("axis"),)) else None


Rule = Callable[[dict[str, Any], Shape, Shape, int], int | None]
RULES: dict[str, Rule] = {
    "broadcast": lambda given, _, __, axis: given["axes"].index(axis) if axis in given["axes"] else None,
    "reshape": lambda _, source, shape, axis: reshaped(source, shape, axis),
    "transpose": lambda given, _, __, axis: int(given["axes"][axis]),
    "argmax": lambda given, _, __, axis: axis if axis < given["axis"] else axis + 1,
    **dict.fromkeys(("sum", "max", "min", "prod", "logsumexp"), kept),
    **dict.fromkeys(("concat", "cumsum", "argsort", "topk", "flip", "slice", "pad"), _untouched),
}
"""By operation: (parameters, the input's shape, the output's, the output's axis) → the input's axis."""
POINTWISE = ("where", "cast", "stop_gradient")
WINDOWS = ("conv", "max_pool", "sum_pool", "pool_argmax")

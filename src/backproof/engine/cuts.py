"""How a value is cut: for each operation, which slab of each input a slab of its result is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backproof.engine.parallel import contracted, kept, reshaped
from backproof.ir.graph import Node
from backproof.ir.primitives.elementwise import ELEMENTWISE
from backproof.ir.tensor import Tensor
from backproof.ir.types import Shape

Axes = list[int | None] | None
"""By input, the axis along which it is cut like the result, or None if all of it is needed; None if the result cannot be cut."""
Given = dict[str, Any]


def axes_read(node: Node, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    """What a slab of a node's result along this axis reads."""
    if node.op in POINTWISE:
        return [axis] * len(sources)
    rule = RULES.get(node.op)
    return None if rule is None else rule(node.given, sources, shape, axis)


def resized(node: Node, axis: int, size: int) -> tuple[tuple[str, Any], ...]:
    """A node's parameters, for a slab of its result."""
    named = SIZED.get(node.op)
    if named is None:
        return node.params
    return tuple(
        (name, (*value[:axis], size, *value[axis + 1 :]) if name == named else value) for name, value in node.params
    )


def _broadcast(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    return [given["axes"].index(axis) if axis in given["axes"] else None]


def _reshape(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    found = reshaped(sources[0], shape, axis)
    return None if found is None else [found]


def _dot(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    return [contracted(given, side, list(sources), axis) for side in (0, 1)]


def _conv(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    if axis == 0:
        return [0, None]
    return [None, 0] if axis == 1 and given["groups"] == 1 else None


def _reduced(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    return [kept(given, sources[0], shape, axis)]


def _beside(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    """An axis that the operation leaves alone."""
    return None if axis in given.get("axes", (given.get("axis"),)) else [axis] * len(sources)


def _sliced(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    return [axis] if sources[0][axis] == shape[axis] else None  # all of it, from the first to the last


def _padded(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    plain = given["low"][axis] == given["high"][axis] == 0 and sources[0][axis] == shape[axis]
    return [axis] if plain else None


def _gathered(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    first, rank = given["axis"], len(sources[1])
    if axis < first:
        return [axis, None]
    return [None, axis - first] if axis < first + rank else [axis - rank + 1, None]


def _scattered(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    first, rank = given["axis"], len(sources[0])
    if axis == first:
        return None
    return [None, axis if axis < first else axis - 1 + rank]


def _gathered_along(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    return [None if axis == given["axis"] else axis, axis]


def _constant(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    return None if isinstance(given["value"], Tensor) else []


def _window(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    return [axis] if axis < 2 else None


def _argmax(given: Given, sources: Sequence[Shape], shape: Shape, axis: int) -> Axes:
    return [axis if axis < given["axis"] else axis + 1]


POINTWISE = frozenset((*(primitive.name for primitive in ELEMENTWISE), "cast", "stop_gradient"))
SIZED = {"broadcast": "shape", "reshape": "shape", "constant": "shape", "slice": "stop"}
"""The parameter that has the size of the result."""
RULES: dict[str, Callable[[Given, Sequence[Shape], Shape, int], Axes]] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": lambda given, _, __, axis: [given["axes"][axis]],
    "dot_general": _dot,
    "conv": _conv,
    **dict.fromkeys(("sum", "max", "min", "prod", "logsumexp"), _reduced),
    **dict.fromkeys(("concat", "cumsum", "argsort", "topk", "flip", "scatter_along"), _beside),
    "slice": _sliced,
    "pad": _padded,
    "gather": _gathered,
    "gather_along": _gathered_along,
    "scatter_add": _scattered,
    "constant": _constant,
    "argmax": _argmax,
    **dict.fromkeys(("max_pool", "sum_pool", "pool_argmax"), _window),
}
"""By operation: (parameters, the inputs' shapes, the result's, the result's axis) → what a slab of the result reads."""

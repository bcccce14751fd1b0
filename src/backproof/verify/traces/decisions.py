"""Discrete decisions in a layer: what each side decided, where they decided otherwise, and by what margin.

A decision is read off the numbers that a side recorded. Exact ties have no margin: there the gradient that was recorded tells which of
the equals was taken, for any of them is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.ir.graph import Graph, Node
from backproof.ir.primitives.window import POOL_ARGMAX, windows

Array = np.ndarray[Any, Any]
_KERNELS = NumPyKernels("float64")


@dataclass(frozen=True, slots=True)
class Turn:
    """One decision that two sides took otherwise."""

    op: str
    at: tuple[int, ...]
    """Its place among the layer's decisions; of a window, the window's place in the output."""
    taken: tuple[int, int]
    """What a and what b decided: a truth value, or a position."""
    margin: tuple[float, float]
    """By how much, on each side, what was decided exceeds what the other side decided."""


def relu_of(values: Sequence[Any], node: Node) -> Array:
    """Whether x > 0."""
    return np.asarray(values[node.arguments[0]].value > 0)


def pool_of(values: Sequence[Any], node: Node) -> Array:
    """The position of each window's largest."""
    return np.asarray(POOL_ARGMAX.forward(_KERNELS, values[node.arguments[0]].value, **node.given))


def sign_of(values: Sequence[Any], node: Node) -> Array:
    """The sign of x."""
    return np.sign(values[node.arguments[0]].value).astype(np.int64)


def larger_of(values: Sequence[Any], node: Node) -> Array:
    """Whether a > b."""
    a, b = (values[one].value for one in node.arguments)
    return np.asarray(a > b)


def extreme_of(values: Sequence[Any], node: Node) -> Array:
    """The position of the extreme, along the axes as one."""
    x, axes = values[node.arguments[0]].value, node.given["axes"]
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    flat = np.transpose(x, (*rest, *axes)).reshape(*(x.shape[axis] for axis in rest), -1)
    return flat.argmax(-1) if node.op == "max" else flat.argmin(-1)


DECIDED: dict[str, Callable[[Sequence[Any], Node], Array] | None] = {
    "relu": relu_of,
    "abs": sign_of,
    "sign": sign_of,
    "maximum": larger_of,
    "minimum": larger_of,
    "max": extreme_of,
    "min": extreme_of,
    "max_pool": pool_of,
    **dict.fromkeys("eq ne lt le gt ge argmax pool_argmax argsort topk".split()),  # they are the decision
}
COMPARISONS = frozenset("eq ne lt le gt ge maximum minimum".split())


def decided(graph: Graph, values: Sequence[Any]) -> list[tuple[int, Array]]:
    """(value, what was decided there) for each deciding node whose operands are reals."""
    found = []
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        if node.op not in DECIDED or graph.types[node.arguments[0]].kind != "real" or _of_constants(graph, node):
            continue
        rule = DECIDED[node.op]
        found.append((value, np.asarray(values[value].value) if rule is None else rule(values, node)))
    return found


def _of_constants(graph: Graph, node: Node) -> bool:
    """Whether it looks at nothing that was read."""
    first = len(graph.leaves)
    return all(one >= first and graph.nodes[one - first].op == "constant" for one in node.arguments)


def turns(graph: Graph, a: Sequence[Any], b: Sequence[Any], most: int) -> tuple[int, list[Turn]]:
    """How many decisions differ, and the first of them."""
    count = 0
    found: list[Turn] = []
    for (value, left), (_, right) in zip(decided(graph, a), decided(graph, b), strict=True):
        node = graph.nodes[value - len(graph.leaves)]
        differ = np.argwhere(left != right)
        count += len(differ)
        for row in differ[: max(most - len(found), 0)]:
            at = tuple(int(i) for i in row)
            taken = (int(left[at]), int(right[at]))
            found.append(Turn(node.op, at, taken, (_margin(node, a, at, taken), _margin(node, b, at, taken))))
    return count, found


def _margin(node: Node, values: Sequence[Any], at: tuple[int, ...], taken: tuple[int, int]) -> float:
    x = values[node.arguments[0]].value
    if node.op in COMPARISONS:
        return abs(float(x[at] - values[node.arguments[1]].value[at]))
    if node.op in ("max_pool", "pool_argmax"):
        plane = x[at[0], at[1]].reshape(-1)
        return abs(float(plane[taken[0]] - plane[taken[1]]))
    if node.op in ("max", "min", "argmax", "argsort", "topk"):
        axes = node.given["axes"] if "axes" in node.given else (node.given["axis"],)
        rest = [axis for axis in range(x.ndim) if axis not in axes]
        flat = np.transpose(x, (*rest, *axes)).reshape(*(x.shape[axis] for axis in rest), -1)
        line = flat[at[: len(rest)]] if node.op in ("max", "min", "argmax") else np.moveaxis(x, axes[0], -1)[at[:-1]]
        return abs(float(line[taken[0]] - line[taken[1]]))
    return abs(float(x[at]))


def routed(graph: Graph, reads: Sequence[Array], claimed: Array) -> Array | None:
    """The first leaf with exact ties broken as the claimed gradient shows; None where there is nothing to break.

    One step of float64 tells equals apart, and changes no decision but among them.
    """
    for node in graph.nodes:
        axes = _way(graph, node.arguments[0]) if node.arguments else None
        if axes is None:
            continue
        if node.op == "relu":
            kinks = (reads[0] == 0) & (claimed != 0)
            return np.where(kinks, np.nextafter(0.0, 1.0), reads[0]) if kinks.any() else None
        if node.op == "max_pool":
            found = _routed_pool(reads[0].transpose(axes), claimed.transpose(axes), node.given)
            return None if found is None else found.transpose(np.argsort(axes))
    return None


def _way(graph: Graph, value: int) -> tuple[int, ...] | None:
    """How the axes of the first leaf lie in a value that is that leaf, or it transposed; None in any other."""
    if value == 0:
        return tuple(range(len(graph.types[0].shape)))
    first = len(graph.leaves)
    node = graph.nodes[value - first] if value >= first else None
    return tuple(node.given["axes"]) if node is not None and node.op == "transpose" and node.arguments == (0,) else None


def _routed_pool(x: Array, claimed: Array, params: dict[str, Any]) -> Array | None:
    n, c, *space = x.shape
    size = math.prod(space)
    values, places, inside = windows(_KERNELS, x, **params)
    taken, _, _ = windows(_KERNELS, claimed, **params)
    top = np.max(np.where(inside, values, -np.inf), axis=1, keepdims=True)
    equals = inside & (values == top)
    tied = equals.sum(axis=1, keepdims=True) > 1
    chosen = equals & tied & (taken != 0)
    wanted = np.argmax(chosen, axis=1)[:, None]
    some = np.take_along_axis(chosen, wanted, axis=1) & (wanted != np.argmax(equals, axis=1)[:, None])
    if not some.any():
        return None
    found = np.array(x, dtype=np.float64).reshape(n * c, size)
    planes, _, spots = np.nonzero(some)
    cells = np.take_along_axis(places, wanted, axis=1)[planes, 0, spots]
    found[planes, cells] = np.nextafter(found[planes, cells], np.inf)
    return found.reshape(x.shape)

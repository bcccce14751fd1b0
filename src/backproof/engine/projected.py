"""What is linear along an axis, seen through a few random combinations of that axis: Freivalds' test of a product, with rounding.

A combination of the columns of A·B is A times that combination of the columns of B: two thin products in place of a thick one. With it
goes how large the same combination of honest rounding errors may be: an error that is at most f·|A|·|B| element by element has a Euclidean
norm of at most f·|A|·‖B‖ along the axis, by the triangle inequality.

A thin product that reads much is made in float32, like the thick one that it stands for: it rounds alike, far below the likely bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.engine.bounded import Bounded
from backproof.engine.cuts import axes_read, resized
from backproof.ir.graph import Graph, Node
from backproof.ir.rounding import Moves, Sums
from backproof.numerics import likely

Array = Any
_KERNELS, _SIZES = NumPyKernels("float64"), NumPyKernels("float32")
PRODUCTS = ("dot_general", "conv")
MOVES = ("transpose", "reshape", "broadcast", "concat", "slice", "pad", "flip")
LINEAR = (
    *("add", "sub", "neg", "sum", "scatter_add", "stop_gradient"),
    *PRODUCTS,
    "gather",
    *MOVES,
)
BLOCK = 1 << 20  # numbers whose sizes are taken at a time; with so many in float32, a thin product is made in float32
WIDENED = 1 << 16  # numbers that are widened at a time


class NotLinearError(Exception):
    """A value that is not a linear function of something along the axis."""


@dataclass(frozen=True)
class Shadow:
    """Random combinations of a value along an axis, which has one place for each."""

    value: Array
    size: Array
    """At least the norm, along the axis, of the sum of magnitudes that the value is made of; the axis has one place."""
    growth: float
    """How large a part of it honest rounding may be, likely."""


class Projection:
    """A graph's values along one axis of its output, combined by the columns of `weights`."""

    def __init__(self, graph: Graph, D: Bounded, leaves: Sequence[Array], weights: Array) -> None:
        self.graph, self.D, self.leaves, self.weights = graph, D, leaves, weights

    def shadow(self, value: int, axis: int) -> Shadow:
        """The combinations of a value; or an error if they are not the same function of combinations of something."""
        node = self.graph.node(value)
        if node is None:
            return Shadow(*combined(self.leaves[value], axis, self.weights), 0.0)
        if node.op not in LINEAR:
            raise NotLinearError
        sources = [self.graph.types[i].shape for i in node.arguments]
        along = axes_read(node, sources, self.graph.types[value].shape, axis)
        if node.op == "broadcast" and along == [None]:
            return self._spread(node, axis)
        if along is None or (node.op in PRODUCTS and None not in along) or all(its is None for its in along):
            raise NotLinearError
        given = [
            self._whole(argument) if its is None else self.shadow(argument, its)
            for argument, its in zip(node.arguments, along, strict=True)
        ]
        for argument, x in zip(node.arguments, given, strict=True):
            real = self.graph.types[argument].kind == "real"
            if isinstance(x, Shadow) != real and not (real and node.op in PRODUCTS):
                raise NotLinearError
        return self._applied(node, axis, given)

    def _applied(self, node: Node, axis: int, given: list[Any]) -> Shadow:
        count = self.weights.shape[1]
        values = [x.value if isinstance(x, Shadow) else x for x in given]
        sizes = [x.size if isinstance(x, Shadow) else x for x in given]
        if any(not isinstance(x, Shadow) and x.dtype == np.float32 and x.size > BLOCK for x in given):
            values = [x.astype(np.float32, copy=False) if x.dtype.kind == "f" else x for x in values]
        with np.errstate(all="ignore"):
            found = node.primitive.forward(_KERNELS, *values, **dict(resized(node, axis, count)))
            if node.op in ("add", "sub", "neg"):
                size = sum(sizes)
            elif node.op in PRODUCTS:
                size = _of_sizes(node, sizes, dict(resized(node, axis, 1)))
            else:
                size = node.primitive.forward(_SIZES, *sizes, **dict(resized(node, axis, 1)))
        return Shadow(found, size, self._growth(node, given))

    def _growth(self, node: Node, given: list[Any]) -> float:
        before = [x.growth for x in given if isinstance(x, Shadow)]
        if isinstance(node.primitive.rounding, Moves) or node.op in ("neg", "stop_gradient"):
            return max(before)
        unit = self.D.storage.unit
        if node.op in ("add", "sub"):
            return max(before) + unit * (1 + max(before))
        if node.op == "scatter_add":
            terms = int(np.max(np.bincount(given[0].reshape(-1)[given[0].reshape(-1) >= 0]), initial=1))
        elif isinstance(node.primitive.rounding, Sums):
            blank = (np.broadcast_to(np.float64(0), self.graph.types[i].shape) for i in node.arguments)
            terms = int(np.max(node.primitive.rounding.roundings(*blank, **node.given)))
        else:
            raise NotLinearError
        own = float(likely(terms, self.D.accumulation.unit))
        own += 0.0 if self.D.accumulation is self.D.storage else unit
        return (1 + sum(before)) * (1 + own) - 1

    def _spread(self, node: Node, axis: int) -> Shadow:
        """What is the same all along the axis."""
        x, shape = self._whole(node.arguments[0]), dict(node.params)["shape"]
        if x.dtype.kind != "f":
            raise NotLinearError
        given = {**node.given, "shape": (*shape[:axis], 1, *shape[axis + 1 :])}
        one = node.primitive.forward(_KERNELS, x.astype(np.float64), **given)
        total = np.sum(self.weights, axis=0).reshape(tuple(-1 if i == axis else 1 for i in range(len(shape))))
        return Shadow(one * total, abs(one) * np.sqrt(shape[axis]), 0.0)

    def _whole(self, value: int) -> Array:
        """A value that is known without rounding."""
        node = self.graph.node(value)
        if node is None:
            return np.asarray(self.leaves[value])
        if node.op not in MOVES:
            raise NotLinearError
        return node.primitive.forward(_KERNELS, *map(self._whole, node.arguments), **node.given)


def combined(x: Array, axis: int, weights: Array) -> tuple[Array, Array]:
    """An array with an axis replaced by its combinations; and its norms along that axis."""
    x = np.asarray(x)
    before, n, after = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    flat, down = x.reshape(before, n, after), np.ascontiguousarray(weights.T)
    value, square = np.empty((before, len(down), after)), np.empty((before, after))
    wide, high = max(1, WIDENED // max(n, 1)), max(1, WIDENED // max(n * after, 1))
    for left in range(0, after, wide):
        for top in range(0, before, high):
            place = slice(top, top + high), slice(left, left + wide)
            part = flat[place[0], :, place[1]].astype(np.float64)
            value[place[0], :, place[1]] = (part[:, :, 0] @ weights)[:, :, None] if after == 1 else down @ part
            square[place] = np.einsum("bna,bna->ba", part, part)
    lead, trail = x.shape[:axis], x.shape[axis + 1 :]
    return value.reshape(*lead, len(down), *trail), np.sqrt(square).reshape(*lead, 1, *trail)


def _of_sizes(node: Node, sizes: list[Array], params: dict[str, Any]) -> Array:
    """A product of sizes; of a large one that still has its signs, a few of its rows at a time."""
    large = next((i for i, x in enumerate(sizes) if x.size > BLOCK), None)
    if node.op != "dot_general" or large is None:
        return node.primitive.forward(_SIZES, *map(abs, sizes), **params)
    mine, other = params["contract"][large], params["contract"][1 - large]
    rows = max(1, BLOCK // (sizes[large].size // len(sizes[large])))
    found = []
    for top in range(0, len(sizes[large]), rows):
        part = list(sizes)
        part[large] = abs(sizes[large][top : top + rows])
        if 0 in mine:
            place = (slice(None),) * other[mine.index(0)]
            part[1 - large] = part[1 - large][(*place, slice(top, top + rows))]
        found.append(node.primitive.forward(_SIZES, *part, **params))
    free = len(sizes[0].shape) - len(params["contract"][0]) if large else 0
    return sum(found) if 0 in mine else np.concatenate(found, axis=free)

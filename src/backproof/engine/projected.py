"""What is linear along an axis, seen through a few random combinations of that axis: Freivalds' test of a product, with rounding.

A combination of the columns of A·B is A times that combination of the columns of B: two thin products in place of a thick one. With it
goes how large the same combination of honest rounding errors may be: an error that is at most f·|A|·|B| element by element has a Euclidean
norm of at most f·|A|·‖B‖ along the axis, by the triangle inequality.
"""

from __future__ import annotations

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
BLOCK = 1 << 18  # numbers that are widened at a time


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
        sizes = [x.size if isinstance(x, Shadow) else abs(x) if x.dtype.kind == "f" else x for x in given]
        with np.errstate(all="ignore"):
            found = node.primitive.forward(_KERNELS, *values, **dict(resized(node, axis, count)))
            if node.op in ("add", "sub", "neg"):
                size = sum(sizes)
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
        return Shadow(one * total, abs(one).astype(np.float32) * np.float32(np.sqrt(shape[axis])), 0.0)

    def _whole(self, value: int) -> Array:
        """A value that is known without rounding."""
        node = self.graph.node(value)
        if node is None:
            return np.asarray(self.leaves[value])
        if node.op not in MOVES:
            raise NotLinearError
        return node.primitive.forward(_KERNELS, *map(self._whole, node.arguments), **node.given)


def combined(x: Array, axis: int, weights: Array) -> tuple[Array, Array]:
    """An array with an axis replaced by its combinations; and its norms along that axis, in float32."""
    x = np.asarray(x)
    before, n, after = int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    count = weights.shape[1]
    flat = x.reshape(before, n, after)
    value, square = np.zeros((before, count, after)), np.zeros((before, after))
    down = np.ascontiguousarray(weights.T)
    rows, lines = max(1, BLOCK // max(n * after, 1)), max(1, BLOCK // max(after, 1))
    for top in range(0, before, rows):
        for first in range(0, n, lines):
            wide = flat[top : top + rows, first : first + lines].astype(np.float64)
            own = slice(top, top + rows)
            if after == 1:
                value[own, :, 0] += wide[:, :, 0] @ weights[first : first + lines]
            else:
                value[own] += down[:, first : first + lines] @ wide
            square[own] += np.einsum("bna,bna->ba", wide, wide)
    lead, trail = x.shape[:axis], x.shape[axis + 1 :]
    return value.reshape(*lead, count, *trail), np.sqrt(square).astype(np.float32).reshape(*lead, 1, *trail)

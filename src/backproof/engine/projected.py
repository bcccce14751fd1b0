"""What is linear along an axis, seen through a few random combinations of that axis: Freivalds' test of a product, with rounding.

A combination of the columns of A·B is A times that combination of the columns of B: two thin products in place of a thick one. With it
goes how large the same combination of honest rounding errors may be: an error that is at most f·|A|·|B| element by element has a Euclidean
norm of at most f·|A|·‖B‖ along the axis, by the triangle inequality. Of a large A not even that product is made, but ‖A‖·‖‖B‖‖, which is
no less (Cauchy and Schwarz).

What is large is combined in float32, as it is, and thresholds have room for that (`own_growth`). A product with it rounds like the thick
one that it stands for, far below the likely bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.engine.bounded import Bounded
from backproof.engine.cuts import axes_read, resized
from backproof.ir.graph import Graph, Node
from backproof.ir.rounding import Moves, Sums
from backproof.numerics import FORMATS, gamma, likely

Array = Any
_KERNELS, _SIZES = NumPyKernels("float64"), NumPyKernels("float32")
PRODUCTS = ("dot_general", "conv")
MOVES = ("transpose", "reshape", "broadcast", "concat", "slice", "pad", "flip", "stop_gradient")
LINEAR = (
    *("add", "sub", "neg", "sum", "scatter_add"),
    *PRODUCTS,
    "gather",
    *MOVES,
)
LARGE = 1 << 16  # numbers; with so many in float32, a thin product is made in float32
CHUNK = 1 << 10  # numbers that are added up in float32; the rest of a long axis in float64
DEVIATIONS = 3  # of the rounding of a combination, for which a threshold has room


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
            leaf = self.leaves[value]
            return Shadow(combined(leaf, axis, self.weights), norms(leaf, (axis,)), 0.0)
        along = _along(self.graph, value, axis)
        if all(its is None for its in along):
            return self._spread(node, axis)
        given = [
            self._whole(argument) if its is None else self.shadow(argument, its)
            for argument, its in zip(node.arguments, along, strict=True)
        ]
        return self._applied(node, axis, given)

    def _applied(self, node: Node, axis: int, given: list[Any]) -> Shadow:
        count = self.weights.shape[1]
        values = [x.value if isinstance(x, Shadow) else x for x in given]
        sizes = [x.size if isinstance(x, Shadow) else x for x in given]
        if any(not isinstance(x, Shadow) and x.dtype == np.float32 and x.size > LARGE for x in given):
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
        given = {**node.given, "shape": (*shape[:axis], 1, *shape[axis + 1 :])}
        one = node.primitive.forward(_KERNELS, x.astype(np.float64), **given)
        total = np.sum(self.weights, axis=0).reshape(tuple(-1 if i == axis else 1 for i in range(len(shape))))
        return Shadow(one * total, abs(one) * np.sqrt(shape[axis]), 0.0)

    def _whole(self, value: int) -> Array:
        """A value that is known without rounding."""
        return moved(self.graph, self.leaves, value)


def _along(graph: Graph, value: int, axis: int) -> list[int | None]:
    """The axis along which each of what a value is made of is combined, or None where all of it is needed; or an error."""
    node = graph.node(value)
    if node is None or node.op not in LINEAR:
        raise NotLinearError
    sources = [graph.types[i].shape for i in node.arguments]
    along = axes_read(node, sources, graph.types[value].shape, axis)
    if along is None or (node.op in PRODUCTS and None not in along):
        raise NotLinearError
    if all(its is None for its in along) and node.op != "broadcast":
        raise NotLinearError
    for argument, its in zip(node.arguments, along, strict=True):
        real = graph.types[argument].kind == "real"
        if (its is not None) != real and not (real and node.op in (*PRODUCTS, "broadcast")):
            raise NotLinearError
    return along


@lru_cache(maxsize=1024)
def is_linear(graph: Graph, value: int, axis: int) -> bool:
    """Whether a value is the same function of combinations of something along an axis as of that itself."""
    node = graph.node(value)
    if node is None:
        return True
    try:
        along = _along(graph, value, axis)
    except NotLinearError:
        return False
    pairs = zip(node.arguments, along, strict=True)
    return all(is_moved(graph, i) if its is None else is_linear(graph, i, its) for i, its in pairs)


def is_moved(graph: Graph, value: int) -> bool:
    """Whether a value is made of the numbers of leaves, and of nothing else."""
    node = graph.node(value)
    return node is None or (node.op in MOVES and all(is_moved(graph, given) for given in node.arguments))


def moved(graph: Graph, leaves: Sequence[Array], value: int) -> Array:
    """A value that is made of a leaf's numbers, or several leaves', and of nothing else; in their own format."""
    node = graph.node(value)
    if node is None:
        return np.asarray(leaves[value])
    if node.op not in MOVES:
        raise NotLinearError
    return node.primitive.forward(_KERNELS, *(moved(graph, leaves, given) for given in node.arguments), **node.given)


def combined(x: Array, axis: int, weights: Array) -> Array:
    """An array with an axis replaced by its combinations."""
    x = _readable(x)
    before, n, after = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    wide = x.dtype if x.dtype == np.float32 and x.size > LARGE else np.float64
    flat, down = x.reshape(before, n, after), np.ascontiguousarray(weights.T, dtype=wide)
    value = np.zeros((before, len(down), after))
    for begin in range(0, n, CHUNK):
        rows, own = flat[:, begin : begin + CHUNK].astype(wide, copy=False), down[:, begin : begin + CHUNK]
        value += (rows[:, :, 0] @ own.T)[:, :, None] if after == 1 else own @ rows
    return value.reshape(*x.shape[:axis], len(down), *x.shape[axis + 1 :])


def own_growth(count: int) -> float:
    """What making a combination of so many numbers in float32 may add, as a part of their norm.

    Its weights are normal, so a sum on the way has at most the norm for its deviation, and the roundings of n sums at most √n·u times it.
    """
    return float(likely(min(count, CHUNK), FORMATS["float32"].unit, DEVIATIONS))


def norms(x: Array, axes: tuple[int, ...]) -> Array:
    """An array's Euclidean norms along some axes, which have one place each; never less, and hardly more, than they are."""
    x = _readable(x)
    free = tuple(axis for axis in range(x.ndim) if axis not in axes)
    n, wide = math.prod(x.shape[axis] for axis in axes), np.float32 if x.dtype == np.float32 else np.float64
    if axes == tuple(range(len(axes))):
        flat, sum_of = x.reshape(n, -1), "na,na->a"
    elif axes == tuple(range(len(free), x.ndim)):
        flat, sum_of = x.reshape(-1, n), "an,an->a"
    elif len(axes) == 1:
        flat, sum_of = x.reshape(math.prod(x.shape[: axes[0]]), n, -1), "bna,bna->ba"
    else:
        flat, sum_of = np.transpose(x, (*free, *axes)).reshape(-1, n), "an,an->a"
    found = np.sqrt(np.einsum(sum_of, flat, flat), dtype=np.float64)
    found *= 1 + float(gamma(n, FORMATS[np.dtype(wide).name].unit))
    return found.reshape(tuple(1 if axis in axes else size for axis, size in enumerate(x.shape)))


def _readable(x: Array) -> Array:
    """In a format that the array library multiplies quickly."""
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _of_sizes(node: Node, sizes: list[Array], params: dict[str, Any]) -> Array:
    """A product of sizes; where one of them is large and still has its signs, of norms along what is contracted."""
    if node.op != "dot_general" or all(x.size <= LARGE for x in sizes):
        return node.primitive.forward(_SIZES, *map(abs, sizes), **params)
    short = [norms(x, tuple(sorted(axes))) for x, axes in zip(sizes, params["contract"], strict=True)]
    return node.primitive.forward(_KERNELS, *short, **params)

"""Axes as PyTorch names them: counted from either end, one or several or all, and kept with size 1 on request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.tensor import Tensor

Dim = int | Sequence[int] | None


def axis_of(dim: int, rank: int) -> int:
    """The axis that `dim` names, counted from the front."""
    if not -rank <= dim < rank:
        raise GraphError(f"dim {dim} of a value of rank {rank}: it must be from {-rank} to {rank - 1}")
    return dim % rank


def axes_of(dim: Dim, rank: int) -> tuple[int, ...]:
    """The axes that `dim` names, ascending; None names all."""
    if dim is None:
        return tuple(range(rank))
    found = [axis_of(one, rank) for one in ([dim] if isinstance(dim, int) else dim)]
    if len(set(found)) != len(found):
        raise GraphError(f"dim {tuple(found)} names an axis twice")
    return tuple(sorted(found))


def count(x: Ref, axes: Sequence[int]) -> int:
    """How many numbers lie along these axes."""
    return math.prod(x.shape[axis] for axis in axes)


def kept(reduced: Ref, x: Ref, axes: Sequence[int], *, keepdim: bool = True) -> Ref:
    """A reduction of x over axes; with keepdim, they stay with size 1."""
    if not keepdim:
        return reduced
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    return x.builder.apply("reshape", reduced, shape=shape)


def spread(reduced: Ref, x: Ref, axes: Sequence[int]) -> Ref:
    """A reduction of x over axes, repeated along them, in the shape of x."""
    rest = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
    return x.builder.apply("broadcast", reduced, shape=x.shape, axes=rest)


def along(vector: Ref, x: Ref, axis: int) -> Ref:
    """A vector laid along one axis of x's shape."""
    if vector.shape != (x.shape[axis],):
        raise GraphError(
            f"expected one number for each of the {x.shape[axis]} along axis {axis} of {x.type}, got {vector.type}"
        )
    return x.builder.apply("broadcast", vector, shape=x.shape, axes=(axis,))


def split(x: Ref, parts: int, dim: int) -> list[Ref]:
    """x cut into equal parts along an axis."""
    axis = axis_of(dim, len(x.shape))
    if x.shape[axis] % parts:
        raise GraphError(f"axis {axis} of {x.type} cannot be cut into {parts} equal parts")
    size = x.shape[axis] // parts
    before: tuple[slice, ...] = (slice(None),) * axis
    return [x[(*before, slice(i * size, (i + 1) * size))] for i in range(parts)]


def value_of(given: Any, beside: Ref) -> Ref:
    """A value of the graph as it is; anything else as a constant of it."""
    return given if isinstance(given, Ref) else beside.constant(given, ())


def places_beside(x: Ref, places: Any) -> Ref:
    """Static indices as a constant of x's graph."""
    tensor = Tensor.of(np.array(places, dtype=np.int64))
    return x.builder.apply("constant", value=tensor, shape=tensor.shape)


def each_axis(given: int | Sequence[int], n: int, what: str) -> tuple[int, ...]:
    """One number for each of n axes of space: one for all, or n of them."""
    if not isinstance(given, int | Sequence) or isinstance(given, str):
        raise GraphError(f"{what} is one whole number, or {n} of them, and not {given!r}")
    found = (given,) * n if isinstance(given, int) else tuple(given)
    if len(found) == 1:
        found *= n
    if len(found) != n:
        raise GraphError(f"{what} {given} for {n} axes of space: it must be one number, or {n}")
    return found

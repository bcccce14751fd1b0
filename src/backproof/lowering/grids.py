"""Reading a plane at places that are themselves values: grids, and what makes them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref, matmul
from backproof.ir.compose import COMPOSITIONS
from backproof.lowering.arithmetic import rounded, truncated
from backproof.lowering.lowering import Lowering

_choose, _clamp = COMPOSITIONS["where"].function, COMPOSITIONS["clamp"].function
TURN = (3 - math.sqrt(5)) / 2
"""What is added to a place before its fraction is cut off: far from every simple fraction, where places of real grids lie."""


def _grid_sample(
    x: Ref, grid: Ref, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Ref:
    """Each place of the grid, −1 to 1 along each axis (the last axis first), as the cells around it say."""
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border"):
        raise GraphError(f"grid_sample with mode {mode!r} and padding_mode {padding_mode!r} is not lowered")
    (batch, channels, *space), places = x.shape, grid.shape[1:-1]
    if 0 in (*x.shape, *grid.shape):
        return x.constant(0.0, (batch, channels, *places))
    flat = grid.builder.reshape(grid, shape=(batch, math.prod(places), len(space)))
    along = []
    for axis, size in enumerate(space):
        place = _in_cells(flat[:, :, len(space) - 1 - axis], size, corners=bool(align_corners))
        if padding_mode == "border":
            place = _clamp(place, 0.0, float(size - 1), ends="stop")
        along.append(_nearest(place, size) if mode == "nearest" else _around(place, size))
    plane = x.builder.reshape(x, shape=(batch, channels, math.prod(space)))
    found = None
    for taps in itertools.product(*along):
        part = _read(plane, taps, space)
        found = part if found is None else found + part
    assert found is not None  # there is an axis
    return found.builder.reshape(found, shape=(batch, channels, *places))


def _in_cells(place: Ref, size: int, *, corners: bool) -> Ref:
    """From −1 to 1 to where cells are whole numbers: those at the ends are −1 and 1, or end there."""
    return (place + 1.0) * ((size - 1) / 2) if corners else (place + 1.0) * (size / 2) - 0.5


def _nearest(place: Ref, size: int) -> list[tuple[Ref, Ref | None]]:
    return [(rounded(_near(place, size)), None)]


def _around(place: Ref, size: int) -> list[tuple[Ref, Ref | None]]:
    """Three cells of which any other has no weight, each with its weight, 1 less the distance.

    Which three is decided far from whole numbers. There, a place that rounds to either side has the same weights but for rounding.
    """
    first = truncated(_near(place, size) + (3.0 + TURN)) - 3.0  # what is truncated is positive
    found: list[tuple[Ref, Ref | None]] = []
    for step in (-1.0, 0.0, 1.0):
        off = place - (first + step)
        inside = off.builder.logical_and(off >= -1.0, off < 1.0)
        found.append((first + step, _choose(inside, _choose(off >= 0.0, 1.0 - off, 1.0 + off), 0.0)))
    return found


def _near(place: Ref, size: int) -> Ref:
    """Which cells are read is no function to differentiate; beyond the next one outside it is all the same."""
    return _clamp(place.builder.stop_gradient(place), -2.0, size + 1.0)


def _read(plane: Ref, taps: Sequence[tuple[Ref, Ref | None]], space: Sequence[int]) -> Ref:
    """plane[batch, channel, cell] at a cell for each place of the batch, by its weight; 0 outside of the plane."""
    D = plane.builder
    inside, weight, flat = None, None, None
    for (cell, share), size in zip(taps, space, strict=True):
        there = D.logical_and(cell > -0.5, cell < size - 0.5)
        inside = there if inside is None else D.logical_and(inside, there)
        weight = share if weight is None or share is None else weight * share
        kept = _clamp(cell, 0.0, size - 1.0)
        flat = kept if flat is None else flat * float(size) + kept
    assert inside is not None  # there is an axis
    assert flat is not None
    index = D.cast(flat + 0.25, to="int")  # whole, and no rounding makes it another
    shape = (*plane.shape[:2], index.shape[1])

    def each_channel(value: Ref) -> Ref:
        return D.broadcast(value, shape=shape, axes=(0, 2))

    picked = D.gather_along(plane, each_channel(index), axis=2)
    if weight is not None:
        picked = picked * each_channel(weight)
    return _choose(each_channel(inside), picked, 0.0)


def _affine_grid(theta: Ref, size: Sequence[int], align_corners: bool | None = None) -> Ref:
    """Where each cell of the result reads, by an affine map for each of the batch: θ·(…, y, x, 1), of −1 to 1."""
    batch, _, *space = size
    rank, cells = len(space), math.prod(space)
    columns = []
    for axis in reversed(range(rank)):
        n = space[axis]
        steps = np.arange(n, dtype=np.float64) if n > 1 else np.array([0.0])
        line = theta.constant(steps) * (2 / (n - 1)) - 1.0 if n > 1 else theta.constant(steps)
        line = line if align_corners else line * ((n - 1) / n)
        columns.append(theta.builder.broadcast(line, shape=(*space, 1), axes=(axis,)))
    columns.append(theta.constant(1.0, (*space, 1)))
    base = theta.builder.reshape(theta.builder.concat(*columns, axis=rank), shape=(cells, rank + 1))
    found = matmul(base.broadcast_to((batch, cells, rank + 1)), theta.builder.transpose(theta, axes=(0, 2, 1)))
    return theta.builder.reshape(found, shape=(batch, *space, rank))


GRIDS = (
    Lowering("grid_sample", _grid_sample),
    Lowering("affine_grid", _affine_grid),
)

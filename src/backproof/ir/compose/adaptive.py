"""Pooling and resizing to a given size of space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import each_axis, places_beside
from backproof.ir.compose.pool import avg_pool, max_pool, over_cells
from backproof.ir.compose.record import Composition
from backproof.ir.compose.space import in_ranks, space_of
from backproof.ir.compose.windows import adaptive_bounds, places, products

MOST_WINDOWS = 1 << 24  # that are laid out one by one; no network has as many
OutputSize = int | Sequence[int | None]


def _sizes(name: str, x: Ref, output_size: OutputSize) -> tuple[int, ...]:
    n = space_of(name, x)
    given = (output_size,) * n if isinstance(output_size, int) else tuple(output_size)
    if len(given) != n or any(out is not None and out < 1 for out in given):
        raise GraphError(
            f"{name}: output_size {output_size} for {n} axes of space: it must be one positive number, or {n}"
        )
    if math.prod(out or 1 for out in given) > MOST_WINDOWS:
        raise GraphError(f"{name}: output_size {output_size} makes more than {MOST_WINDOWS} windows")
    return tuple(size if out is None else out for out, size in zip(given, x.shape[2:], strict=True))


def _even(x: Ref, out: tuple[int, ...]) -> tuple[int, ...] | None:
    """The windows' size when they do not overlap and are all alike."""
    if any(size % o for size, o in zip(x.shape[2:], out, strict=True)):
        return None
    return tuple(size // o for size, o in zip(x.shape[2:], out, strict=True))


def adaptive_avg_pool(x: Ref, output_size: OutputSize) -> Ref:
    """The mean of the i-th of `out` windows that share each axis."""
    out = _sizes("adaptive_avg_pool", x, output_size)
    even = _even(x, out)
    if even is not None:
        return avg_pool(x, even)
    bounds = [adaptive_bounds(size, o) for size, o in zip(x.shape[2:], out, strict=True)]
    found = x
    for size, of_axis in zip(x.shape[2:], bounds, strict=True):
        member = np.array([[float(a <= cell < b) for cell in range(size)] for a, b in of_axis])
        # Contracting the first axis of space puts the new one last: after all of them the order is the old one.
        found = x.builder.dot_general(found, x.constant(member), contract=((2,), (1,)), batch=((), ()))
    return over_cells(found, products([[b - a for a, b in of_axis] for of_axis in bounds]))


def adaptive_max_pool(x: Ref, output_size: OutputSize) -> Ref:
    """The largest of the i-th of `out` windows that share each axis; the first of equals takes the derivative."""
    out = _sizes("adaptive_max_pool", x, output_size)
    even = _even(x, out)
    return _uneven_max(x, out) if even is None else max_pool(x, even)


def _uneven_max(x: Ref, out: tuple[int, ...]) -> Ref:
    D, (n, c, *space) = x.builder, x.shape
    cells = [[list(range(a, b)) for a, b in adaptive_bounds(size, o)] for size, o in zip(space, out, strict=True)]
    table = places(space, cells)
    widest = max(len(window) for window in table)
    filled = np.array([window + [-1] * (widest - len(window)) for window in table])
    shape = (n, c, *filled.shape)
    flat = D.reshape(x, shape=(n, c, math.prod(space)))
    index, real = places_beside(x, filled.tolist()), flat.constant(filled >= 0)
    picked = D.stop_gradient(D.gather(flat, index, axis=2))
    # What fills a narrow window up is less than everything, so it never wins and is never near to winning.
    least = D.min(D.stop_gradient(flat), axes=(2,)) - 1.0
    fill = D.broadcast(least, shape=shape, axes=(0, 1))
    best = D.argmax(D.where(D.broadcast(real, shape=shape, axes=(2, 3)), picked, fill), axis=3)
    where_best = D.gather_along(
        D.broadcast(index, shape=shape, axes=(2, 3)), D.reshape(best, shape=(*shape[:3], 1)), axis=3
    )
    found = D.gather_along(flat, D.reshape(where_best, shape=shape[:3]), axis=2)
    return D.reshape(found, shape=(n, c, *out))


def interpolate(
    x: Ref,
    size: int | Sequence[int] | None = None,
    scale_factor: int | Sequence[int] | None = None,
    mode: Literal["nearest", "nearest-exact"] = "nearest",
) -> Ref:
    """x at the nearest cell of each cell of another size: the one at ⌊i·n/out⌋, or, exactly, at ⌊(i + ½)·n/out⌋."""
    n = space_of("interpolate", x)
    if (size is None) == (scale_factor is None):
        raise GraphError("interpolate: give either size or scale_factor")
    if mode not in ("nearest", "nearest-exact"):
        raise GraphError(f"interpolate: mode is {mode!r}; there are 'nearest' and 'nearest-exact'")
    if size is not None:
        out = each_axis(size, n, "size")
    else:
        factors = each_axis(scale_factor or 1, n, "scale_factor")
        out = tuple(old * factor for old, factor in zip(x.shape[2:], factors, strict=True))
    if not all(0 < new <= MOST_WINDOWS for new in out):
        raise GraphError(f"interpolate: to size {list(out)}; each must be from 1 to {MOST_WINDOWS}")
    half = int(mode == "nearest-exact")
    found = x
    for axis, (old, new) in enumerate(zip(x.shape[2:], out, strict=True), 2):
        nearest = [(2 * i + half) * old // (2 * new) for i in range(new)]
        if nearest != list(range(old)):
            found = x.builder.gather(found, places_beside(x, nearest), axis=axis)
    return found


ADAPTIVE = (
    *in_ranks("adaptive_avg_pool", "y[i] = the mean of x from ⌊i·n/out⌋ up to ⌈(i + 1)·n/out⌉", adaptive_avg_pool),
    *in_ranks("adaptive_max_pool", "y[i] = the largest of x from ⌊i·n/out⌋ up to ⌈(i + 1)·n/out⌉", adaptive_max_pool),
    Composition("interpolate", "y[i] = x[⌊i·n/out⌋] along each axis of space", interpolate),
)

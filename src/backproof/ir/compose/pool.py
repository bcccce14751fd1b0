"""Pooling: maxima, means and smooth maxima of windows over x[batch, channels, space...]."""

from __future__ import annotations

import math

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import places_beside
from backproof.ir.compose.space import in_ranks, space_of
from backproof.ir.compose.windows import Sizes, places, products, windows_of


def max_pool(
    x: Ref,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    *,
    ceil_mode: bool = False,
) -> Ref:
    """The largest of each window, padding left out; the first of equals takes the derivative."""
    space_of("max_pool", x)
    windows = windows_of(x.shape[2:], kernel_size, stride, padding, dilation, ceil=ceil_mode)
    return x.builder.max_pool(
        x,
        window=tuple(w.width for w in windows),
        stride=tuple(w.stride for w in windows),
        padding=tuple(w.pads for w in windows),
        dilation=tuple(w.dilation for w in windows),
    )


def avg_pool(
    x: Ref,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Ref:
    """The mean of each window; padding counts as zeros, or not at all."""
    n = space_of("avg_pool", x)
    if divisor_override == 0:
        raise GraphError("avg_pool: divisor_override must not be 0")
    windows = windows_of(x.shape[2:], kernel_size, stride, padding, ceil=ceil_mode)
    if all(w.everything for w in windows):
        D = x.builder
        sums = D.reshape(D.sum(x, axes=tuple(range(2, 2 + n))), shape=(*x.shape[:2], *(1,) * n))
    else:
        sums = x.builder.sum_pool(
            x,
            window=tuple(w.width for w in windows),
            stride=tuple(w.stride for w in windows),
            padding=tuple(w.pads for w in windows),
            dilation=(1,) * n,
        )
    if divisor_override is not None:
        return sums / float(divisor_override)
    return over_cells(sums, products([w.cells(padded=count_include_pad) for w in windows]))


def over_cells(sums: Ref, cells: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Ref:
    """Sums over windows, divided by each window's number of cells."""
    if cells.size and (cells == cells.flat[0]).all():
        return sums / float(cells.flat[0])
    return sums / sums.constant(cells)


def smooth_max_pool(
    x: Ref, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, beta: float = 1.0
) -> Ref:
    """ln Σ e^(βx) / β over each window; padding counts as zeros."""
    if beta == 0:
        raise GraphError("smooth_max_pool: beta must not be 0")
    space_of("smooth_max_pool", x)
    D = x.builder
    space = x.shape[2:]
    windows = windows_of(space, kernel_size, stride, padding)
    cells = [[[i * w.stride - w.padding + k for k in range(w.size)] for i in range(w.count)] for w in windows]
    flat = D.reshape(x, shape=(*x.shape[:2], math.prod(space)))
    index = places_beside(x, places(space, cells))
    picked = D.gather(flat, index, axis=2)  # a place that is not there reads 0
    found = D.logsumexp(picked * beta, axes=(3,)) / beta
    return D.reshape(found, shape=(*x.shape[:2], *(w.count for w in windows)))


POOL = (
    *in_ranks("max_pool", "y = max x over each window; the first of equals takes the derivative", max_pool),
    *in_ranks("avg_pool", "y = Σ x/cells over each window", avg_pool),
    *in_ranks("smooth_max_pool", "y = ln Σ e^(βx) / β over each window", smooth_max_pool),
)

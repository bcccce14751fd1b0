"""Functions of space: padding, resizing, windows, pooling, shuffles of channels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.axes import each_axis, places_beside
from backproof.ir.compose.padding import padded
from backproof.ir.compose.windows import windows_of
from backproof.lowering.arithmetic import fixed_power
from backproof.lowering.lowering import Lowering, moved

# ── resizing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _interpolate(
    x: Ref,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Ref:
    n = len(x.shape) - 2
    if antialias:
        raise GraphError("resizing with antialias is not lowered")
    factors: tuple[Any, ...] = (None,) * n
    if size is not None:
        out = each_axis(size, n, "size")
    else:
        factors = (scale_factor,) * n if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
        out = tuple(math.floor(old * float(factor)) for old, factor in zip(x.shape[2:], factors, strict=True))
        factors = (None,) * n if recompute_scale_factor else factors
    if mode == "area":
        return COMPOSITIONS["adaptive_avg_pool"].function(x, out)
    taps = {"nearest": _nearest, "nearest-exact": _nearest, "bicubic": _cubic}.get(mode, _linear)
    for axis, (old, new, factor) in enumerate(zip(x.shape[2:], out, factors, strict=True), 2):
        x = taps(x, axis, old, new, factor, "exact" in mode or bool(align_corners))
    return moved(x)


def _nearest(x: Ref, axis: int, old: int, new: int, factor: float | None, exact: bool) -> Ref:
    """The cell at ⌊i·scale⌋, or ⌊(i + ½)·scale⌋; the scale is a float32, whatever x is made of."""
    scale = np.float32(old / new if factor is None else 1.0 / factor)
    half = np.float32(0.5 if exact else 0.0)
    places = [min(int(np.floor((np.float32(i) + half) * scale)), old - 1) for i in range(new)]
    if new == old:
        places = list(range(old))
    elif new == 2 * old and not exact:
        places = [i // 2 for i in range(new)]
    return x.builder.gather(x, places_beside(x, places), axis=axis)


def _coordinates(
    x: Ref, old: int, new: int, factor: float | None, corners: bool, *, clipped: bool
) -> tuple[Ref, np.ndarray[Any, Any]]:
    """Where each new cell lies between old ones: as values, for they are computed and round, and the cell before each."""
    place = np.arange(new, dtype=np.float64)
    if corners:
        scale = (old - 1) / (new - 1) if new > 1 else 0.0
        exact, found = place * scale, x.constant(place) * scale
    else:
        scale = old / new if factor is None else 1.0 / factor
        exact, found = (place + 0.5) * scale - 0.5, x.constant(place + 0.5) * scale - 0.5
        if clipped:
            found = COMPOSITIONS["where"].function(x.constant(exact > 0), found, 0.0)
            exact = np.maximum(exact, 0.0)
    return found, np.floor(exact)


def _taps(x: Ref, axis: int, cells: Sequence[Any], weights: Sequence[Ref]) -> Ref:
    """Σ of cells along an axis, each with its weight; those beyond an end are the one at the end."""
    last, found = x.shape[axis] - 1, None
    for cell, weight in zip(cells, weights, strict=True):
        picked = x.builder.gather(x, places_beside(x, np.clip(cell, 0, last).astype(np.int64)), axis=axis)
        part = picked * x.builder.broadcast(weight, shape=picked.shape, axes=(axis,))
        found = part if found is None else found + part
    assert found is not None
    return found


def _linear(x: Ref, axis: int, old: int, new: int, factor: float | None, corners: bool) -> Ref:
    if old == new:
        return x
    place, before = _coordinates(x, old, new, factor, corners, clipped=True)
    off = place - x.constant(before)
    return _taps(x, axis, (before, before + 1), (1.0 - off, off))


def _cubic(x: Ref, axis: int, old: int, new: int, factor: float | None, corners: bool) -> Ref:
    """Keys' cubic convolution with a = −3/4."""
    place, before = _coordinates(x, old, new, factor, corners, clipped=False)
    off, a = place - x.constant(before), -0.75

    def near(t: Ref) -> Ref:
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0

    def far(t: Ref) -> Ref:
        return ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a

    weights = (far(off + 1.0), near(off), near(1.0 - off), far(2.0 - off))
    return _taps(x, axis, [before + i for i in (-1, 0, 1, 2)], weights)


# ── windows ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _window_places(
    space: Sequence[int], kernel: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[np.ndarray[Any, Any], list[int]]:
    """[cell of the window, window] → the place in the padded plane; and the padded sizes."""
    n = len(space)
    sizes, gaps, pads, steps = (
        each_axis(given, n, what)
        for given, what in ((kernel, "kernel_size"), (dilation, "dilation"), (padding, "padding"), (stride, "stride"))
    )
    padded = [size + 2 * pad for size, pad in zip(space, pads, strict=True)]
    starts = [range(0, m - gap * (k - 1), step) for m, gap, k, step in zip(padded, gaps, sizes, steps, strict=True)]
    cells = [range(0, gap * k, gap) for gap, k in zip(gaps, sizes, strict=True)]
    rows = [
        [
            int(np.ravel_multi_index([a + b for a, b in zip(start, cell, strict=True)], padded))
            for start in itertools.product(*starts)
        ]
        for cell in itertools.product(*cells)
    ]
    return np.array(rows, dtype=np.int64).reshape(math.prod(sizes), -1), padded


def _im2col(x: Ref, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Ref:
    """Each window of the plane as a column."""
    if len(x.shape) == 3:
        found = _im2col(x.builder.reshape(x, shape=(1, *x.shape)), kernel_size, dilation, padding, stride)
        return x.builder.reshape(found, shape=found.shape[1:])
    batch, channels, *space = x.shape
    places, padded = _window_places(space, kernel_size, dilation, padding, stride)
    pads = (0, 0, *each_axis(padding, len(space), "padding"))
    grown = x.builder.pad(x, low=pads, high=pads, interior=(0,) * len(pads))
    flat = x.builder.reshape(grown, shape=(batch, channels, math.prod(padded)))
    found = x.builder.gather(flat, places_beside(x, places), axis=2)
    return x.builder.reshape(found, shape=(batch, channels * places.shape[0], places.shape[1]))


def _col2im(x: Ref, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Ref:
    """Columns added up where their windows lie."""
    if len(x.shape) == 2:
        found = _col2im(x.builder.reshape(x, shape=(1, *x.shape)), output_size, kernel_size, dilation, padding, stride)
        return x.builder.reshape(found, shape=found.shape[1:])
    space = each_axis(output_size, 2, "output_size")
    places, padded = _window_places(space, kernel_size, dilation, padding, stride)
    pads = each_axis(padding, 2, "padding")
    batch, channels = x.shape[0], x.shape[1] // places.shape[0]
    columns = x.builder.reshape(x, shape=(batch, channels, *places.shape))
    flat = x.builder.scatter_add(places_beside(x, places), columns, axis=2, size=math.prod(padded))
    plane = x.builder.reshape(flat, shape=(batch, channels, *padded))
    return plane[(slice(None), slice(None), *(slice(pad, pad + n) for pad, n in zip(pads, space, strict=True)))]


def _max_pool(rank: int) -> Callable[..., Any]:
    def lower(
        x: Ref,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        single = len(x.shape) == rank + 1
        y = x.builder.reshape(x, shape=(1, *x.shape)) if single else x
        windows = windows_of(y.shape[2:], kernel_size, stride or None, padding, dilation, ceil=ceil_mode)
        form: dict[str, Any] = {
            "window": tuple(w.width for w in windows),
            "stride": tuple(w.stride for w in windows),
            "padding": tuple(w.pads for w in windows),
            "dilation": tuple(w.dilation for w in windows),
        }
        found = [
            y.builder.apply(op, y, **form) for op in (("max_pool", "pool_argmax") if return_indices else ("max_pool",))
        ]
        found = [one.builder.reshape(one, shape=one.shape[1:]) if single else one for one in found]
        return found if return_indices else found[0]

    return lower


def _avg_pool(
    x: Ref,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> dict[str, Any]:
    del x
    return {
        "kernel_size": kernel_size,
        "stride": stride or None,
        "padding": padding,
        "ceil_mode": ceil_mode,
        "count_include_pad": count_include_pad,
        "divisor_override": divisor_override,
    }


def _mean_pool(rank: int) -> Callable[..., Ref]:
    function = COMPOSITIONS[f"avg_pool{rank}d"].function
    return lambda x, *args, **given: function(x, **_avg_pool(x, *args, **given))


def _power_pool(rank: int) -> Callable[..., Ref]:
    """(Σ xᵖ)^(1/p) of each window, no number where an odd p makes the sum negative; where all is 0 its derivative is 0."""

    def lower(x: Ref, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Ref:
        p, D, choose = float(norm_type), x.builder, COMPOSITIONS["where"].function
        if math.isinf(p):
            size = D.abs(x)
            most = _max_pool(rank)(size if p > 0 else -size, kernel_size, stride, 0, 1, ceil_mode)
            return most if p > 0 else -most
        pool, cells = _mean_pool(rank), math.prod(each_axis(kernel_size, rank, "kernel_size"))
        sums = pool(fixed_power(x, p), kernel_size, stride, 0, ceil_mode)
        # Whether anything is there the numbers themselves say without rounding, which a sum of their powers does not.
        there = pool(D.cast(D.ne(x, x.constant(0.0)), to="real"), kernel_size, stride, 0, ceil_mode) > 0.0
        return choose(there, fixed_power(choose(there, sums, 1.0) * float(cells), 1.0 / p), 0.0)

    return lower


def _max_unpool(rank: int) -> Callable[..., Ref]:
    """Each number where the largest of its window was, and 0 elsewhere."""

    def lower(
        x: Ref, indices: Ref, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
    ) -> Ref:
        sizes, pads = each_axis(kernel_size, rank, "kernel_size"), each_axis(padding, rank, "padding")
        steps = each_axis(stride, rank, "stride") if stride else sizes
        if any(step < size for step, size in zip(steps, sizes, strict=True)):
            raise GraphError(
                "max_unpool of windows that overlap is not lowered: it is open which of them is written last"
            )
        lead, space = x.shape[:-rank], x.shape[-rank:]
        grown = tuple(
            (n - 1) * step - 2 * pad + size for n, step, pad, size in zip(space, steps, pads, sizes, strict=True)
        )
        out = tuple(output_size)[-rank:] if output_size is not None else grown
        flat = [x.builder.reshape(y, shape=(*lead, math.prod(space))) for y in (x, indices)]
        found = x.builder.scatter_along(flat[1], flat[0], axis=len(lead), size=math.prod(out))
        return x.builder.reshape(found, shape=(*lead, *out))

    return lower


def _adaptive_max(rank: int) -> Callable[..., Ref]:
    function = COMPOSITIONS[f"adaptive_max_pool{rank}d"].function

    def lower(x: Ref, output_size: Any, return_indices: bool = False) -> Ref:
        if return_indices:
            raise GraphError("adaptive_max_pool with indices is not lowered")
        return function(x, output_size)

    return lower


# ── channels ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pixel_shuffle(x: Ref, upscale_factor: int) -> Ref:
    *lead, channels, height, width = x.shape
    r, n = upscale_factor, len(lead)
    parts = x.builder.reshape(x, shape=(*lead, channels // r**2, r, r, height, width))
    turned = x.builder.transpose(parts, axes=(*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return x.builder.reshape(turned, shape=(*lead, channels // r**2, height * r, width * r))


def _pixel_unshuffle(x: Ref, downscale_factor: int) -> Ref:
    *lead, channels, height, width = x.shape
    r, n = downscale_factor, len(lead)
    parts = x.builder.reshape(x, shape=(*lead, channels, height // r, r, width // r, r))
    turned = x.builder.transpose(parts, axes=(*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return x.builder.reshape(turned, shape=(*lead, channels * r**2, height // r, width // r))


def _channel_shuffle(x: Ref, groups: int) -> Ref:
    batch, channels, *space = x.shape
    parts = x.builder.reshape(x, shape=(batch, groups, channels // groups, *space))
    turned = x.builder.transpose(parts, axes=(0, 2, 1, *range(3, len(parts.shape))))
    return x.builder.reshape(turned, shape=x.shape)


SPACE = (
    Lowering("pad", lambda *given, **named: moved(padded(*given, **named))),
    Lowering("constant_pad_nd", lambda x, pad, value=0.0: moved(padded(x, pad, "constant", value))),
    Lowering("interpolate", _interpolate),
    Lowering("im2col", _im2col),
    Lowering("col2im", _col2im),
    *(Lowering(f"max_pool{n}d", _max_pool(n)) for n in (1, 2, 3)),
    *(Lowering(f"avg_pool{n}d", _mean_pool(n)) for n in (1, 2, 3)),
    *(Lowering(f"max_unpool{n}d", _max_unpool(n)) for n in (1, 2, 3)),
    *(Lowering(f"lp_pool{n}d", _power_pool(n)) for n in (1, 2, 3)),
    *(Lowering(f"adaptive_avg_pool{n}d", COMPOSITIONS[f"adaptive_avg_pool{n}d"].function) for n in (1, 2, 3)),
    *(Lowering(f"adaptive_max_pool{n}d", _adaptive_max(n)) for n in (1, 2, 3)),
    Lowering("pixel_shuffle", _pixel_shuffle),
    Lowering("pixel_unshuffle", _pixel_unshuffle),
    *(Lowering(op, _channel_shuffle) for op in ("channel_shuffle", "native_channel_shuffle")),
)

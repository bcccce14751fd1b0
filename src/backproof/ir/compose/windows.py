"""The geometry of pooling windows: where they lie, and how many of their cells count. Static numbers only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backproof.errors import GraphError
from backproof.ir.compose.axes import each_axis

Sizes = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Window:
    """A pooling window along one axis of space."""

    inside: int
    """How long the axis is."""
    size: int
    stride: int
    padding: int
    dilation: int = 1
    ceil: bool = False
    """Whether a last window may hang over the edge, as long as it begins before it: so may the only one, of an axis that is shorter."""

    @property
    def reach(self) -> int:
        """From a window's first cell to its last, both included."""
        return (self.size - 1) * self.dilation + 1

    @property
    def count(self) -> int:
        """How many windows there are."""
        room = self.inside + 2 * self.padding - self.reach
        found = (-(-room // self.stride) if self.ceil else room // self.stride) + 1
        if self.ceil and (found - 1) * self.stride >= self.inside + self.padding:
            found -= 1
        if found < 1:
            raise GraphError(
                f"a window of {self.reach} does not fit into {self.inside} cells with padding {self.padding}"
            )
        return found

    @property
    def width(self) -> int:
        """How many of a window's cells can lie before the end of the axis; those beyond it in every window hold nothing."""
        return min(self.size, max(-(-(self.inside + self.padding) // self.dilation), 1))

    @property
    def pads(self) -> tuple[int, int]:
        """Padding before and after, just enough for the last window."""
        last = (self.count - 1) * self.stride + (self.width - 1) * self.dilation + 1
        return self.padding, max(last - self.inside - self.padding, 0)

    @property
    def everything(self) -> bool:
        """Whether there is one window, which holds the whole axis."""
        return self.count == 1 and self.pads == (0, 0) and self.width == self.inside and self.dilation == 1

    def cells(self, *, padded: bool) -> list[int]:
        """How many cells of each window lie in the axis, or in the axis with its padding."""
        found = []
        for i in range(self.count):
            begin = i * self.stride - self.padding
            end = min(begin + self.reach, self.inside + self.padding)
            found.append(end - begin if padded else min(end, self.inside) - max(begin, 0))
        return found


def windows_of(
    space: Sequence[int],
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes = 1,
    *,
    ceil: bool = False,
) -> tuple[Window, ...]:
    """One window for each axis of space; the stride is the window's size unless another is given."""
    n = len(space)
    sizes = each_axis(kernel_size, n, "kernel_size")
    steps = sizes if stride is None else each_axis(stride, n, "stride")
    pads, gaps = each_axis(padding, n, "padding"), each_axis(dilation, n, "dilation")
    for size, step, pad, gap in zip(sizes, steps, pads, gaps, strict=True):
        if size < 1 or step < 1 or gap < 1:
            raise GraphError(f"pooling: window {size}, stride {step} and dilation {gap} must be at least 1")
        if not 0 <= pad <= size // 2:
            raise GraphError(f"pooling: padding {pad} must be from 0 to half of the window's size {size}")
    return tuple(
        Window(inside, size, step, pad, gap, ceil)
        for inside, size, step, pad, gap in zip(space, sizes, steps, pads, gaps, strict=True)
    )


def products(counts: Sequence[Sequence[int]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The outer product: cells of each window of space, from its cells along each axis."""
    found = np.array([math.prod(each) for each in itertools.product(*counts)], dtype=np.float64)
    return found.reshape([len(each) for each in counts])


def adaptive_bounds(inside: int, out: int) -> list[tuple[int, int]]:
    """The windows that share an axis among `out` outputs: from ⌊i·n/out⌋ up to ⌈(i + 1)·n/out⌉."""
    return [(i * inside // out, -(-(i + 1) * inside // out)) for i in range(out)]


def places(space: Sequence[int], cells: Sequence[Sequence[Sequence[int]]]) -> list[list[int]]:
    """For each window of space its cells' places in the plane, row-major; −1 for a cell outside. `cells` is by axis, by window."""
    found = []
    for window in itertools.product(*cells):
        places_of = []
        for cell in itertools.product(*window):
            inside = all(0 <= c < n for c, n in zip(cell, space, strict=True))
            places_of.append(int(np.ravel_multi_index(cell, tuple(space))) if inside else -1)
        found.append(places_of)
    return found

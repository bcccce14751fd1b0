"""An equation of large values, judged a slab at a time: what is derived is compared and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.slabs import Plan, Slabs, in_slabs, part_of
from backproof.numerics import FORMATS
from backproof.verify.equation import Judgement, Measured, Total, added, measured, together
from backproof.verify.origin import Origin

DENSE = 3
"""A contribution that cannot be cut is held with its two bounds; better one that is not the result of a product."""


@dataclass(frozen=True)
class Followed:
    """A contribution while it is derived."""

    origin: Origin
    D: Bounded
    slabs: Slabs
    output: int

    def plan(self, axis: int) -> Plan | None:
        """How it is cut along an axis."""
        return self.slabs.survey.plan(self.output, axis)

    def is_there(self, claimed: Any) -> bool:
        """Whether what is claimed is what it is derived from, in another shape: the same numbers in the same memory."""
        graph, value = self.slabs.graph, self.output
        while (node := graph.node(value)) is not None:
            if node.op not in ("reshape", "stop_gradient"):
                return False
            (value,) = node.arguments
        given = self.slabs.leaves[value]
        if not isinstance(given, np.ndarray) or given.dtype != claimed.dtype or given.size != claimed.size:
            return False
        whole = given.flags.c_contiguous and claimed.flags.c_contiguous
        return whole and given.ctypes.data == claimed.ctypes.data and not self.origin.stored

    def scatters(self, axis: int) -> bool:
        """Whether it is rows that are scattered along an axis."""
        node = self.slabs.graph.node(self.output)
        return node is not None and node.op == "scatter_add" and node.given["axis"] == axis

    def scattered(self) -> Callable[[int, int], Bound]:
        """Those of its rows that are scattered to a stretch of that axis."""
        node = self.slabs.graph.node(self.output)
        assert node is not None  # it scatters
        index, updates = (self.slabs.value(argument) for argument in node.arguments)

        def stretch(begin: int, end: int) -> Bound:
            moved = replace(index, value=index.value - begin)  # what lies outside is left out
            found = self.D.apply(node.primitive, moved, updates, axis=node.given["axis"], size=end - begin)
            return self.origin.rounded(self.D, found)

        return stretch

    @property
    def multiplies(self) -> bool:
        """Whether large matrices are multiplied in it."""
        return any(node.op in ("dot_general", "conv") for node in self.slabs.graph.nodes)

    @property
    def doubtful(self) -> bool:
        """Whether a decision in it may honestly have been taken otherwise."""
        decided = any(node.op == "cast" and node.given["to"] in ("int", "bool") for node in self.slabs.graph.nodes)
        return decided or self.D.doubts > 0


def followed(origin: Origin, *, brief: bool) -> Followed:
    """A contribution whose derivation begins."""
    D = Bounded(*origin.form, brief=brief)
    slabs, output = origin.evaluation(D)
    return Followed(origin, D, slabs, output)


def judged_piecewise(claimed: Any, total: Total, dtype: str) -> tuple[Judgement, bool]:
    """A claim of reals against a sum of contributions; and whether a decision in one of them is in doubt.

    What is within its likely bound holds, and needs no other; a slab that is not is looked at again, with both.
    """
    brief = _Sum(total, dtype, brief=True)
    if brief.is_there(claimed):
        return Measured(0.0, 0.0, 0.0, 0.0, (), (0.0, 0.0, 0.0)).judgement(), False
    full = cache(lambda: _Sum(total, dtype, brief=False))
    axis = _axis(brief.open, np.ndim(claimed), np.size(claimed))
    if axis is None:
        found = brief.measured(claimed)
        found = found if found.likely <= 1 else full().measured(claimed)
    else:
        cuts = brief.cut(axis)
        place = (slice(None),) * axis

        def judge(slabs: list[Any], begin: int, end: int) -> Any:
            claim = np.ascontiguousarray(claimed[(*place, slice(begin, end))])
            near = brief.slab_measured(claim, slabs, begin, end)
            if not near.likely <= 1:
                slabs = [part.slab(plan, begin, end) for part, plan in full().cut(axis)]
                near = full().slab_measured(claim, slabs, begin, end)
            return near.moved(axis, begin)

        found = together(in_slabs(cuts, judge))
    sums = [brief, full()] if full.cache_info().currsize else [brief]
    return found.judgement(), any(part.doubtful for each in sums for part in each.open)


class _Sum:
    """The contributions to a value, each known or derived when it is wanted."""

    def __init__(self, total: Total, dtype: str, *, brief: bool) -> None:
        self.dtype = dtype
        pairs = zip(total.parts, total.origins, strict=True)
        self.parts = [
            followed(origin, brief=brief) if part is None and origin is not None else part for part, origin in pairs
        ]
        self.open = [part for part in self.parts if isinstance(part, Followed)]
        self._cut: list[tuple[Followed, Plan]] = []
        self._rest: list[Callable[[int, int], Bound]] = []

    def is_there(self, claimed: Any) -> bool:
        """Whether it is only something recorded, in the memory where the claim is."""
        return len(self.parts) == 1 and len(self.open) == 1 and self.open[0].is_there(claimed)

    def measured(self, claimed: Any) -> Measured:
        """A claim against all of it."""
        whole = [_whole(part) if isinstance(part, Followed) else part for part in self.parts if part is not None]
        return measured(claimed, settled(whole, self.dtype))

    def cut(self, axis: int) -> list[tuple[Slabs, Plan]]:
        """What is derived a slab at a time along an axis; the rest is made."""
        if not self._cut:
            cuts = [(part, part.plan(axis)) for part in self.open]
            scattered = [part for part, plan in cuts if plan is None and part.scatters(axis)]
            dense = [part for part in self.parts if isinstance(part, Bound)]
            dense += [_whole(part) for part, plan in cuts if plan is None and not part.scatters(axis)]
            self._rest = [partial(part_of, part, axis) for part in dense] + [part.scattered() for part in scattered]
            self._cut = [(part, plan) for part, plan in cuts if plan is not None]
        return [(part.slabs, plan) for part, plan in self._cut]

    def slab_measured(self, claimed: Any, slabs: Sequence[Bound], begin: int, end: int) -> Measured:
        """A slab of a claim."""
        made = [part.origin.rounded(part.D, slab) for (part, _), slab in zip(self._cut, slabs, strict=True)]
        made += [part(begin, end) for part in self._rest]
        return measured(claimed, settled(made, self.dtype))


def _whole(part: Followed) -> Bound:
    return part.origin.rounded(part.D, part.slabs.value(part.output))


def settled(parts: Sequence[Bound], dtype: str) -> Bound:
    """The sum of contributions, in the format that it is stored in."""
    computing = "float64" if dtype == "float64" else "float32"
    found = added(parts, FORMATS[dtype])
    return (
        Bounded(computing).cast(found, to=dtype) if FORMATS[dtype].precision < FORMATS[computing].precision else found
    )


def _axis(parts: Sequence[Followed], rank: int, size: int) -> int | None:
    """The axis along which most is cut; None where it is as well to derive everything at once."""
    costs: dict[int, int] = {}
    for axis in range(rank):
        plans = [part.plan(axis) for part in parts]
        if any(plan is not None and plan.step < plan.width for plan in plans):
            costs[axis] = sum(
                plan.whole if plan is not None else 0 if part.scatters(axis) else (DENSE + part.multiplies) * size
                for part, plan in zip(parts, plans, strict=True)
            )
    return min(costs, key=lambda axis: costs[axis], default=None)

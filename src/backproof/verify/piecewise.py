"""An equation of large values, judged a slab at a time: what is derived is compared and forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.slabs import Plan, Slabs, in_slabs, part_of
from backproof.numerics import FORMATS
from backproof.verify.equation import Judgement, Measured, Total, added, measured, together
from backproof.verify.origin import Origin

DENSE = 3
"""A contribution that cannot be cut is held with its two bounds."""


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

    @property
    def doubtful(self) -> bool:
        """Whether a decision in it may honestly have been taken otherwise."""
        decided = any(node.op == "cast" and node.given["to"] in ("int", "bool") for node in self.slabs.graph.nodes)
        return decided or self.D.doubts > 0


def followed(origin: Origin) -> Followed:
    """A contribution whose derivation begins."""
    D = Bounded(*origin.form)
    slabs, output = origin.evaluation(D)
    return Followed(origin, D, slabs, output)


def judged_piecewise(
    claimed: Any, total: Total, dtype: str, some: Callable[[int], Sequence[int]] = range
) -> tuple[Judgement, bool]:
    """A claim of reals against a sum of contributions; and whether a decision in one of them is in doubt.

    `some` says which slabs are looked at, of how many.
    """
    parts = [
        followed(origin) if part is None and origin is not None else part
        for part, origin in zip(total.parts, total.origins, strict=True)
    ]
    open_ = [part for part in parts if isinstance(part, Followed)]
    if len(parts) == 1 and open_ and open_[0].is_there(claimed):
        return Measured(0.0, 0.0, 0.0, 0.0, (), (0.0, 0.0, 0.0)).judgement(), False
    axis = _axis(open_, np.ndim(claimed), np.size(claimed))
    if axis is None:
        whole = [_whole(part) if isinstance(part, Followed) else part for part in parts if part is not None]
        found = measured(claimed, settled(whole, dtype))
    else:
        cuts = [(part, part.plan(axis)) for part in open_]
        cut = [(part, plan) for part, plan in cuts if plan is not None]
        dense = [part for part in parts if isinstance(part, Bound)]
        dense += [_whole(part) for part, plan in cuts if plan is None]
        place = (slice(None),) * axis

        def judge(slabs: list[Any], begin: int, end: int) -> Any:
            made = [part.origin.rounded(part.D, slab) for (part, _), slab in zip(cut, slabs, strict=True)]
            made += [part_of(part, axis, begin, end) for part in dense]
            claim = claimed[(*place, slice(begin, end))]
            return measured(np.ascontiguousarray(claim), settled(made, dtype)).moved(axis, begin)

        found = together(in_slabs([(part.slabs, plan) for part, plan in cut], judge, some))
    return found.judgement(), any(part.doubtful for part in open_)


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
        if any(plan is not None and plan.step() < plan.width for plan in plans):
            costs[axis] = sum(DENSE * size if plan is None else plan.whole for plan in plans)
    return min(costs, key=lambda axis: costs[axis], default=None)

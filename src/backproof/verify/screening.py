"""A quick look at a step: large products through random combinations, other large equations at some of their slabs.

What looks honest is said to have been screened; what does not is derived and compared as a whole, as it always is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.projected import PRODUCTS, NotLinearError, Projection, Shadow, combined
from backproof.ir.graph import Graph
from backproof.numerics import FORMATS
from backproof.verify.equation import Judgement, Total
from backproof.verify.origin import Origin
from backproof.verify.piecewise import judged_piecewise
from backproof.verify.slope import SLOPE_LAMBDA, SMALLEST

PROBES = 4
"""Random combinations of each row of a product. One of a mistake whose norm is ρ thresholds is below the threshold with
probability erf(1/(ρ√2)) < 0.8/ρ, for its weights are normal; 0.9 leaves room for the honest errors beside it."""
SHARE = 16
"""Of other large equations, one slab in so many."""
LEAST = 2  # slabs
SHORT = 8 * PROBES  # numbers along an axis: with fewer, the product itself costs as little
ROOM = 1 << 25  # numbers that may have to be widened as a whole, where another axis asks for fewer


class Screening:
    """Which equations of a step were only looked at quickly."""

    def __init__(self, seed: int | None = None) -> None:
        self.random = np.random.default_rng(
            seed
        )  # unpredictable unless asked otherwise: nothing can be made to pass it
        self.screened: Counter[str] = Counter()

    def look(self, claimed: Any, total: Total, dtype: str) -> Judgement | None:
        """What a quick look says, if it says that the equation holds."""
        if dtype not in FORMATS or FORMATS[dtype].precision > FORMATS["float32"].precision:
            return None
        way, found = "projected", self._projected(claimed, total, dtype)
        if found is None:
            way, found = "sampled", self._sampled(claimed, total, dtype)
        if found is None or found.verdict != "holds":
            return None
        self.screened[way] += 1
        return found

    def some(self, count: int) -> Sequence[int]:
        """Some of so many slabs; all, if they are few."""
        chosen = max(LEAST, math.ceil(count / SHARE))
        if chosen >= count:
            return range(count)
        return sorted(int(i) for i in self.random.choice(count, chosen, replace=False))

    def _sampled(self, claimed: Any, total: Total, dtype: str) -> Judgement | None:
        if any(part is not None for part in total.parts):
            return None
        found, doubtful = judged_piecewise(claimed, total, dtype, self.some)
        systematic = abs(found.slope) > SMALLEST * FORMATS[dtype].unit
        return None if doubtful or systematic else found

    def _projected(self, claimed: Any, total: Total, dtype: str) -> Judgement | None:
        parts = [part if origin is None else origin for part, origin in zip(total.parts, total.origins, strict=True)]
        graphs = [part.derivation() if isinstance(part, Origin) else None for part in parts]
        if not any(graph is not None and _multiplies(graph[0]) for graph in graphs):
            return None
        for axis in _axes(np.shape(claimed), graphs):
            weights = self.random.standard_normal((claimed.shape[axis], PROBES))
            try:
                shadows = [_shadow(part, graph, axis, weights) for part, graph in zip(parts, graphs, strict=True)]
            except NotLinearError:
                continue
            return _judged(combined(claimed, axis, weights), shadows, dtype)
        return None

    def said(self, checked: int) -> dict[str, Any]:
        """What the verdict says of it."""
        return {
            "projected": self.screened["projected"],
            "sampled": self.screened["sampled"],
            "in_full": checked - self.screened.total(),
            "probes": PROBES,
            "share": 1 / SHARE,
            "missed": (
                f"a row of a product that is off by ρ thresholds, with probability (0.9/ρ)^{PROBES}; "
                f"one wrong slab of what is sampled, with probability {1 - 1 / SHARE:.4g}"
            ),
        }


def _multiplies(graph: Graph) -> bool:
    return any(node.op in PRODUCTS for node in graph.nodes)


def _axes(shape: tuple[int, ...], graphs: Sequence[Any]) -> list[int]:
    """The axes to combine, the shortest first; before all the longest, where the others ask for too much at once."""
    axes = sorted((axis for axis, n in enumerate(shape) if n >= SHORT), key=lambda axis: shape[axis])
    largest = max(leaf.type.size for graph in graphs if graph is not None for leaf in graph[0].leaves)
    return axes[::-1] if largest > ROOM and len(shape) == 2 else axes


def _shadow(part: Any, graph: Any, axis: int, weights: Any) -> Shadow:
    if isinstance(part, Bound):
        value, _ = combined(part.value, axis, weights)
        off = np.zeros(part.shape) if part.likely is None else np.broadcast_to(part.likely, part.shape)
        return Shadow(value, np.linalg.norm(off, axis=axis, keepdims=True), 1.0)
    derivation, leaves, output = graph
    D = Bounded(*part.form)
    if any(isinstance(leaf, Bound) for leaf in leaves) or D.computing is not D.storage:
        raise NotLinearError
    found = Projection(derivation, D, leaves, weights).shadow(output, axis)
    return Shadow(found.value, found.size, found.growth + (FORMATS[part.stored].unit if part.stored else 0.0))


def _judged(claim: tuple[Any, Any], shadows: Sequence[Shadow], dtype: str) -> Judgement:
    """Whether every combination is as near as that of honest errors, likely; if not, the whole has to be looked at."""
    said, norm = claim
    with np.errstate(all="ignore"):
        value = sum(shadow.value for shadow in shadows)
        off = said - value
        unit = FORMATS[dtype].unit
        most = sum(shadow.size * np.float64(shadow.growth) for shadow in shadows)
        most = most + (len(shadows) - 1) * unit * sum(shadow.size for shadow in shadows if shadow.growth != 1.0)
        if unit > FORMATS["float32"].unit:
            most = most + unit * norm
        most = np.broadcast_to(most + FORMATS[dtype].underflow, off.shape)
        ratio = np.where(np.isfinite(off) & np.isfinite(most), abs(off) / most, np.inf)
        at = np.unravel_index(int(np.argmax(ratio)), ratio.shape) if ratio.size else ()
        pulls = off * value
        size, lean = float(np.vdot(value, value)), float(np.sum(pulls))
        fair = SLOPE_LAMBDA * float(np.sqrt(np.vdot(pulls, pulls)))  # what pulls of random signs add up to
    largest = float(ratio[at]) if ratio.size else 0.0
    honest = largest <= 1 and abs(lean) <= SMALLEST * unit * size + fair
    slope = lean / size if size > 0 else 0.0
    numbers = (float(said[at]), float(value[at]), float(most[at])) if ratio.size else (0.0, 0.0, 0.0)
    return Judgement("holds" if honest else "broken", largest, largest, slope, *numbers, ())

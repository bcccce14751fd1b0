"""A quick look at a step: large products through random combinations, other large equations at some of their places.

What looks honest is said to have been screened; what does not is derived and compared as a whole, as it always is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.places import Part, at_places
from backproof.engine.projected import (
    LARGE,
    PRODUCTS,
    Projection,
    Shadow,
    combined,
    is_linear,
    is_moved,
    moved,
    norms,
    own_growth,
)
from backproof.engine.rough import heavy, rough
from backproof.engine.threads import threads
from backproof.errors import DomainError
from backproof.ir.graph import Graph
from backproof.numerics import FORMATS
from backproof.verify.equation import Judgement, Total, measured, same_numbers
from backproof.verify.origin import Origin
from backproof.verify.piecewise import followed, settled
from backproof.verify.slope import SLOPE_LAMBDA, SMALLEST

PROBES = 4
"""Random combinations of each row of a product. One of a mistake whose norm is ρ thresholds is below the threshold with
probability erf(1/(ρ√2)) < 0.8/ρ, for its weights are normal; 0.9 leaves room for the honest errors beside it."""
DIGESTED = 1 / 16
"""Of tensors that were written in an earlier step, so many are compared with the digest that they had."""
SHORT = 8 * PROBES  # numbers along an axis: with fewer, the product itself costs as little


class Screening:
    """Which equations of a step were only looked at quickly."""

    def __init__(self, seed: int | None = None) -> None:
        self.random = np.random.default_rng(
            seed
        )  # unpredictable unless asked otherwise: nothing can be made to pass it
        self.screened: Counter[str] = Counter()
        self.places: Counter[int] = Counter()
        """How many equations were looked at in so many places."""
        self.share = 1.0
        """The least part of an equation's places that was looked at."""

    def look(self, claimed: Any, total: Total, dtype: str) -> Judgement | None:
        """What a quick look says, if it says that the equation holds."""
        if dtype not in FORMATS or FORMATS[dtype].precision > FORMATS["float32"].precision:
            return None
        if _is_moved(claimed, total):
            return Judgement("holds", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ())
        found = self._projected(claimed, total, dtype)
        if found is None:
            return self._sampled(claimed, total, dtype) or _of_few(claimed, total, dtype)
        if found.verdict != "holds":
            return None
        self.screened["projected"] += 1
        return found

    def choose(self, width: int, count: int) -> Any:
        """So many of so many places, in order."""
        return np.sort(self.random.choice(width, count, replace=False, shuffle=False))

    def sampled(self, places: int, width: int, equations: int = 1) -> None:
        """So many equations hold at so many places of so many."""
        self.screened["sampled"] += equations
        self.places[places] += equations
        self.share = min(self.share, places / width)

    def _sampled(self, claimed: Any, total: Total, dtype: str) -> Judgement | None:
        if any(part is not None for part in total.parts):
            return None
        whole = [followed(origin, brief=True) for origin in total.origins if origin is not None]
        found = at_places([Part(part.slabs, part.output) for part in whole], claimed, self.choose)
        if found is None:
            return None
        parts, claim, places, width = found
        made = [
            each.origin.rounded(each.D, part.slabs.value(part.output)) for each, part in zip(whole, parts, strict=True)
        ]
        derived = settled(made, dtype)
        near = measured(claim, derived).judgement()
        if near.verdict != "holds" or any(part.doubtful for part in whole):
            return None
        if _leans((claim - derived.value) * derived.value, float(np.vdot(derived.value, derived.value)), dtype):
            return None
        self.sampled(places, width)
        return near

    def _projected(self, claimed: Any, total: Total, dtype: str) -> Judgement | None:
        parts = [part if origin is None else origin for part, origin in zip(total.parts, total.origins, strict=True)]
        graphs = [part.derivation() if isinstance(part, Origin) else None for part in parts]
        if not any(graph is not None and _multiplies(graph[0]) for graph in graphs):
            return None
        axis = _axis(np.shape(claimed), parts, graphs)
        if axis is None:
            return None
        # In float32, in which they multiply what is large, they are the same.
        weights = self.random.standard_normal((claimed.shape[axis], PROBES), np.float32).astype(np.float64)
        said = _beside(claimed.size > LARGE, combined, claimed, axis, weights)
        shadows = [_shadow(part, graph, axis, weights) for part, graph in zip(parts, graphs, strict=True)]
        unit = FORMATS[dtype].unit
        last = unit * norms(claimed, (axis,)) if unit > FORMATS["float32"].unit else 0.0
        last = last + (own_growth(len(weights)) if claimed.size > LARGE else 0.0) * sum(s.size for s in shadows)
        return _judged(said(), last, shadows, dtype)

    def said(self, checked: int) -> dict[str, Any]:
        """What the verdict says of it."""
        return {
            "projected": self.screened["projected"],
            "sampled": self.screened["sampled"],
            "in_full": checked - self.screened.total(),
            "probes": PROBES,
            "share": self.share,
            "places": {str(places): self.places[places] for places in sorted(self.places)},
            "digested": DIGESTED,
            "missed": (
                f"a row of a product that is off by ρ thresholds, with probability (0.9/ρ)^{PROBES}; what is wrong in a part f "
                "of the places of what is sampled, with probability (1 − f)^k, where k places were looked at; that a tensor of an "
                f"earlier step was changed since, with probability {1 - DIGESTED:.4g}, but for the equations that read it"
            ),
        }


def _of_few(claimed: Any, total: Total, dtype: str) -> Judgement | None:
    """What is made of few numbers, each of them made of many: those are known roughly."""
    origin = total.origins[0]
    if len(total.origins) > 1 or origin is None or origin.form != ("float32", None) or dtype != "float32":
        return None
    whole = followed(origin, brief=True)
    few = heavy(whole.slabs, whole.output)
    try:
        for value in few:
            whole.slabs.know(value, rough(whole.slabs, value))
    except DomainError:
        return None
    found = measured(claimed, whole.slabs.plainly(whole.output)).judgement() if few else None
    return found if found is not None and found.verdict == "holds" and not whole.doubtful else None


def _is_moved(claimed: Any, total: Total) -> bool:
    """Whether what is claimed are the numbers that it is made of, in another order. All are looked at: there is nothing to bound."""
    origin = total.origins[0]
    if len(total.origins) > 1 or origin is None or origin.stored:
        return False
    graph, leaves, output = origin.derivation()
    if any(isinstance(leaf, Bound) for leaf in leaves):
        return False
    return is_moved(graph, output) and same_numbers(moved(graph, leaves, output), claimed)


def _multiplies(graph: Graph) -> bool:
    return any(node.op in PRODUCTS for node in graph.nodes)


def _leans(pulls: Any, size: float, dtype: str) -> bool:
    """Whether errors go one way, more than what fair signs of these pulls (each error times its value) add up to."""
    fair = SLOPE_LAMBDA * math.sqrt(float(np.vdot(pulls, pulls)))
    return not abs(float(np.sum(pulls))) <= SMALLEST * FORMATS[dtype].unit * size + fair


def _beside(worth: bool, function: Callable[..., Any], *given: Any) -> Callable[[], Any]:
    """A function's result, once it is asked for; made in the meantime, where that is worth while."""
    pool = threads("combining") if worth else None
    return partial(function, *given) if pool is None else pool.submit(function, *given).result


def _axis(shape: tuple[int, ...], parts: Sequence[Any], graphs: Sequence[Any]) -> int | None:
    """The axis to combine, the shortest that can be: of the fewest numbers a single wrong one stands out most."""
    for part, found in zip(parts, graphs, strict=True):
        if found is not None and (part.form[0] == "tf32" or any(isinstance(leaf, Bound) for leaf in found[1])):
            return None
    for axis in sorted((axis for axis, n in enumerate(shape) if n >= SHORT), key=lambda axis: shape[axis]):
        if all(found is None or is_linear(found[0], found[2], axis) for found in graphs):
            return axis
    return None


def _shadow(part: Any, graph: Any, axis: int, weights: Any) -> Shadow:
    if isinstance(part, Bound):
        value = combined(part.value, axis, weights)
        off = np.zeros(part.shape) if part.likely is None else np.broadcast_to(part.likely, part.shape)
        return Shadow(value, np.linalg.norm(off, axis=axis, keepdims=True), 1.0)
    derivation, leaves, output = graph
    found = Projection(derivation, Bounded(*part.form), leaves, weights).shadow(output, axis)
    return Shadow(found.value, found.size, found.growth + (FORMATS[part.stored].unit if part.stored else 0.0))


def _judged(said: Any, last: Any, shadows: Sequence[Shadow], dtype: str) -> Judgement:
    """Whether every combination is as near as that of honest errors, likely; if not, the whole has to be looked at.

    `last` is what rounding to a coarser format than that of the sums, and combining itself, may add.
    """
    with np.errstate(all="ignore"):
        value = reduce(np.add, (shadow.value for shadow in shadows))
        off = said - value
        unit = FORMATS[dtype].unit
        most = sum(shadow.size * np.float64(shadow.growth) for shadow in shadows)
        most = most + (len(shadows) - 1) * unit * sum(shadow.size for shadow in shadows if shadow.growth != 1.0)
        most = most + last + FORMATS[dtype].underflow
        ratio = abs(off)
        ratio /= np.where(np.isfinite(most), most, 0.0)  # of what is not bounded nothing is said here
        at = np.unravel_index(int(np.argmax(ratio)), ratio.shape)  # the first that is not a number, if any is not
        off *= value
        size, lean = float(np.vdot(value, value)), float(np.sum(off))
        honest = float(ratio[at]) <= 1 and not _leans(off, size, dtype)
    largest = float(ratio[at])
    slope = lean / size if size > 0 else 0.0
    numbers = float(said[at]), float(value[at]), float(np.broadcast_to(most, said.shape)[at])
    return Judgement("holds" if honest else "broken", largest, largest, slope, *numbers, ())

"""How far rounding may pull a whole result one way: what every element has in common, which no averaging removes.

A constant is rounded once for all elements, a multiplication may stand for a division, and the error of an elementary function
depends on its argument alone. What such an error does to a weighted sum of the result is found backward: with ā = ∂⟨w, result⟩/∂a,
a relative error δ that all of a shares moves the sum by δ·⟨ā, a⟩, and errors of any signs by at most Σ|ā·a|·|δ|.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.engine.domain import float64
from backproof.engine.evaluate import evaluate
from backproof.ir.backprop import backprop
from backproof.ir.graph import Graph
from backproof.ir.primitives.elementwise import EXP_ULPS, LOG_ULPS
from backproof.ir.rounding import Rounds, Special, Sums
from backproof.numerics import Format

OTHERWISE = 4.0
"""A kernel may order its operations otherwise than the graph: this many times what the graph's own order shares is allowed for."""
MEANS = 2.0
"""Units of roundoff that all sums may share: a mean may be a product with a rounded 1/n."""
CENTRED_ULPS = 2.0
"""Up to so many units a function's error is a rounding; beyond, it may lean to one side as its argument has it."""


def coherent_pull(graph: Graph, leaves: Sequence[Any], output: int, weights: Any, fmt: Format) -> float:
    """The most that shared errors change Σ weights·output."""
    D = float64()
    values = evaluate(graph, D, leaves)
    with np.errstate(all="ignore"):
        adjoints = backprop(graph, D, values, {output: weights})
        total = 0.0
        for value, node in enumerate(graph.nodes, len(graph.leaves)):
            adjoint = adjoints[value]
            if adjoint is None or graph.types[value].kind != "real":
                continue
            shared, each, absolute = _units(node.primitive.rounding, node.op)
            moved = adjoint * values[value]
            total += fmt.unit * OTHERWISE * shared * abs(float(np.sum(moved)))
            total += fmt.unit * each * float(np.sum(abs(moved)))
            total += (fmt.unit * absolute + fmt.underflow) * float(np.sum(abs(adjoint)))
    return total if np.isfinite(total) else np.inf


def _units(kind: Any, op: str) -> tuple[float, float, float]:
    """Of one operation, in units of roundoff: what all elements share, what each may have for itself, and what is absolute."""
    match kind:
        case Rounds(ulps=ulps, absolute=absolute) if ulps <= CENTRED_ULPS:
            return ulps, 0.0, absolute
        case Rounds(ulps=ulps, absolute=absolute):
            return 0.0, ulps, absolute
        case Sums():
            return MEANS, 0.0, 0.0
        case Special() if op == "logsumexp":
            return MEANS, EXP_ULPS + LOG_ULPS, 0.0
        case Special() if op in ("constant", "prod", "scatter_add", "scatter_along"):
            return MEANS, 0.0, 0.0
    return 0.0, 0.0, 0.0

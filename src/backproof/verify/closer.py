"""A closer look at an equation whose elements are within their bounds: did a decision fall the other way, is there a systematic error?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.numerics import FORMATS
from backproof.verify.equation import Judgement, Total
from backproof.verify.kernels import HALVES
from backproof.verify.origin import Origin
from backproof.verify.slope import SMALLEST, slope_bound


def looked_closer(
    found: Judgement, claimed: Any, derived: Bound | Total, origins: Sequence[Origin], dtype: str, computing: str
) -> tuple[Judgement, str]:
    """The judgement with its flips and with what rounding may make of its slope; and why it is broken after all."""
    if any(origin.doubtful for origin in origins) and found.ratio > 0:
        flips, margin = _flips(claimed, origins, dtype, computing)
        if flips:
            # What a flip explains is no systematic error; how far it may go is in the bound already.
            because = f"{flips} elements by decisions taken the other way, at margins up to {margin:.2g}"
            return found._replace(verdict="flip", flips=flips), because
    if abs(found.slope) > SMALLEST * FORMATS[dtype].unit:
        value = (derived.bound(FORMATS[dtype]) if isinstance(derived, Total) else derived).value
        bound = slope_bound(claimed, value, origins, dtype, computing)
        found = found._replace(slope_bound=bound)
        if abs(found.slope) > bound:
            return found._replace(verdict="broken"), "a systematic error, within the bounds of its elements"
    return found, ""


def _flips(claimed: Any, origins: Sequence[Origin], dtype: str, computing: str) -> tuple[int, float]:
    """How many elements no rounding explains unless a decision fell the other way; and the largest margin of one in doubt."""
    adds = "float32" if computing in HALVES else None
    settled, doubting = Bounded(computing, adds, doubting=False), Bounded(computing, adds)
    total = Total()
    for origin in origins:
        graph, leaves, output = origin.derivation()
        part = evaluate(graph, settled, leaves)[output]
        total.add(settled.cast(part, to=dtype) if dtype != computing else part)
        evaluate(graph, doubting, leaves)
    known = total.bound(FORMATS[dtype])
    gap = np.abs(np.asarray(claimed, dtype=np.float64) - known.value)
    beyond = gap > (0.0 if known.certain is None else known.certain)
    return int(np.count_nonzero(beyond)), doubting.margin

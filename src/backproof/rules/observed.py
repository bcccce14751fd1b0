"""What a framework's own format adds to an update that was observed as the difference of two parameters."""

from __future__ import annotations

import numpy as np

from backproof.engine.scalar import Positions
from backproof.rules.ball import FLOAT64, SLACK, Ball
from backproof.rules.rule import Ledger


def observed_update(ledger: Ledger, which: Positions, found: Ball) -> Ball:
    """An update that float32 parameters can show: their own rounding stays in the difference."""
    if ledger.unit == FLOAT64:
        return found
    updates = ledger.layout.updates
    sizes = sum(np.abs(ledger.values(updates.column(key)[which])) for key in ("weight_before", "weight_after"))
    return found.widened(SLACK * ledger.unit * np.asarray(sizes))

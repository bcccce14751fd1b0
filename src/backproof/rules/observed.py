"""What a framework's own format adds to an update that was observed as the difference of two parameters."""

from __future__ import annotations

from backproof.engine.scalar import Positions
from backproof.rules.ball import FLOAT64, Ball
from backproof.rules.rule import Ledger


def observed_update(ledger: Ledger, which: Positions, found: Ball) -> Ball:
    """An update that float32 parameters can show: their own rounding stays in the difference."""
    if ledger.unit == FLOAT64:
        return found
    updates = ledger.layout.updates
    return found.widened(*(ledger.ball(updates.column(key)[which]) for key in ("weight_before", "weight_after")))

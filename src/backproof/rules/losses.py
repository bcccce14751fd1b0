"""The loss of a forward pass, as equations from its recorded outputs: rules 12, 29 and 32 share them."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.engine.scalar import Positions, losses
from backproof.rules.ball import BALLS
from backproof.rules.rule import Equation, Ledger


def loss_equations(
    ledger: Ledger, target: Positions, out: Positions, per_output: Positions, total: Positions
) -> Iterator[Equation]:
    """Each output's loss from its target and output, and the total from the losses as derived."""
    layout = ledger.layout
    loss = layout.topology.loss or "half_squared_error"
    found = losses(BALLS, loss, ledger.ball(target), ledger.ball(out))
    formula = "−t · ln p" if layout.softmax else "½ (t − o)²"
    yield Equation(per_output, found, formula, (target, out), layout.outputs)
    if not out.size:
        return
    summed = BALLS.total(found, axis=-1)[:, None]
    yield Equation(total, summed, "the sum over the outputs", (target[None, :], out[None, :]))
    stored = BALLS.total(ledger.ball(per_output), axis=-1)[:, None]
    yield Equation(total, stored, "the sum of the stored losses", (per_output[None, :],))

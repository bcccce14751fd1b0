"""The loss of a forward pass, as equations from its recorded outputs: rules 12, 29 and 32 share them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.engine.scalar import Layer, losses
from backproof.engine.scalar_domain import Positions
from backproof.rules.ball import BALLS, Ball
from backproof.rules.layout import Layout
from backproof.rules.observed import observed_loss
from backproof.rules.rule import Equation, Ledger


def loss_equations(
    ledger: Ledger, target: Positions, outputs: tuple[Positions, Positions], per_output: Positions, total: Positions
) -> Iterator[Equation]:
    """Each output's loss from its target and output, and the total from the losses as derived.

    `outputs` are the columns of the last layer's net inputs and outputs.
    """
    layout, (net, out) = ledger.layout, outputs
    if not out.size:
        return
    goal, layer = ledger.ball(target), Layer(ledger.ball(net), ledger.ball(out))
    found = _derived(layout, goal, layer)
    because = "−t · ln p" if layout.softmax else "½ (t − o)²"
    source = net[None, :] if layout.softmax and layout.is_lossless else out
    yield Equation(per_output, observed_loss(layout, found, goal, layer), because, (target, source), layout.outputs)
    for losses_of, because, given in (
        (found, "the sum over the outputs", (target[None, :], np.atleast_2d(source))),
        (ledger.ball(per_output), "the sum of the stored losses", (per_output[None, :],)),
    ):
        summed = observed_loss(layout, losses_of, goal, layer)
        yield Equation(total, BALLS.total(summed, axis=-1)[:, None], because, given)


def _derived(layout: Layout, target: Ball, layer: Layer) -> Ball:
    """The losses from nine digits of the probabilities, which say more of ln p than nine digits of the net inputs.

    Where all digits are written, or the probability is 0, the net inputs say more.
    """
    found = losses(BALLS, layout.topology.loss or "half_squared_error", target, layer)
    if not layout.softmax or layout.is_lossless:
        return found
    return BALLS.unless_lost(layer.out, BALLS.unless_zero(target, -target * BALLS.log(layer.out)), found)

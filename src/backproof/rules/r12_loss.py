"""The loss is what its formula gives from targets and outputs."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.losses import loss_equations
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """½(t − o)² or −t·ln p for each output, and their sum."""
    layout = ledger.layout
    yield from loss_equations(
        ledger,
        layout.named("targets", names=layout.outputs),
        (layout.of_units("net", layout.outputs), layout.of_units("out", layout.outputs)),
        layout.named("loss", "per_output", names=layout.outputs),
        layout.one("loss", "total"),
    )


RULE = Rule(
    12,
    "loss",
    "loss(o) = ½(t − o)² or −t·ln p; total = Σ loss(o)",
    "A loss from another step, another reduction or another formula looks plausible by itself.",
    applies=lambda layout: not layout.has_batch,
    equations=equations,
    mutations=(
        Mutation("the total is stale", "sgd", "loss.total", "nudge"),
        Mutation("one output's loss is stale", "softmax", "loss.per_output.o1", "nudge"),
    ),
)

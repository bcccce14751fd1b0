"""A weight after its update is the weight before plus the update."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.engine.scalar_domain import Positions
from backproof.rules.ball import Ball
from backproof.rules.observed import observed_sum
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def stepped(ledger: Ledger, which: Positions, before: Positions) -> tuple[Ball, tuple[Positions, ...]]:
    """What becomes of parameters: before + update, or with AdamW (1 − η·λ)·before + update."""
    updates = ledger.layout.updates
    update = updates.column("update")[which]
    kept, given = ledger.ball(before), [before, update]
    if which.size and updates.names[which[0]] == "adamw":
        rate = updates.column("optimizer", "learning_rate")[which]
        kept = (1.0 - ledger.ball(rate) * ledger.setting("weight_decay")) * kept
        given += [rate, *ledger.settings("weight_decay")]
    moved = ledger.ball(update)
    return observed_sum(ledger, kept + moved, kept, moved), tuple(given)


def equations(ledger: Ledger) -> Iterator[Equation]:
    """weight_after = weight_before + update."""
    updates = ledger.layout.updates
    before, after = updates.column("weight_before"), updates.column("weight_after")
    for which in (updates.using("sgd", "sgd_momentum", "adam"), updates.using("adamw")):
        if which.size:
            found, given = stepped(ledger, which, before[which])
            ids = tuple(updates.ids[i] for i in which)
            yield Equation(after[which], found, "weight before + update", given, ids)


RULE = Rule(
    6,
    "weight-after",
    "weight_after = weight_before + update (AdamW: (1 − η·λ)·weight_before + update)",
    "An update that is not applied, or applied twice, is invisible in the gradients.",
    equations=equations,
    mutations=(
        Mutation("the weight stays as it was", "sgd", "updates.0.weight_after", "nudge"),
        Mutation("the decay is forgotten", "adamw", "updates.0.weight_after", "nudge"),
    ),
)

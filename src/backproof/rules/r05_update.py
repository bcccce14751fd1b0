"""A plain SGD update is the learning rate times the (decayed) gradient."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.observed import observed_update
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """update = η·(gradient − λ·w)."""
    layout, updates = ledger.layout, ledger.layout.updates
    plain = updates.using("sgd")
    if not plain.size:
        return
    rate, gradient, weight = (
        updates.column(*path)[plain] for path in (("optimizer", "learning_rate"), ("gradient",), ("weight_before",))
    )
    effective = ledger.ball(gradient)
    given = [rate, gradient]
    if layout.setting("weight_decay") >= 0:
        effective = effective - ledger.setting("weight_decay") * ledger.ball(weight)
        given += [weight, *ledger.settings("weight_decay")]
    found = observed_update(ledger, plain, ledger.ball(rate) * effective)
    ids = tuple(updates.ids[i] for i in plain)
    yield Equation(updates.column("update")[plain], found, "η · (gradient − λ · weight)", tuple(given), ids)


RULE = Rule(
    5,
    "sgd-update",
    "update = η · (gradient − λ · w)",
    "The bound is relative to the update itself, so that a lost sign shows at a learning rate of 1e-6 too.",
    applies=lambda layout: bool(layout.updates.using("sgd").size),
    equations=equations,
    mutations=(
        Mutation("the sign is lost at a tiny rate", "tiny-rate", "updates.0.update", "negate"),
        Mutation("the update is zero at a tiny rate", "tiny-rate", "updates.0.update", "zero"),
        Mutation("the decay is dropped", "decay", "updates.0.update", "nudge"),
    ),
)

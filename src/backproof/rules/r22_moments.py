"""Adam's moments are running means of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.layout import Layout
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def applies(layout: Layout) -> bool:
    """Adam and AdamW."""
    complete = all(layout.setting(key) >= 0 for key in ("beta1", "beta2", "epsilon", "t"))
    return complete and bool(layout.updates.using("adam", "adamw").size)


def equations(ledger: Ledger) -> Iterator[Equation]:
    """m′ = β₁m + (1 − β₁)g; v′ = β₂v + (1 − β₂)g²."""
    updates = ledger.layout.updates
    which = updates.using("adam", "adamw")
    gradient = updates.column("gradient")[which]
    g = ledger.ball(gradient)
    ids = tuple(updates.ids[i] for i in which)
    for key, beta, power, formula in (
        ("m", "beta1", g, "β₁ · m + (1 − β₁) · gradient"),
        ("v", "beta2", g * g, "β₂ · v + (1 − β₂) · gradient²"),
    ):
        before = updates.column("optimizer", "state_before", key)[which]
        decay = ledger.setting(beta)
        found = decay * ledger.ball(before) + (1.0 - decay) * power
        given = (before, gradient, *ledger.settings(beta))
        yield Equation(updates.column("optimizer", "state_after", key)[which], found, formula, given, ids)


RULE = Rule(
    22,
    "adam-moments",
    "m′ = β₁m + (1 − β₁)g; v′ = β₂v + (1 − β₂)g²",
    "Swapped betas and stale moments train, only worse.",
    applies=applies,
    equations=equations,
    mutations=(
        Mutation("the first moment is stale", "adam", "updates.0.optimizer.state_after.m", "nudge"),
        Mutation("the second moment is stale", "adamw", "updates.0.optimizer.state_after.v", "nudge"),
        Mutation("beta2 is another", "adam", "optimizer_config.beta2", "nudge"),
    ),
)

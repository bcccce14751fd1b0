"""Adam's update follows from its moments after the step."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.ball import BALLS
from backproof.rules.observed import observed_update
from backproof.rules.r22_moments import applies
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """update = η·m̂ / (√v̂ + ε), m̂ = m′/(1 − β₁ᵗ), v̂ = v′/(1 − β₂ᵗ)."""
    updates = ledger.layout.updates
    which = updates.using("adam", "adamw")
    m, v = (updates.column("optimizer", "state_after", key)[which] for key in ("m", "v"))
    rate = updates.column("optimizer", "learning_rate")[which]
    t = ledger.setting("t")
    m_hat = ledger.ball(m) / (1.0 - BALLS.power(ledger.setting("beta1"), t))
    v_hat = ledger.ball(v) / (1.0 - BALLS.power(ledger.setting("beta2"), t))
    root = BALLS.sqrt(v_hat)
    found = (ledger.ball(rate) * m_hat) / (root + ledger.setting("epsilon"))
    given = (m, v, rate, *ledger.settings("beta1", "beta2", "epsilon", "t"))
    ids = tuple(updates.ids[i] for i in which)
    found = observed_update(ledger, which, found)
    yield Equation(updates.column("update")[which], found, "η · m̂ / (√v̂ + ε)", given, ids)


RULE = Rule(
    24,
    "adam-update",
    "update = η·m̂ / (√v̂ + ε)",
    "An omitted bias correction, or ε under the root, leaves the moments intact and every update wrong.",
    applies=applies,
    equations=equations,
    mutations=(
        Mutation("the update is nudged", "adam", "updates.0.update", "nudge"),
        Mutation("the sign is lost", "adamw", "updates.1.update", "negate"),
    ),
)

"""A momentum buffer and the update that follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.layout import Layout
from backproof.rules.observed import observed_update
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def applies(layout: Layout) -> bool:
    """SGD with momentum."""
    return layout.setting("momentum") >= 0 and bool(layout.updates.using("sgd_momentum").size)


def equations(ledger: Ledger) -> Iterator[Equation]:
    """b′ = μ·b + (1 − τ)·(g − λ·w); update = η·b′, or η·(g − λ·w + μ·b′) with Nesterov."""
    layout, updates = ledger.layout, ledger.layout.updates
    which = updates.using("sgd_momentum")
    gradient, weight = updates.column("gradient")[which], updates.column("weight_before")[which]
    before, after = (updates.column("optimizer", state, "buffer")[which] for state in ("state_before", "state_after"))
    rate = updates.column("optimizer", "learning_rate")[which]
    momentum = ledger.setting("momentum")
    effective, given = ledger.ball(gradient), [gradient]
    if layout.setting("weight_decay") >= 0:
        effective = effective - ledger.setting("weight_decay") * ledger.ball(weight)
        given += [weight, *ledger.settings("weight_decay")]
    given += [*ledger.settings("momentum", "dampening")]
    ids = tuple(updates.ids[i] for i in which)
    buffer = momentum * ledger.ball(before) + (1.0 - ledger.setting("dampening")) * effective
    yield Equation(after, buffer, "μ · buffer + (1 − dampening) · gradient", (*given, before), ids)
    stored = ledger.ball(after)
    direction = effective + momentum * stored if layout.nesterov else stored
    found = observed_update(ledger, which, ledger.ball(rate) * direction)
    because = "η · (gradient + μ · buffer)" if layout.nesterov else "η · buffer"
    yield Equation(updates.column("update")[which], found, because, (*given, after, rate), ids)


RULE = Rule(
    21,
    "momentum",
    "b′ = μ·b + (1 − τ)(g − λ·w); update = η·b′ (Nesterov: η·(g − λ·w + μ·b′))",
    "Frameworks differ in where the decay, the dampening and the look-ahead enter.",
    applies=applies,
    equations=equations,
    mutations=(
        Mutation("the buffer is stale", "momentum", "updates.0.optimizer.state_after.buffer", "nudge"),
        Mutation("the look-ahead is dropped", "nesterov", "updates.0.update", "nudge"),
        Mutation("the coefficient is another", "nesterov", "optimizer_config.momentum", "nudge"),
    ),
)

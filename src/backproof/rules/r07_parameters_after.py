"""Every parameter after the step is the one before plus its update, or unchanged."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.layout import positions
from backproof.rules.r06_weight_after import stepped
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """parameters_after = parameters_before + update."""
    layout, updates = ledger.layout, ledger.layout.updates
    before, after = updates.parameter("parameters_before"), updates.parameter("parameters_after")
    for which in (updates.using("sgd", "sgd_momentum", "adam"), updates.using("adamw")):
        if which.size:
            found, given = stepped(ledger, which, before[which])
            ids = tuple(updates.ids[i] for i in which)
            yield Equation(after[which], found, "parameter before + update", given, ids)
    updated = set(updates.ids)
    still = tuple(name for name in layout.parameters if name not in updated)
    if still:
        held = layout.named("parameters_before", names=still)
        said = layout.named("parameters_after", names=still)
        yield Equation(positions(said), ledger.ball(held), "no update: unchanged", (held,), still)


RULE = Rule(
    7,
    "parameters-after",
    "parameters_after = parameters_before + update; without an update, unchanged",
    "The next step starts from these numbers, not from those of the updates.",
    equations=equations,
    mutations=(
        Mutation("a parameter moves further", "sgd", "parameters_after.*", "nudge"),
        Mutation("a parameter stays", "adam", "parameters_after.*", "zero"),
    ),
)

"""A step starts from the parameters that the step before it left."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.across import pairs
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """parameters_before(i) = parameters_after(i − 1)."""
    names = tuple(ledger.layout.shape.mapping("parameters_before"))
    said = ledger.layout.named("parameters_before", names=names)
    for pair in pairs(ledger):
        yield pair.equation(
            said, lambda layout: layout.named("parameters_after", names=names), "what the step before left", names
        )


RULE = Rule(
    9,
    "chain",
    "parameters_before(i) = parameters_after(i − 1)",
    "A run is a chain. A record that was replaced, removed or reordered breaks it.",
    equations=equations,
    across=True,
    mutations=(Mutation("a step starts elsewhere", "bundle", "1.parameters_before.*", "nudge"),),
)

"""A gradient is the product of its factors."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.products import product_equations
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """gradient = f₁·f₂·…, from left to right."""
    layout = ledger.layout
    rows = []
    for i, name in enumerate(layout.updates.ids):
        factors = [layout.shape.column(*path, "value") for path in layout.updates.factors(i)]
        rows.append((name, factors, layout.shape.column("updates", i, "gradient")))
    yield from product_equations(ledger, rows, "the product of its factors")


RULE = Rule(
    4,
    "gradient",
    "gradient(w) = ∏ factors(w)",
    "The gradient of a weight is the error signal above it times the activation below it.",
    equations=equations,
    mutations=(
        Mutation("the gradient is nudged", "sgd", "updates.0.gradient", "nudge"),
        Mutation("the sign is lost", "adam", "updates.1.gradient", "negate"),
    ),
)

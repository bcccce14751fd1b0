"""An output's error signal is the product of its factors."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.receipt.columns import Path
from backproof.rules.observed import observed_signal
from backproof.rules.products import product_equations
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """signal = f₁·f₂·…, from left to right."""
    layout = ledger.layout
    rows: list[tuple[str, list[int], int]] = []
    for unit in layout.shape.mapping("backward", "output_error_signals"):
        root: Path = ("backward", "output_error_signals", unit)
        count = len(layout.shape.many(*root, "factors"))
        factors = [layout.shape.column(*root, "factors", j, "value") for j in range(count)]
        rows.append((unit, factors, layout.shape.column(*root, "signal_value")))
    yield from product_equations(ledger, rows, "the product of its factors", observed_signal)


RULE = Rule(
    1,
    "output-signal",
    "signal(o) = ∏ factors(o)",
    "The signal of an output unit starts the backward pass: everything below it is wrong if it is.",
    equations=equations,
    mutations=(
        Mutation("the sign is lost", "sgd", "backward.output_error_signals.*.signal_value", "negate"),
        Mutation("a factor is doubled", "sgd", "backward.output_error_signals.*.factors.1.value", "double"),
    ),
)

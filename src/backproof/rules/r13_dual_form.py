"""The short form of softmax with cross entropy agrees with the long one over the Jacobian."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.engine.scalar_domain import Positions
from backproof.receipt.columns import Path
from backproof.rules.ball import BALLS
from backproof.rules.layout import Layout, positions
from backproof.rules.products import product_equations
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def duals(layout: Layout) -> Iterator[tuple[str, Path]]:
    """The output units that have a dual form, and where it stands."""
    for unit, signal in layout.shape.mapping("backward", "output_error_signals").items():
        if isinstance(signal, dict) and isinstance(signal.get("dual_form"), dict):
            yield unit, ("backward", "output_error_signals", unit, "dual_form")


def equations(ledger: Ledger) -> Iterator[Equation]:
    """term = ∏ factors; summed = Σ term; summed = signal."""
    shape = ledger.layout.shape
    rows = []
    for unit, root in duals(ledger.layout):
        terms: list[Path] = [(*root, "jacobian_terms", k) for k in range(len(shape.many(*root, "jacobian_terms")))]
        for term in terms:
            count = len(shape.many(*term, "factors"))
            factors = [shape.column(*term, "factors", j, "value") for j in range(count)]
            rows.append((unit, factors, shape.column(*term, "term_value")))
        values = positions(shape.column(*term, "term_value") for term in terms)
        said = positions([shape.column(*root, "summed_value")])
        if values.size:
            summed = BALLS.total(ledger.ball(values), axis=-1)[:, None]
            yield Equation(said, summed, "the sum of the terms", (values[None, :],), (unit,))
            yield _short_form(ledger, unit, said, values)
    yield from product_equations(ledger, rows, "the product of its factors")


def _short_form(ledger: Ledger, unit: str, said: Positions, terms: Positions) -> Equation:
    """Σⱼ yⱼ(δⱼᵤ − pᵤ) = y(u) − pᵤ·Σⱼ yⱼ, which is the signal and what the targets miss of 1; n terms round n times."""
    layout = ledger.layout
    signal = layout.one("backward", "output_error_signals", unit, "signal_value")
    out, targets = layout.one("forward", unit, "out"), layout.named("targets", names=layout.outputs)
    missed = 1.0 - BALLS.total(ledger.ball(targets), axis=-1)[:, None]
    rounded = float(terms.size) * ledger.ball(terms)
    found = (ledger.ball(signal) + ledger.ball(out) * missed).widened(*(rounded[:, k, None] for k in range(terms.size)))
    return Equation(said, found, "the short form of the same signal", (signal, out, targets[None, :]), (unit,))


RULE = Rule(
    13,
    "dual-form",
    "Σⱼ yⱼ(δⱼᵤ − pᵤ) = y(u) − p(u)",
    "The short form holds only for softmax and cross entropy together; the long one is the chain rule itself.",
    applies=lambda layout: any(True for _ in duals(layout)),
    equations=equations,
    mutations=(
        Mutation(
            "a term is nudged",
            "softmax",
            "backward.output_error_signals.o1.dual_form.jacobian_terms.0.term_value",
            "nudge",
        ),
        Mutation("the sum is nudged", "softmax", "backward.output_error_signals.o1.dual_form.summed_value", "nudge"),
    ),
)

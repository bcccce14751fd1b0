"""A hidden unit's error signal is what flows into it times its activation's derivative."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """signal = backpropagated_sum · activation_derivative."""
    layout = ledger.layout
    summed = layout.signal("hidden", "backpropagated_sum")
    derivative = layout.signal("hidden", "activation_derivative")
    found = ledger.ball(summed) * ledger.ball(derivative)
    said = layout.signal("hidden", "signal_value")
    yield Equation(said, found, "backpropagated sum · activation derivative", (summed, derivative), layout.hidden)


RULE = Rule(
    3,
    "hidden-signal",
    "signal(h) = sum(h) · activation′(h)",
    "A missing derivative is the classic error of a hand-written backward pass.",
    equations=equations,
    mutations=(Mutation("the sign is lost", "sgd", "backward.hidden_error_signals.*.signal_value", "negate"),),
)

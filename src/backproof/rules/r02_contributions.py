"""What flows into a hidden unit is signal times weight, and its sum is the sum."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.ball import BALLS
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """value = downstream_signal · weight_value; backpropagated_sum = Σ value."""
    layout = ledger.layout
    for units, above in layout.hidden_layers:
        keys = ("value", "downstream_signal", "weight_value")
        value, signal, weight = (layout.contribution(key, units, above) for key in keys)
        if value.size == 0:
            continue
        ids = tuple(unit for unit in units for _ in above)
        flows = ledger.ball(signal) * ledger.ball(weight)
        yield Equation(value, flows, "downstream signal · weight", (signal, weight), ids)
        summed = BALLS.total(ledger.ball(value), axis=-1)
        said = layout.signals_of(units, "backpropagated_sum")
        yield Equation(said, summed, "the sum of the contributions", (value,), units)


RULE = Rule(
    2,
    "contributions",
    "contribution = downstream signal · weight; sum(h) = Σ contributions",
    "Backpropagation is this sum. A contribution that is left out or counted twice changes every gradient below.",
    equations=equations,
    mutations=(
        Mutation(
            "a contribution loses its sign",
            "sgd",
            "backward.hidden_error_signals.*.downstream_contributions.0.value",
            "negate",
        ),
        Mutation("the sum is nudged", "sgd", "backward.hidden_error_signals.*.backpropagated_sum", "nudge"),
    ),
)

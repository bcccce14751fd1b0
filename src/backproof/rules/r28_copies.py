"""A number that is written in two places is the same number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.engine.scalar import Layer, derivative
from backproof.engine.scalar_domain import Positions
from backproof.rules.ball import BALLS, Ball
from backproof.rules.layout import positions
from backproof.rules.r13_dual_form import duals
from backproof.rules.rule import Equation, Ledger, Mutation, Rule


def equations(ledger: Ledger) -> Iterator[Equation]:
    """Factors, contributions and updates repeat the numbers that they speak of."""
    yield from _output_factors(ledger)
    yield from _contributions(ledger)
    yield from _updates(ledger)
    yield from _dual_factors(ledger)


def _output_factors(ledger: Ledger) -> Iterator[Equation]:
    layout = ledger.layout
    target, out = layout.named("targets", names=layout.outputs), layout.of_units("out", layout.outputs)
    difference = ledger.ball(target) - ledger.ball(out)
    because = "target − output"
    yield Equation(_factor(ledger, 0), difference, because, (target, out), layout.outputs)
    if not layout.softmax:
        yield _slope(ledger, _factor(ledger, 1), layout.outputs, layout.topology.activation_output)
    for (units, _), activation in zip(layout.hidden_layers, layout.topology.activations, strict=False):
        yield _slope(ledger, layout.signals_of(units, "activation_derivative"), units, activation)


def _slope(ledger: Ledger, said: Positions, units: tuple[str, ...], activation: str) -> Equation:
    net, out = ledger.layout.of_units("net", units), ledger.layout.of_units("out", units)
    found = derivative(BALLS, activation, Layer(ledger.ball(net), ledger.ball(out)))
    return Equation(said, found, "activation′(net)", (net, out), units)


def _factor(ledger: Ledger, j: int) -> Positions:
    root = ("backward", "output_error_signals")
    shape = ledger.layout.shape
    return positions(shape.column(*root, unit, "factors", j, "value") for unit in ledger.layout.outputs)


def _contributions(ledger: Ledger) -> Iterator[Equation]:
    layout = ledger.layout
    edges = layout.topology.edges
    for units, above in layout.hidden_layers:
        ids = tuple(unit for unit in units for _ in above)
        signal = np.broadcast_to(layout.signals_of(above, "signal_value"), (len(units), len(above)))
        said = layout.contribution("downstream_signal", units, above)
        yield Equation(said, ledger.ball(signal), "the signal of the unit above", (signal,), ids)
        weights = [[edges.get((h, o), "") for o in above] for h in units]
        held = np.array([layout.named("parameters_before", names=row) for row in weights], dtype=np.intp)
        held = held.reshape(len(units), len(above))
        said = layout.contribution("weight_value", units, above)
        yield Equation(said, ledger.ball(held), "the weight before the step", (held,), ids)


def _updates(ledger: Ledger) -> Iterator[Equation]:
    layout, updates = ledger.layout, ledger.layout.updates
    for key, root in (("weight_before", "parameters_before"), ("weight_after", "parameters_after")):
        held = updates.parameter(root)
        yield Equation(updates.column(key), ledger.ball(held), f"the same number in {root}", (held,), updates.ids)
    rate = layout.one("learning_rate")
    said = updates.column("optimizer", "learning_rate")
    every = np.broadcast_to(rate, said.shape)
    yield Equation(said, ledger.ball(every), "the learning rate", (every,), updates.ids)
    if layout.setting("learning_rate") >= 0:
        config = np.array([layout.setting("learning_rate")])
        yield Equation(config, ledger.ball(rate), "the learning rate", (rate,))


def _dual_factors(ledger: Ledger) -> Iterator[Equation]:
    """yⱼ and δⱼᵤ − pᵤ of every term."""
    layout = ledger.layout
    targets, deltas, target, out, same, ids = [], [], [], [], [], []
    for unit, root in duals(layout):
        for k, term in enumerate(layout.shape.many(*root, "jacobian_terms")):
            name = term.get("target_unit") if isinstance(term, dict) else None
            place = (*root, "jacobian_terms", k, "factors")
            targets.append(layout.shape.column(*place, 0, "value"))
            deltas.append(layout.shape.column(*place, 1, "value"))
            target.append(layout.shape.column("targets", name if isinstance(name, str) else ""))
            out.append(layout.shape.column("forward", unit, "out"))
            same.append(1.0 if name == unit else 0.0)
            ids.append(unit)
    if not targets:
        return
    source, p = positions(target), positions(out)
    yield Equation(positions(targets), ledger.ball(source), "the target of the term's unit", (source,), tuple(ids))
    delta = Ball(np.array(same), np.zeros(len(same)), ledger.unit) - ledger.ball(p)
    yield Equation(positions(deltas), delta, "δ(j = u) − p(u)", (p,), tuple(ids))


RULE = Rule(
    28,
    "copies",
    "every factor, contribution, weight and rate is the number that it stands for",
    "Products can be right while their factors are invented: −1·−x for x.",
    equations=equations,
    mutations=(
        Mutation("a factor is nudged", "sgd", "backward.output_error_signals.*.factors.0.value", "nudge"),
        Mutation(
            "a contribution takes another weight",
            "sgd",
            "backward.hidden_error_signals.*.downstream_contributions.0.weight_value",
            "nudge",
        ),
        Mutation("an update has its own rate", "sgd", "updates.0.optimizer.learning_rate", "double"),
        Mutation("an update starts elsewhere", "sgd", "updates.0.weight_before", "nudge"),
    ),
)

"""The whole step, computed again from its leaves, is the step that was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from backproof.engine.scalar import Optimizer, Pass, Step, run_batch, run_step
from backproof.engine.scalar_domain import Positions
from backproof.receipt.columns import Path, written
from backproof.rules.ball import BALLS, Ball
from backproof.rules.layout import Layout
from backproof.rules.observed import observed_update
from backproof.rules.rule import Equation, Ledger, Mutation, Rule, Wrong

STATE = {"sgd_momentum": ("buffer",), "adam": ("m", "v"), "adamw": ("m", "v")}
NEEDED = {"sgd_momentum": ("momentum",), "adam": ("beta1", "beta2", "epsilon", "t")}
NEEDED["adamw"] = (*NEEDED["adam"], "weight_decay")


def leaves(layout: Layout) -> dict[str, Positions]:
    """The columns that a step is computed from."""
    found = {
        "learning_rate": layout.one("learning_rate"),
        "parameters_before": layout.named("parameters_before", names=layout.parameters),
    }
    if layout.has_batch:
        found["inputs"] = _per_sample(layout, "inputs", layout.inputs)
        found["targets"] = _per_sample(layout, "targets", layout.outputs)
    else:
        found["inputs"] = layout.named("inputs", names=layout.inputs)
        found["targets"] = layout.named("targets", names=layout.outputs)
    for key in NEEDED.get(layout.optimizer, ()):
        found[key] = layout.one("optimizer_config", key)
    names = tuple(parameter.id for parameter in layout.expected_updates)
    for key in STATE.get(layout.optimizer, ()):
        found[key] = layout.updates.of_parameters("optimizer", "state_before", key, names=names)
    return found


def _per_sample(layout: Layout, key: str, units: tuple[str, ...]) -> Positions:
    rows = [layout.named("per_sample", sample, key, names=units) for sample in layout.samples]
    return np.array(rows, dtype=np.intp).reshape(len(rows), len(units))


def labels(layout: Layout) -> Iterator[Wrong]:
    """A step that cannot be computed again says why."""
    if layout.wiring is None:
        yield Wrong("engine_recompute", "the network is not complete, so that the step cannot be computed again")
        return
    if layout.has_batch and len(set(layout.samples)) != len(layout.samples):
        yield Wrong("engine_recompute", "a sample is named twice, so that the step cannot be computed again")
    for name, columns in leaves(layout).items():
        if (columns < 0).any() or columns.size == 0:
            yield Wrong("engine_recompute", f"{name} is incomplete, so that the step cannot be computed again")
    for path in _computed(layout):
        if layout.shape.column(*path) < 0:
            yield Wrong(written(path), "the step computes this number, but the receipt does not have it")
    for parameter in layout.expected_updates:
        if parameter.id not in layout.updates.ids:
            yield Wrong(f"updates[{parameter.id}]", "the step updates it, but the receipt does not", id=parameter.id)


def _computed(layout: Layout) -> Iterator[Path]:
    """The places of the numbers that a step always has."""
    passes: list[Path] = [()]
    passes += [("per_sample", sample) for sample in layout.samples]
    for root in passes:
        for unit in layout.units:
            yield (*root, "forward", unit, "net")
            yield (*root, "forward", unit, "out")
        for unit in layout.outputs:
            yield (*root, "loss", "per_output", unit)
        yield (*root, "loss", "total")
    for side in ("output", "hidden"):
        for unit in layout.side(side):
            yield ("backward", f"{side}_error_signals", unit, "signal_value")
    for name in layout.parameters:
        yield ("parameters_after", name)


def equations(ledger: Ledger) -> Iterator[Equation]:
    """Every derived number, from inputs, targets, parameters, optimizer and its state."""
    layout = ledger.layout
    if any(True for _ in labels(layout)) or layout.wiring is None:
        return
    found = {name: ledger.ball(columns) for name, columns in leaves(layout).items()}
    optimizer = optimizer_of(ledger, found)
    state = {key: found[key] for key in STATE.get(layout.optimizer, ())}
    given = (found["parameters_before"], found["inputs"], found["targets"], optimizer, state)
    with np.errstate(all="ignore"):
        if layout.has_batch:
            mean = layout.shape.text("batch", "reduction") == "mean"
            step = run_batch(BALLS, layout.wiring, *given, mean=mean)
        else:
            step = run_step(BALLS, layout.wiring, *given)
    yield from _compare(ledger, step)


def optimizer_of(ledger: Ledger, found: dict[str, Ball]) -> Optimizer:
    """The engine's optimizer, with settings that are balls."""
    rate = found["learning_rate"][:, 0]

    def setting(key: str) -> Any:
        return ledger.setting(key)[:, 0]

    return Optimizer(
        name=ledger.layout.optimizer,
        learning_rate=rate,
        weight_decay=setting("weight_decay") if ledger.layout.setting("weight_decay") >= 0 else 0.0,
        momentum=setting("momentum"),
        dampening=setting("dampening"),
        nesterov=ledger.layout.nesterov,
        beta1=setting("beta1"),
        beta2=setting("beta2"),
        epsilon=setting("epsilon"),
        t=setting("t"),
    )


def _compare(ledger: Ledger, step: Step) -> Iterator[Equation]:
    layout = ledger.layout
    because = "the step computed again"
    yield from _passes(ledger, step.forward, layout.of_units)
    yield from _passes(ledger, step.post, layout.post_units)
    reduced = step.reduced or step.forward
    per_output = layout.named("loss", "per_output", names=layout.outputs)
    yield Equation(per_output, reduced.per_output, because, (), layout.outputs)
    yield Equation(layout.one("loss", "total"), reduced.total[:, None], because)
    post = layout.named("post_update_loss", "per_output", names=layout.outputs)
    yield Equation(post, step.post.per_output, because, (), layout.outputs)
    yield Equation(layout.one("post_update_loss", "total"), step.post.total[:, None], because)
    back = step.backward
    yield Equation(layout.signal("output", "signal_value"), back.signals[-1], because, (), layout.outputs)
    for k, (units, _) in enumerate(layout.hidden_layers):
        for key, found in (
            ("backpropagated_sum", back.sums[k]),
            ("activation_derivative", back.derivatives[k]),
            ("signal_value", back.signals[k]),
        ):
            yield Equation(layout.signals_of(units, key), found, because, (), units)
    yield from _factors(layout, back.output_factors)
    yield from _updates(ledger, step)
    after = layout.named("parameters_after", names=layout.parameters)
    yield Equation(after, step.parameters_after, because, (), layout.parameters)
    yield from _samples(layout, step.samples)


def _factors(layout: Layout, factors: tuple[Ball, ...]) -> Iterator[Equation]:
    for j, found in enumerate(factors):
        columns = [
            layout.shape.column("backward", "output_error_signals", unit, "factors", j, "value")
            for unit in layout.outputs
        ]
        yield Equation(np.array(columns, dtype=np.intp), found, "the step computed again", (), layout.outputs)


def _updates(ledger: Ledger, step: Step) -> Iterator[Equation]:
    layout, updates = ledger.layout, ledger.layout.updates
    because = "the step computed again"
    names = tuple(parameter.id for parameter in layout.expected_updates)
    place = {name: i for i, name in reversed(list(enumerate(updates.ids)))}
    yield Equation(updates.of_parameters("gradient", names=names), step.gradient, because, (), names)
    which = np.array([place.get(name, -1) for name in names], dtype=np.intp)
    update = step.update if (which < 0).any() else observed_update(ledger, which, step.update)
    yield Equation(updates.of_parameters("update", names=names), update, because, (), names)
    order = {name: i for i, name in enumerate(layout.parameters)}
    held = np.array([order[name] for name in names], dtype=np.intp)
    after = updates.of_parameters("weight_after", names=names)
    yield Equation(after, step.parameters_after[:, held], because, (), names)
    for key, found in step.state_after.items():
        said = updates.of_parameters("optimizer", "state_after", key, names=names)
        yield Equation(said, found, because, (), names)


def _passes(ledger: Ledger, computed: Pass, columns: Any) -> Iterator[Equation]:
    layout = ledger.layout
    for units, layer in zip(layout.computed_layers, computed.layers, strict=True):
        for what, found in (("net", layer.net), ("out", layer.out)):
            yield Equation(columns(what, units), found, "the step computed again", (), units)


def _samples(layout: Layout, computed: Pass | None) -> Iterator[Equation]:
    if computed is None:
        return
    because = "the step computed again"
    for s, sample in enumerate(layout.samples):
        root: Path = ("per_sample", sample)
        for units, layer in zip(layout.computed_layers, computed.layers, strict=True):
            for what, found in (("net", layer.net), ("out", layer.out)):
                yield Equation(layout.of_units(what, units, *root), found[:, s], because, (), units)
        per_output = layout.named(*root, "loss", "per_output", names=layout.outputs)
        yield Equation(per_output, computed.per_output[:, s], because, (), layout.outputs)
        yield Equation(layout.one(*root, "loss", "total"), computed.total[:, s, None], because)
        yield Equation(layout.one("loss", "per_sample", sample), computed.total[:, s, None], because)


RULE = Rule(
    14,
    "replay",
    "the engine, run on the recorded inputs, parameters and optimizer state, gives the recorded step",
    "The other rules tie each number to its neighbours; this one ties all of them to the leaves at once.",
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("a forward value is invented", "softmax", "forward.h1.net", "nudge"),
        Mutation("a state is invented", "adam", "updates.0.optimizer.state_after.m", "nudge"),
        Mutation("the loss after the update is invented", "momentum", "post_update_loss.total", "nudge"),
    ),
)

"""The network, its biases and its optimizers are coherent."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.rules.ball import Ball
from backproof.rules.layout import STATEFUL, Layout, is_number
from backproof.rules.rule import Equation, Keys, Label, Ledger, Mutation, Read, Rule, Violation, Wrong

OPTIMIZERS = ("sgd", *STATEFUL)


def labels(layout: Layout) -> Iterator[Label | Keys | Wrong | Read]:
    """Judge the wiring, the kinds of updates, the optimizers' names and who wrote the file."""
    shape, topology = layout.shape, layout.topology
    yield Read(
        (("bias_policy", "mode"), *(("updates", i, "optimizer", "name") for i in range(len(layout.updates.ids))))
    )
    for problem in topology.problems:
        yield Wrong(problem.path, problem.message, problem.said, problem.found)
    if shape.template.get("schema_version") != "0.1.0" or shape.get("topology", "bias_sharing"):
        sharing = topology.bias_sharing
        if layout.updates_biases and sharing != "per_neuron":
            yield Wrong("topology.bias_sharing", "biases can learn only one a neuron", sharing, "per_neuron")
    yield from _biases(layout)
    yield from _updates(layout)
    name = shape.get("optimizer_config", "name")
    if shape.get("optimizer_config") is not None and name not in OPTIMIZERS:
        yield Wrong("optimizer_config.name", "is no optimizer of the format", name)
    yield from _author(layout)
    for unit in layout.units:
        for key in ("net", "out"):
            if not is_number(shape.get("forward", unit, key)):
                yield Wrong(f"forward.{unit}.{key}", "a declared unit has no such number", None, "a number", unit)


def _updates(layout: Layout) -> Iterator[Label | Keys | Wrong]:
    for i, name in enumerate(layout.updates.ids):
        said = layout.shape.get("updates", i, "kind")
        parameter = layout.topology.by_id.get(name)
        if parameter is not None:
            kind = "bias" if parameter.is_bias else "weight"
            yield Label(("updates", i, "kind"), said, kind, "the role of the parameter says so", name)
        if layout.updates.names[i] not in OPTIMIZERS:
            yield Wrong(
                f"updates[{i}].optimizer.name", "is no optimizer of the format", layout.updates.names[i], id=name
            )


def _biases(layout: Layout) -> Iterator[Label | Keys | Wrong]:
    if layout.updates_biases:
        given = set(layout.updates.ids)
        for parameter in layout.topology.parameters:
            if parameter.is_bias and parameter.id not in given:
                message = "biases learn (mode sgd), but this one has no update"
                yield Wrong("bias_policy.mode", message, "sgd", "constant", parameter.id)
        return
    for i, name in enumerate(layout.updates.ids):
        if layout.shape.get("updates", i, "kind") == "bias":
            message = "biases are constant, but this one has an update"
            yield Wrong(f"updates[{i}].kind", message, "bias", "weight", name)


def _author(layout: Layout) -> Iterator[Label | Keys | Wrong]:
    state = layout.shape.get("fixture_status", "authoring_state")
    if layout.imported and state is not None:
        because = "it carries a framework or a provenance"
        yield Label(("fixture_status", "authoring_state"), state, "external_imported", because)


def equations(ledger: Ledger) -> Iterator[Equation | Violation]:
    """Constant biases stay as they are; softmax outputs are probabilities."""
    layout = ledger.layout
    if not layout.updates_biases:
        names = tuple(p.id for p in layout.topology.parameters if p.is_bias)
        before = layout.named("parameters_before", names=names)
        after = layout.named("parameters_after", names=names)
        yield Equation(after, ledger.ball(before), "constant biases do not change", (before,), names)
    if layout.softmax:
        out = layout.of_units("out", layout.outputs)
        values = ledger.values(out)
        half = Ball(np.full(values.shape, 0.5), np.full(values.shape, 0.5), ledger.unit)
        yield Equation(out, half, "a probability lies between 0 and 1", ids=layout.outputs)


RULE = Rule(
    0,
    "network",
    "the network is wired completely, biases follow their policy, names are known",
    "Every other rule reads the network from the file. A network that contradicts itself makes them meaningless.",
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("a constant bias moves", "sgd", "parameters_after.b_hidden", "nudge"),
        Mutation("a weight calls itself a bias", "sgd", "updates.0.kind", 'set:"bias"'),
        Mutation("a layer is larger than its units", "sgd", "topology.input_size", "set:3"),
        Mutation("a unit of the forward pass is gone", "softmax", "forward.o3", "drop"),
    ),
)

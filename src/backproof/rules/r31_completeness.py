"""Every map has exactly the declared keys, every list each declared entry once."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.receipt.columns import Path
from backproof.rules.layout import Layout
from backproof.rules.r13_dual_form import duals
from backproof.rules.rule import Keys, Label, Mutation, Rule, Wrong

DECLARED = "the topology declares these"
POST_REMARKS = {"status", "required_before_promotion", "fields_required", "fill_specification", "note", "units"}


def labels(layout: Layout) -> Iterator[Keys | Label | Wrong]:
    """Inputs, targets, parameters, forward passes, losses, signals and updates are complete and nothing more."""
    yield from _keys(layout, ("inputs",), layout.inputs)
    yield from _keys(layout, ("targets",), layout.outputs)
    yield from _keys(layout, ("parameters_before",), layout.parameters)
    yield from _keys(layout, ("parameters_after",), layout.parameters)
    for root in ((), *(("per_sample", sample) for sample in layout.samples)):
        if root:
            yield from _keys(layout, (*root, "inputs"), layout.inputs)
            yield from _keys(layout, (*root, "targets"), layout.outputs)
        yield from _keys(layout, (*root, "forward"), layout.units)
        yield from _keys(layout, (*root, "loss", "per_output"), layout.outputs)
    yield from _keys(layout, ("backward", "output_error_signals"), layout.outputs)
    yield from _keys(layout, ("backward", "hidden_error_signals"), layout.hidden)
    expected = tuple(parameter.id for parameter in layout.expected_updates)
    yield Keys(("updates",), layout.updates.ids, expected, "one update for each parameter that learns")
    for i, name in enumerate(layout.updates.ids):
        yield Label(("updates", i, "parameter_id"), name, name if name in expected else None, DECLARED, name)
    with_dual = {unit for unit, _ in duals(layout)}
    if with_dual and layout.softmax:
        for unit in layout.outputs:
            if unit not in with_dual:
                place = f"backward.output_error_signals.{unit}.dual_form"
                yield Wrong(place, "is missing, but the other outputs have it", id=unit)
    yield from _after(layout)


def _after(layout: Layout) -> Iterator[Keys | Label | Wrong]:
    held = layout.shape.mapping("post_update_forward")
    nested = layout.shape.mapping("post_update_forward", "units")
    said = tuple(nested or (key for key in held if key not in POST_REMARKS))
    yield Keys(("post_update_forward",), said, layout.units, DECLARED)
    yield from _keys(layout, ("post_update_loss", "per_output"), layout.outputs)


def _keys(layout: Layout, path: Path, expected: tuple[str, ...]) -> Iterator[Keys]:
    yield Keys(path, tuple(layout.shape.mapping(*path)), expected, DECLARED)


RULE = Rule(
    31,
    "completeness",
    "maps and lists have exactly what the topology declares, each once",
    "A signal or update that is left out is one that nobody checks; a ghost entry is one that nobody derived.",
    labels=labels,
    mutations=(
        Mutation("an update is gone", "sgd", "updates.0", "drop"),
        Mutation("an update is there twice", "sgd", "updates.0", "repeat"),
        Mutation("a signal is gone", "sgd", "backward.hidden_error_signals.h1", "drop"),
        Mutation("a ghost parameter", "sgd", "parameters_after.ghost", "set:1.0"),
        Mutation("a ghost output", "sgd", "loss.per_output.ghost", "set:0.0"),
    ),
)

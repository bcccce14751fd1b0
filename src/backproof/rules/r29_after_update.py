"""The forward pass and loss after the update are those of the new parameters."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.layout import Layout
from backproof.rules.losses import loss_equations
from backproof.rules.r27_forward import forward_equations
from backproof.rules.rule import Equation, Label, Ledger, Mutation, Rule


def labels(layout: Layout) -> Iterator[Label]:
    """Both blocks are filled."""
    for block in ("post_update_forward", "post_update_loss"):
        if layout.shape.get(block) is not None:
            said = layout.shape.get(block, "status")
            yield Label((block, "status"), said, "filled", "canonical receipts carry the step's outcome")


def equations(ledger: Ledger) -> Iterator[Equation]:
    """The same forward pass and loss with parameters_after.

    An import's net inputs may be those of the parameters that the importer derived, and not of the framework's rounded
    ones: rule 14 judges them, from the leaves.
    """
    layout = ledger.layout
    yield from forward_equations(
        ledger,
        layout.named("inputs", names=layout.inputs),
        None if layout.imported else "parameters_after",
        layout.post_units,
    )
    yield from loss_equations(
        ledger,
        layout.named("targets", names=layout.outputs),
        (layout.post_units("net", layout.outputs), layout.post_units("out", layout.outputs)),
        layout.named("post_update_loss", "per_output", names=layout.outputs),
        layout.one("post_update_loss", "total"),
    )


RULE = Rule(
    29,
    "after-update",
    "post_update_forward and post_update_loss follow from parameters_after",
    "Whether a step lowered the loss is what most readers look at first.",
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("the loss after the update is invented", "sgd", "post_update_loss.total", "nudge"),
        Mutation("a unit after the update is invented", "sgd", "post_update_forward.h1.net", "nudge"),
    ),
)

"""The loss of a batch is the reduction of its samples' losses."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.rules.ball import BALLS, Ball
from backproof.rules.layout import Layout
from backproof.rules.observed import observed_totals
from backproof.rules.rule import Equation, Label, Ledger, Mutation, Rule


def reduced(layout: Layout, values: Ball, axis: int) -> Ball:
    """Samples reduced as the batch says."""
    total = BALLS.total(values, axis=axis)
    return total / float(max(len(layout.samples), 1)) if layout.shape.text("batch", "reduction") == "mean" else total


def labels(layout: Layout) -> Iterator[Label]:
    """The loss says the same reduction as the batch."""
    expected = layout.shape.get("batch", "reduction")
    yield Label(("loss", "reduction"), layout.shape.get("loss", "reduction"), expected, "the batch's reduction")


def equations(ledger: Ledger) -> Iterator[Equation]:
    """loss.total = reduction of loss.per_sample."""
    layout = ledger.layout
    samples = layout.named("loss", "per_sample", names=layout.samples)
    if samples.size:
        found = reduced(layout, ledger.ball(samples), -1)[:, None]
        rounded = observed_totals(ledger)
        if rounded is not None:
            found = found.widened(reduced(layout, rounded, -1)[:, None])
        because = f"the {layout.shape.text('batch', 'reduction')} over the samples"
        yield Equation(layout.one("loss", "total"), found, because, (samples[None, :],))


RULE = Rule(
    18,
    "batch-loss",
    "loss.total = mean or sum of loss.per_sample",
    "A mean that is a sum scales every gradient, and no shape or sign shows it.",
    applies=lambda layout: layout.has_batch,
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("the total is a sum", "batch", "loss.total", "double"),
        Mutation("the reduction is another", "batch", "batch.reduction", 'set:"sum"'),
    ),
)

"""A batch has each of its samples once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from backproof.receipt.authoring.checks import MOST_SAMPLES
from backproof.rules.layout import Layout
from backproof.rules.rule import Keys, Label, Mutation, Rule, Wrong


def labels(layout: Layout) -> Iterator[Label | Keys | Wrong]:
    """sample_order is unique, as long as the batch, and names exactly the samples that are there."""
    shape, order = layout.shape, layout.samples
    for sample in sorted(sample for sample, times in Counter(order).items() if times > 1):
        yield Wrong("batch.sample_order", f"names {sample} twice", sample)
    if len(shape.many("batch", "sample_order")) > MOST_SAMPLES:
        yield Wrong("batch.sample_order", f"names more than the {MOST_SAMPLES} samples that a batch may have")
    size = shape.get("batch", "size")
    yield Label(("batch", "size"), size, len(order), "the number of samples in sample_order")
    unique = tuple(dict.fromkeys(order))
    for path in (("loss", "per_sample"), ("per_sample",)):
        yield Keys(path, tuple(shape.mapping(*path)), unique, "the samples of the batch")


RULE = Rule(
    19,
    "samples",
    "per_sample and loss.per_sample have exactly the samples of sample_order, each once",
    "A sample that is counted twice or left out changes the mean and nothing else.",
    applies=lambda layout: layout.has_batch,
    labels=labels,
    mutations=(
        Mutation("a sample is named twice", "batch", "batch.sample_order.1", 'set:"s0"'),
        Mutation("a sample's loss is gone", "batch", "loss.per_sample.s1", "drop"),
        Mutation("a sample is gone", "batch", "per_sample.s1", "drop"),
    ),
)

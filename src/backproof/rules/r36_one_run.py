"""The records of a bundle are steps of one run: same network, same policies, same framework."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.receipt.columns import Shape
from backproof.rules.across import pairs
from backproof.rules.rule import Ledger, Mutation, Rule, Violation

CONSTANT = (
    ("schema_version",),
    ("topology",),
    ("numeric_policy",),
    ("bias_policy",),
    ("source_framework",),
    ("attestor", "computed_by"),
    ("attestor", "verified_by"),
    ("fixture_status", "authoring_state"),
    ("batch",),
)
# PyTorch does not dampen a first step: dampening begins in the second, and with it the version that knows it.
BEFORE_DAMPENING, WITH_DAMPENING = "0.6.0", "0.7.0"


def equations(ledger: Ledger) -> Iterator[Violation]:
    """What a run cannot change between two steps is what the record before says."""
    for pair in pairs(ledger):
        if pair.earlier is ledger:
            continue  # one shape: every label is the same
        now, before = ledger.layout.shape, pair.earlier.layout.shape
        for path in CONSTANT:
            if now.get(*path) != before.get(*path) and not (path == ("schema_version",) and _begins(before, now)):
                message = "is not what the step before says"
                yield Violation(int(pair.rows[0]), ".".join(path), message)


def _begins(before: Shape, now: Shape) -> bool:
    """Whether dampening begins between two records; that the first buffers were 0 is rule 26."""
    versions = before.text("schema_version"), now.text("schema_version")
    dampened = [shape.column("optimizer_config", "dampening") >= 0 for shape in (before, now)]
    return versions == (BEFORE_DAMPENING, WITH_DAMPENING) and dampened == [False, True]


RULE = Rule(
    36,
    "one-run",
    "schema, topology, policies, framework and batch are the same in every record",
    "Two runs that were cut together agree in their parameters at the seam and in nothing else.",
    equations=equations,
    across=True,
    mutations=(
        Mutation("another activation", "bundle", "1.topology.activation_hidden", 'set:"relu"'),
        Mutation("another policy", "bundle", "1.numeric_policy.tolerance", "set:1e-7"),
    ),
)

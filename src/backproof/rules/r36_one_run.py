"""The records of a bundle are steps of one run: same network, same policies, same framework."""

from __future__ import annotations

from collections.abc import Iterator

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


def equations(ledger: Ledger) -> Iterator[Violation]:
    """What a run cannot change between two steps is what the record before says."""
    for pair in pairs(ledger):
        if pair.earlier is ledger:
            continue  # one shape: every label is the same
        now, before = ledger.layout.shape, pair.earlier.layout.shape
        for path in CONSTANT:
            if now.get(*path) != before.get(*path):
                message = "is not what the step before says"
                yield Violation(int(pair.rows[0]), ".".join(path), message)


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

"""What a receipt says about itself agrees with the rest of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.rules.layout import Layout
from backproof.rules.r15_skip_basis import SKIPPED
from backproof.rules.rule import Keys, Label, Ledger, Mutation, Read, Rule, Violation, Wrong

MATCHED, DISAGREED = "engine_recompute_matched_within_tolerance", "engine_recompute_disagreed"
FAILING = {DISAGREED: "says itself that it does not hold", "expected_to_fail_reconciliation": "is meant to fail"}
CONVENTION = "descent_direction"
DIGITS = 9


def labels(layout: Layout) -> Iterator[Label | Keys | Wrong | Read]:
    """Status, provenance, conventions and policies."""
    shape = layout.shape
    yield Read((("step",), ("step_index",)))
    yield from _states(layout)
    yield from _provenance(layout)
    if "gradient_convention" in shape.mapping("metadata"):
        said = shape.get("metadata", "gradient_convention")
        because = "every number is written in the direction of descent"
        yield Label(("metadata", "gradient_convention"), said, CONVENTION, because)
    if not layout.is_lossless:
        said = shape.get("numeric_policy", "precision_significant_digits")
        yield Label(("numeric_policy", "precision_significant_digits"), said, DIGITS, "numbers are written with nine")
    yield Label(
        ("bias_policy", "updated_in_step"),
        shape.get("bias_policy", "updated_in_step"),
        layout.updates_biases,
        "the mode says whether biases learn",
    )


def _states(layout: Layout) -> Iterator[Label | Wrong]:
    shape = layout.shape
    author = shape.text("fixture_status", "authoring_state")
    state = shape.text("fixture_status", "verification_state")
    place = "fixture_status.verification_state"
    if state in FAILING:
        yield Wrong(place, f"the receipt {FAILING[state]}", state)
    if author == "deliberately_corrupted":
        yield Wrong("fixture_status.authoring_state", "the receipt says that it is corrupted", author)
    if state in {MATCHED, SKIPPED} and not layout.imported:
        yield Wrong(place, "only an imported receipt was compared with the engine", state)
    if author == "external_imported":
        for block in ("source_framework", "attestor"):
            if shape.get(block) is None:
                yield Wrong(block, "is missing, but the receipt says that it was imported")
        if shape.get("attestor") is not None and not shape.mapping("attestor", "import_provenance"):
            yield Wrong("attestor.import_provenance", "is missing, but the receipt says that it was imported")
        if state not in {MATCHED, SKIPPED, *FAILING}:
            yield Wrong(place, "an imported receipt says how the comparison with the engine went", state, MATCHED)
    elif shape.get("attestor") is not None and author:
        yield Label(("attestor", "computed_by", "kind"), _kind(layout, "computed_by"), "engine", "it was not imported")


def _kind(layout: Layout, who: str) -> object:
    return layout.shape.get("attestor", who, "kind")


def _provenance(layout: Layout) -> Iterator[Label | Wrong]:
    shape = layout.shape
    if shape.get("fixture_status", "authoring_state") != "external_imported" or shape.get("attestor") is None:
        return
    by_hand = shape.text("source_framework", "name") == "hand_derived"
    expected = "hand_derivation" if by_hand and _kind(layout, "computed_by") != "framework" else "framework"
    yield Label(("attestor", "computed_by", "kind"), _kind(layout, "computed_by"), expected, "it was imported")
    yield Label(("attestor", "verified_by", "kind"), _kind(layout, "verified_by"), "engine", "it was imported")
    name, version = (shape.text("source_framework", key) for key in ("name", "version"))
    said = shape.get("attestor", "computed_by", "identity")
    yield Label(("attestor", "computed_by", "identity"), said, f"{name}@{version}", "the source framework")
    for key in ("name", "version"):
        value = shape.get("source_framework", key)
        yield Label(("source_framework", key), value, value, "the attestor names the same")


def equations(ledger: Ledger) -> Iterator[Violation]:
    """step = step_index + 1; without an index, step is 1."""
    shape = ledger.layout.shape
    step, index = shape.column("step"), shape.column("step_index")
    if step < 0:
        return
    numbers = ledger.columns.numbers
    expected = numbers[:, index] + 1.0 if index >= 0 else np.ones(len(numbers))
    for row in np.flatnonzero(numbers[:, step] != expected).tolist():
        said, should = float(numbers[row, step]), float(expected[row])
        yield Violation(row, "step", "is not step_index + 1 (1 without an index)", said, should)


RULE = Rule(
    34,
    "status",
    "status, provenance, step and conventions agree with the receipt",
    "A file that calls itself failed must not pass, and one that calls itself matched must match.",
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("it says that it failed", "imported", "fixture_status.verification_state", f'set:"{DISAGREED}"'),
        Mutation("it names another framework", "imported", "attestor.computed_by.identity", 'set:"jax@0.4"'),
        Mutation("the step is another", "sgd", "step", "set:7"),
        Mutation("gradients go uphill", "sgd", "metadata.gradient_convention", 'set:"ascent_direction"'),
    ),
)

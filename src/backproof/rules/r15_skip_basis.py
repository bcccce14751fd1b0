"""A receipt that says that recomputation was skipped says why."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.receipt.formats.receipts import SKIP_BASES
from backproof.rules.layout import Layout
from backproof.rules.rule import Mutation, Rule, Wrong

SKIPPED = "engine_recompute_skipped_with_basis"


def labels(layout: Layout) -> Iterator[Wrong]:
    """attestor.skip_basis is one of the known reasons."""
    basis = layout.shape.get("attestor", "skip_basis")
    if layout.shape.get("fixture_status", "verification_state") == SKIPPED and basis not in SKIP_BASES:
        yield Wrong("attestor.skip_basis", f"must be one of {', '.join(SKIP_BASES)}", basis)


RULE = Rule(
    15,
    "skip-basis",
    "a skipped recomputation names its basis",
    "The word of the file never skips a check here; but a file that claims the right to must at least say why.",
    labels=labels,
    mutations=(
        Mutation(
            "no basis is given",
            "imported",
            "fixture_status.verification_state",
            'set:"engine_recompute_skipped_with_basis"',
        ),
    ),
)

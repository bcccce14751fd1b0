"""Making receipts: from an input, by the scalar engine."""

from __future__ import annotations

from backproof.receipt.authoring.builtin import BUILTIN
from backproof.receipt.authoring.lossless import as_lossless, author_input
from backproof.receipt.authoring.step import (
    author_batch,
    author_mazur,
    author_step,
    schema_version,
    update_labels,
)

__all__ = [
    "BUILTIN",
    "as_lossless",
    "author_batch",
    "author_input",
    "author_mazur",
    "author_step",
    "schema_version",
    "update_labels",
]

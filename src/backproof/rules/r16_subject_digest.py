"""The digest that a receipt carries of itself is its digest."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.errors import InputError
from backproof.receipt.columns import TextSlot
from backproof.receipt.digests import SHA256, canonical_without, digest_of
from backproof.rules.layout import Layout
from backproof.rules.rule import Ledger, Mutation, Rule, Violation

PATH = ("attestor", "signed_subject_digest")


def applies(layout: Layout) -> bool:
    """A receipt that carries the digest."""
    return isinstance(layout.shape.get(*PATH), TextSlot)


def equations(ledger: Ledger) -> Iterator[Violation]:
    """signed_subject_digest = sha256 of the canonical bytes without it."""
    columns = ledger.columns
    for row, pieces in enumerate(canonical_without(columns, PATH[1])):
        said = columns.text(row, *PATH)
        if said is None or not SHA256.match(said):
            yield Violation(row, ".".join(PATH), "is no digest (sha256: and 64 hex digits)", said)
        elif isinstance(pieces, InputError):
            yield Violation(row, ".".join(PATH), f"cannot be computed: {pieces}", said)
        elif (found := digest_of(pieces)) != said:
            yield Violation(row, ".".join(PATH), "is not the digest of this receipt", said, found)


RULE = Rule(
    16,
    "subject-digest",
    "signed_subject_digest = sha256(canonical bytes without it)",
    "It binds every byte that the canonical form writes, labels and remarks included.",
    applies=applies,
    equations=equations,
    mutations=(Mutation("a remark is changed", "signed", "metadata.source", 'set:"another source"'),),
)

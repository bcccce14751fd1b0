"""Law: whatever is changed in a good receipt is rejected, or was listed as not checked before it was changed."""

from __future__ import annotations

import os

import pytest
from honest import receipts
from mutate import every_change
from subjects import subject

from backproof.receipt.columns import written
from backproof.verify import verify_receipts

# Remarks that the format lets be absent: a receipt without them says less, and nothing false.
OPTIONAL = {
    "bias_policy.reason",
    "bias_policy.reconciliation",
    "metadata.url_reference",
    "source_framework.information_uri",
    "source_framework.extractor",
    "attestor.import_provenance.import_timestamp",
    "attestor.signed_subject_digest",  # the verdict then says that nothing binds the receipt (below)
}
EVERY = int(os.environ.get("BACKPROOF_EVERY_CHANGE", "9"))  # 1 tries all of them, which takes minutes
# (subject, the record that is changed)
SUBJECTS = [
    ("mazur", 0),
    ("sgd", 0),
    ("decay", 0),
    ("bias", 0),
    ("softmax", 0),
    ("adamw", 0),
    ("momentum", 0),
    ("nesterov", 0),
]
SUBJECTS += [("batch", 0), ("imported", 0), ("signed", 0), ("relu", 0), ("bundle", 2), ("adam-bundle", 1)]
SUBJECTS += [("signed-bundle", 1)]


@pytest.mark.parametrize(("name", "record"), SUBJECTS, ids=[name for name, _ in SUBJECTS])
def test_every_change_is_rejected_or_listed_as_unchecked(name, record):
    documents = subject(name)
    bundle = len(documents) > 1
    before = verify_receipts(receipts(documents), bundle=bundle)
    unchecked = {entry.path for entry in before.unchecked}
    escaped = []

    for i, (kind, path, changed) in enumerate(every_change(documents[record])):
        if i % EVERY:
            continue
        place = written(path)
        if (kind not in {"drop", "add", "repeat"} and place in unchecked) or (kind == "drop" and place in OPTIONAL):
            continue
        after = verify_receipts(receipts([*documents[:record], changed, *documents[record + 1 :]]), bundle=bundle)
        if after.holds:
            escaped.append((kind, place))

    assert escaped == []


def test_a_receipt_whose_digest_was_taken_away_is_said_to_be_bound_by_nothing():
    (signed,) = subject("signed")
    (plain,) = subject("signed")
    del plain["attestor"]["signed_subject_digest"]

    with_digest, without = (verify_receipts(receipts([document]), bundle=False) for document in (signed, plain))

    assert not any("no digest binds" in note for note in with_digest.notes)
    assert any("no digest binds this receipt" in note for note in without.notes)
    assert all(entry.because.startswith("bound by a digest") for entry in with_digest.unchecked[:3])
    assert not any(entry.because.startswith("bound by a digest") for entry in without.unchecked)


def test_a_digest_that_does_not_hold_binds_nothing():
    (document,) = subject("signed")
    document["fixture"] += "x"

    verdict = verify_receipts(receipts([document]), bundle=False)

    assert [finding.rule for finding in verdict.findings] == [16]
    assert not any(entry.because.startswith("bound by a digest") for entry in verdict.unchecked)

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
}
EVERY = int(os.environ.get("BACKPROOF_EVERY_CHANGE", "9"))  # 1 tries all of them, which takes minutes
# (subject, the record that is changed)
SUBJECTS = [("sgd", 0), ("decay", 0), ("bias", 0), ("softmax", 0), ("adamw", 0), ("momentum", 0), ("nesterov", 0)]
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

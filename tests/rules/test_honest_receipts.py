from __future__ import annotations

import os

import pytest
from honest import random_run, receipts

from backproof.verify import verify_receipts

RUNS = int(os.environ.get("BACKPROOF_HONEST_RUNS", "100"))


@pytest.mark.parametrize("start", range(0, RUNS, 50))
def test_random_honest_runs_of_every_kind_hold(start):
    judged = 0

    for seed in range(start, start + 50):
        documents = random_run(seed)
        if documents is None:  # it diverged: no receipt was written
            continue
        verdict = verify_receipts(receipts(documents), bundle=len(documents) > 1)
        assert [(f.rule, f.path, f.said, f.found, f.bound) for f in verdict.findings] == [], seed
        assert verdict.holds, seed
        judged += 1

    assert judged > 40

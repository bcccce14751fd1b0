from __future__ import annotations

import os
import random

import pytest
from honest import batch_of, given, network, random_run, receipts, steps

from backproof.errors import InputError
from backproof.receipt import emit
from backproof.receipt.authoring import as_lossless
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


@pytest.mark.parametrize("size", [0, 3])
def test_a_step_that_overflows_is_refused_without_a_warning(size):
    r = random.Random(1)
    topology = network(r, 2, 2, 2, activation="relu", output="identity", loss="half_squared_error", per_neuron=False)
    start = as_lossless(given(r, topology, rate=1.0))
    start["parameters_before"] = dict.fromkeys(start["parameters_before"], 1e200)

    with pytest.raises(InputError, match="not a number that a receipt can carry"):
        [emit(document) for document in ([batch_of(r, start, size)] if size else steps(start, "none", r, 1))]

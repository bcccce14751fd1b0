"""Every lowering is what PyTorch computes: values and gradients in float64; and honest float32 within bounds that say something."""

from __future__ import annotations

import pytest
import torch
from beside_torch import coarsest, judged, of_scale, recorded, vacuous
from uses_algebra import ALGEBRA
from uses_arithmetic import ARITHMETIC, FUNCTIONS
from uses_indexing import INDEXING
from uses_losses import LOSSES
from uses_networks import NETWORKS, RANDOM, RECURRENT
from uses_pairs import PAIRS
from uses_reductions import REDUCTIONS
from uses_space import SPACE
from uses_structure import MEMORY, STRUCTURE

from backproof.lowering import LOWERINGS, canonical

TABLES = {
    "arithmetic": ARITHMETIC,
    "functions": FUNCTIONS,
    "reductions": REDUCTIONS,
    "algebra": ALGEBRA,
    "structure": STRUCTURE,
    "memory": MEMORY,
    "indexing": INDEXING,
    "space": SPACE,
    "networks": NETWORKS,
    "random": RANDOM,
    "recurrent": RECURRENT,
    "losses": LOSSES,
    "pairs": PAIRS,
}
USES = {f"{table}-{i}-{use.setting[:80]}": (table, i) for table, uses in TABLES.items() for i, use in enumerate(uses)}
FORMULAS = {name: place for name, place in USES.items() if place[0] not in ("random", "memory")}
"""Of these each call is compared alone. A mask is recovered, and what lies in shared memory derived, where a step is verified."""
FAR = {"float64": 2.0**-36, "float32": 2.0**-20, "float16": 2.0**-8, "bfloat16": 2.0**-5}
"""What roundings may make of small sums, many times over, in the coarsest format there is; a wrong formula is far beyond it."""


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """The steps of a table in a format, recorded when they are first asked for."""
    found = {}

    def of(table, dtype):
        if (table, dtype) not in found:
            found[table, dtype] = recorded(TABLES[table], dtype, tmp_path_factory.mktemp(table) / "run")
        return found[table, dtype]

    return of


@pytest.mark.parametrize("name", FORMULAS)
def test_it_is_what_pytorch_computes(name, steps):
    table, i = FORMULAS[name]
    step = steps(table, torch.float64)[i]

    assert step.step.calls, "nothing was recorded"
    assert of_scale(step) < FAR[coarsest(step)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", USES)
def test_of_honest_numbers_nothing_is_said(name, dtype, steps):
    table, i = USES[name]

    assert not judged(steps(table, dtype)[i])


@pytest.mark.parametrize("name", FORMULAS)
def test_its_bounds_say_something(name, steps):
    table, i = FORMULAS[name]

    assert not vacuous(steps(table, torch.float32)[i])


def test_every_lowering_has_a_use(steps):
    used = {
        canonical(call.op).removesuffix("_")
        for table in TABLES
        for step in steps(table, torch.float64)
        for call in step.step.calls
    }

    assert set(LOWERINGS) - used == {
        "masked_dropout",  # what a dropout is rewritten to, once its mask is recovered
        "identity",  # what layers of traces say
        "cpu",  # the very tensor, where it is there already
    }

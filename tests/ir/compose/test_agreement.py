"""Every composition agrees with PyTorch: in float64 to rounding, and in float32 within the bound."""

import numpy as np
import pytest
import torch
from agreement import Case, in_bounds, in_float64, in_torch, off_by
from cases import CASES, ONLY_FLOAT32

from backproof.ir.compose import COMPOSITIONS

# Sums of up to a few hundred terms, composed a few deep, in units of roundoff 1.1e-16.
OF_SCALE = 1e-12


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_values_gradients_and_second_derivatives_are_those_of_autograd(case: Case):
    theirs = in_torch(case, torch.float64, case.order)

    mine = in_float64(case, [y.shape for y in theirs.outputs], case.order)

    assert off_by(mine.outputs, theirs.outputs) <= OF_SCALE
    assert off_by(mine.first, theirs.first if case.order else []) <= OF_SCALE
    assert off_by(mine.second, theirs.second) <= OF_SCALE


@pytest.mark.parametrize("case", [*CASES, *ONLY_FLOAT32], ids=lambda case: case.id)
def test_what_pytorch_computes_in_float32_lies_within_the_bound(case: Case):
    theirs = in_torch(case, torch.float32, min(case.order, 1))

    mine = in_bounds(case, [y.shape for y in theirs.outputs])

    pairs = [*zip(mine.outputs, theirs.outputs, strict=True), *zip(mine.first, theirs.first, strict=bool(case.order))]
    for bound, found in pairs:
        room = 0.0 if bound.certain is None else bound.certain
        assert case.vague or case.quiet or np.isfinite(room).all()
        same = (bound.value == found) | (np.isnan(bound.value) & np.isnan(found))
        with np.errstate(invalid="ignore"):
            outside = ~(same | (np.abs(found - bound.value) <= room))
        assert not outside.any(), (
            f"off by {np.abs(found - bound.value)[outside]}, allowed {np.broadcast_to(room, found.shape)[outside]}"
        )


def test_every_composition_has_a_case():
    assert {case.name for case in CASES} == set(COMPOSITIONS)


def test_no_case_stands_for_two_settings():
    assert len({case.id for case in CASES}) == len(CASES)

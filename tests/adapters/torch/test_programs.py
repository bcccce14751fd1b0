"""Honest programs hold in every equation, nothing is left out but what is named, and recording changes no bit of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hard import HARD
from loops import LOOPS
from programs import PROGRAMS, SEVERAL_WAYS, Program

import backproof.torch as bpt
from backproof.verify.run import verify_run

STEPS = 2


def left(program: Program, folder: Path | None = None) -> list[torch.Tensor]:
    """Everything that a program leaves: parameters, buffers, the optimizers' state, and the generator's."""
    torch.manual_seed(0)
    model, optimizers, step = program.make()
    if folder is None:
        for i in range(STEPS):
            step(i)
    else:
        with bpt.Recorder(model, optimizers or None, out=folder) as recorder:
            for i in range(STEPS):
                with recorder.step():
                    step(i)
    state = [item for each in optimizers for kept in each.state.values() for item in kept.values()]
    return [*model.state_dict().values(), *filter(torch.is_tensor, state), torch.get_rng_state()]


def alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (
        a.dtype == b.dtype
        and torch.equal(torch.isnan(a), torch.isnan(b))
        and torch.equal(a.nan_to_num(), b.nan_to_num())
    )


@pytest.mark.parametrize("program", [*PROGRAMS, *HARD, *LOOPS], ids=lambda program: program.name)
@pytest.mark.filterwarnings("ignore")
def test_an_honest_program_holds(program: Program, tmp_path: Path) -> None:
    plain, recorded = left(program), left(program, tmp_path / "run")

    assert len(plain) == len(recorded)
    assert all(alike(a, b) for a, b in zip(plain, recorded, strict=True))
    for verdict in verify_run(tmp_path / "run"):
        assert verdict.verdict == "holds", verdict.broken[:3]
        assert not verdict.suspect, verdict.suspect
        places = [entry.place for entry in verdict.not_checked]
        assert [place for place in places if not place.startswith(program.left_out or "nothing")] == []
        assert all(any(place.startswith(start) for place in places) for start in program.left_out)


@pytest.mark.parametrize("scale", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("name", SEVERAL_WAYS)
def test_what_comes_back_along_several_ways_may_be_added_in_any_order(name: str, scale: float, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, x = torch.nn.Linear(8, 12), torch.randn(64, 8)
    with bpt.Recorder(model, out=tmp_path / "run") as recorder, recorder.step():
        h = model(x)
        found = SEVERAL_WAYS[name](h)
        ((found * torch.randn(found.shape)).sum() + (h[:, :7] * torch.randn(64, 7) * scale).sum()).backward()

    (verdict,) = verify_run(tmp_path / "run")

    assert verdict.verdict == "holds", verdict.broken[:3]
    assert not verdict.not_checked

"""One training step, run plain and recorded: they must agree to the last bit, and then the recorded one is verified."""

import copy

import torch

import backproof.torch as bpt
from backproof.verify.run import verify_run


def verified(tmp_path, make, step, *, steps=1, before=lambda recorder: None, same=True):
    """The verdicts on `step(model, optimizer)`, for a model that `make()` gives; and that recording changed nothing."""
    torch.manual_seed(0)
    model = make()
    twin = copy.deepcopy(model)
    optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin))
    torch.manual_seed(7)
    for _ in range(steps):
        step(twin, other)
    left = torch.get_rng_state()
    torch.manual_seed(7)
    with bpt.Recorder(model, optimizer, out=tmp_path / "run") as recorder:
        before(recorder)
        for _ in range(steps):
            with recorder.step():
                step(model, optimizer)
    assert torch.equal(left, torch.get_rng_state())
    if same:
        for (name, a), (_, b) in zip(model.state_dict().items(), twin.state_dict().items(), strict=True):
            assert torch.equal(a, b), f"recording changed {name}"
    return list(verify_run(tmp_path / "run"))


def broken(verdict):
    """The causes, as (equation, place)."""
    return [(found.equation, found.place) for found in verdict.broken]


def left_out(verdict):
    """What was not checked, as text."""
    return [f"{entry.place}: {entry.why}" for entry in verdict.not_checked]


def holds(verdict, *, but=()):
    """Every equation holds, and nothing is left out but what is named."""
    assert verdict.verdict == "holds", verdict.broken[:3]
    rest = [text for text in left_out(verdict) if not any(name in text for name in but)]
    assert not rest, rest

"""Coarser records: less is written, what lies between is derived, and a mistake is still found."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it

import backproof.torch as bpt
from backproof.diagnose import verify
from backproof.errors import UsageError

COARSER = ("module", "ends")


class Doubled(torch.autograd.Function):
    """A backward that is wrong by a factor of two."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * gradient * (1 - x.tanh() ** 2)


class Block(nn.Module):
    """A residual block with a few calls of its own between its modules."""

    def __init__(self, size, act):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.Linear(2 * size, size)
        self.drop, self.act = nn.Dropout(0.1), act

    def forward(self, x):
        inner = self.act(self.up(self.norm(x)) * 0.5 + 0.1)
        return x + self.drop(self.down(inner * 2)).clamp(-3, 3)


def recorded(out, granularity, act=torch.tanh):
    torch.manual_seed(0)
    model = nn.Sequential(Block(12, act), Block(12, act), nn.Linear(12, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with bpt.Recorder(model, optimizer, out=out, granularity=granularity) as recorder:
        for _ in range(2):
            x, y = torch.randn(16, 12), torch.randint(0, 5, (16,))
            with recorder.step():
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
    return verify(out).to_json(), sum(path.stat().st_size for path in out.rglob("*.safetensors"))


@pytest.mark.parametrize("granularity", COARSER)
def test_less_is_written_and_everything_still_checked(granularity, tmp_path):
    whole, size = recorded(tmp_path / "whole", "op")
    found, less = recorded(tmp_path / "coarse", granularity)

    assert whole["verdict"] == found["verdict"] == "holds"
    assert less < size
    for fine, coarse in zip(whole["steps"], found["steps"], strict=True):
        assert coarse["not_checked"] == []
        assert any(f"recorded by {granularity}" in note for note in coarse["notes"])
        assert fine["equations"]["checked"] > coarse["equations"]["checked"]
        for kind in ("mask", "accumulation", "clip", "state", "update"):
            assert fine["kinds"].get(kind) == coarse["kinds"].get(kind)


@pytest.mark.parametrize("granularity", COARSER)
def test_a_mistake_between_what_is_written_is_found(granularity, tmp_path):
    found, _ = recorded(tmp_path / "run", granularity, act=Doubled.apply)

    assert found["verdict"] == "broken"
    first = found["steps"][0]["findings"][0]
    assert (first["equation"], "Doubled" in first["place"]) == ("gradient", True)


class Leaky(nn.Module):
    """It says ReLU, and leaks."""

    def forward(self, x):
        return F.leaky_relu(x, 0.01)


@pytest.mark.parametrize(("granularity", "cause"), [("module", "leaky ReLU"), ("ends", "")])
def test_a_claim_is_judged_at_its_module(granularity, cause, tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), Leaky(), nn.Linear(8, 3))
    with bpt.Recorder(model, out=tmp_path / "run", granularity=granularity) as recorder:
        recorder.claim("1", nn.ReLU())
        with recorder.step():
            model(torch.randn(4, 6)).square().mean().backward()

    first = verify(tmp_path / "run").to_json()["steps"][0]["findings"][0]

    assert first["place"].startswith("1")
    assert cause in first["cause"]  # nothing was recorded there that a cause could be tried on, at the ends alone


def test_another_granularity_is_refused(tmp_path):
    with pytest.raises(UsageError, match="granularity='layer': what there is: op, module, ends"):
        bpt.Recorder(nn.Linear(2, 2), out=tmp_path / "run", granularity="layer")

"""Dropout by its mask, autocast by its casts, running statistics by their equations."""

import numpy as np
import pytest
import torch
from stepping import broken, holds, verified

F = torch.nn.functional


def twice_read(r):
    return r + F.dropout(r, 0.5)


FUNCTIONS = {
    "dropout": lambda h: F.dropout(h, 0.3),
    "dropout of zeros": lambda h: F.dropout(F.relu(h), 0.5),
    "dropout in place": lambda h: F.dropout(h * 1, 0.3, True, True),
    "dropout1d": lambda h: F.dropout1d(h.view(8, 4, 4), 0.5).reshape(16, 8),
    "dropout2d": lambda h: F.dropout2d(h.view(8, 4, 2, 2), 0.5).reshape(16, 8),
    "dropout3d": lambda h: F.dropout3d(h.view(4, 4, 2, 2, 2), 0.5).reshape(16, 8),
    "alpha_dropout": lambda h: F.alpha_dropout(h, 0.3, True),
    "feature_alpha_dropout": lambda h: F.feature_alpha_dropout(h.view(8, 4, 2, 2), 0.3, True).reshape(16, 8),
    "all dropped": lambda h: h + F.dropout(h, 1.0),
    "a residual around zeros": lambda h: F.relu(h) + F.dropout(F.relu(h), 0.5),
    "one tensor, read twice": lambda h: twice_read(F.relu(h)),
    "inactive": lambda h: F.dropout(h, 0.5, training=False),
}


class Net(torch.nn.Module):
    def __init__(self, between):
        super().__init__()
        self.first, self.last, self.between = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3), between

    def forward(self, x):
        return self.last(self.between(self.first(x)))


def step(model, optimizer):
    optimizer.zero_grad()
    x = torch.linspace(-1, 1, 96).reshape(16, 6).sin()
    F.cross_entropy(model(x), torch.arange(16) % 3).backward()
    optimizer.step()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
def test_a_dropout_holds_with_the_mask_that_it_drew(name, tmp_path):
    (verdict,) = verified(tmp_path, lambda: Net(FUNCTIONS[name]), step)

    holds(verdict)
    if name != "inactive":
        assert any(found.equation == "mask" for found in verdict.results)


# ── planted ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def planted(monkeypatch, wrong):
    """`F.dropout` computes something else under its own name."""
    monkeypatch.setattr(torch._VF, "dropout", wrong, raising=False)


def test_a_scale_that_is_forgotten_is_found(tmp_path, monkeypatch):
    planted(monkeypatch, lambda x, p, training: x * (torch.rand_like(x) >= p))

    (verdict,) = verified(tmp_path, lambda: Net(FUNCTIONS["dropout"]), step)

    assert broken(verdict)[0] == ("forward", "dropout")


def test_another_share_with_the_right_scale_is_found(tmp_path, monkeypatch):
    planted(monkeypatch, lambda x, p, training: x * (torch.rand_like(x) >= 0.05) / (1 - p))

    (verdict,) = verified(tmp_path, lambda: Net(lambda h: F.dropout(h.repeat(1, 8), 0.5)[:, :8]), step)

    assert broken(verdict) == [("mask", "dropout")]


class OtherMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p):
        ctx.p = p
        return x * (torch.rand_like(x) >= p) / (1 - p)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (torch.rand_like(gradient) >= ctx.p) / (1 - ctx.p), None


def test_a_backward_with_another_mask_is_found(tmp_path, monkeypatch):
    planted(monkeypatch, lambda x, p, training: OtherMask.apply(x, p))

    (verdict,) = verified(tmp_path, lambda: Net(FUNCTIONS["dropout"]), step)

    assert verdict.verdict == "broken"
    assert {found.equation for found in verdict.broken} == {"gradient"}


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Attending(torch.nn.Module):
    def __init__(self, mask=None, batch=False):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 24), torch.nn.Linear(8, 3)

    def forward(self, x):
        q, k, v = self.first(x).view(2, 8, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25, is_causal=True)
        return self.last(y.transpose(1, 2).reshape(16, 8))


def test_attention_with_dropout_holds_with_its_mask(tmp_path):
    (verdict,) = verified(tmp_path, Attending, step)

    holds(verdict)


# ── autocast ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Cast(torch.nn.Module):
    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        self.dtype = dtype
        self.first, self.mid, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 3)
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        with torch.autocast("cpu", dtype=self.dtype):
            h = F.gelu(self.first(x))
            h = h + self.mid(self.norm(h))
            h = h + self.mid(h.float() * 2)  # the cast of this weight is cached: one rounding, one sum of gradients
            y = self.last(h)
        return y.float()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_step_under_autocast_holds(tmp_path, dtype):
    (verdict,) = verified(tmp_path, lambda: Cast(dtype), step)

    holds(verdict)


def test_a_matrix_that_autocast_was_not_told_of_is_found(tmp_path, monkeypatch):
    """The weight is rounded toward zero, not to the nearest."""
    plain = F.linear

    def linear(x, weight, bias=None):
        bits = weight.detach().view(torch.int32) & -65536
        chopped = weight + (bits.view(torch.float32) - weight).detach()
        return plain(x, chopped, bias)

    from test_written_values import Below
    from torch.overrides import TorchFunctionMode

    class Chopping(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return (linear if func is torch._C._nn.linear or func is plain else func)(*args, **(kwargs or {}))

    def chopped(model, optimizer):
        with Below(Chopping()):
            step(model, optimizer)

    (verdict,) = verified(tmp_path, Cast, chopped, same=False)

    assert ("forward", "first: linear") in broken(verdict)


# ── statistics ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Normed(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(6, 8), norm, torch.nn.Linear(8, 3)

    def forward(self, x):
        h = self.first(x)
        return self.last(self.norm(h.view(4, 4, 8).transpose(1, 2)).transpose(1, 2).reshape(16, 8))


NORMS = {
    "batch": lambda: torch.nn.BatchNorm1d(8),
    "batch, cumulative": lambda: torch.nn.BatchNorm1d(8, momentum=None),
    "instance": lambda: torch.nn.InstanceNorm1d(8, affine=True, track_running_stats=True),
}


@pytest.mark.parametrize("name", NORMS)
def test_running_statistics_are_equations(name, tmp_path):
    verdicts = verified(tmp_path, lambda: Normed(NORMS[name]()), step, steps=2)

    for verdict in verdicts:
        holds(verdict)
        assert any("running" in found.place and found.equation == "forward" for found in verdict.results)


def test_a_biased_variance_in_the_running_statistics_is_found(tmp_path):
    def spoiled(model, optimizer):
        plain = torch.batch_norm

        def biased(*args):
            old = args[4].clone()
            y = plain(*args)
            with torch._C.DisableTorchFunction():
                np.asarray(args[4])[:] = old + (args[4] - old) * 15 / 16
            return y

        torch.batch_norm = biased
        try:
            step(model, optimizer)
        finally:
            torch.batch_norm = plain

    (verdict,) = verified(tmp_path, lambda: Normed(NORMS["batch"]()), spoiled)

    assert broken(verdict) == [("forward", "norm: running_statistics")]

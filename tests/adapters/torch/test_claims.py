"""Claims: a module is judged by what it is meant to be; compiled modules are judged by what they compile."""

import math

import pytest
import torch
from stepping import broken, holds, left_out, verified

import backproof.torch as bpt
from backproof.errors import UsageError
from backproof.verify.run import verify_run

F = torch.nn.functional


class Norm(torch.nn.Module):
    """A layer norm by hand, with what it may get wrong."""

    def __init__(self, eps=1e-5, unbiased=False):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.rand(8) + 0.5), torch.nn.Parameter(torch.rand(8))
        self.eps, self.unbiased = eps, unbiased

    def forward(self, x):
        variance = x.var(-1, keepdim=True, unbiased=self.unbiased)
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + self.eps) * self.weight + self.bias


class Activation(torch.nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        return self.how(x)


class Linear(torch.nn.Module):
    def __init__(self, turned=False):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.randn(8, 8) / 3), torch.nn.Parameter(torch.randn(8))
        self.turned = turned

    def forward(self, x):
        return x @ (self.weight if self.turned else self.weight.T) + self.bias


class Attention(torch.nn.Module):
    def __init__(self, scale=8**-0.5):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        q, k, v = x, x.flip(-1), x * 2
        return torch.softmax(q @ k.transpose(-1, -2) * self.scale, -1) @ v


def attention(_, x):
    return F.scaled_dot_product_attention(x[None], x.flip(-1)[None], x[None] * 2)[0]


class Conv(torch.nn.Module):
    def __init__(self, shift=0):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.randn(4, 1, 3)), torch.nn.Parameter(torch.randn(4))
        self.shift = shift

    def forward(self, x):
        padded = F.pad(x[:, None], (1 - self.shift, 1 + self.shift))
        windows = padded.unfold(2, 3, 1)
        return (torch.einsum("bcwk,ock->bow", windows, self.weight) + self.bias[:, None]).mean(1)


class Convolved(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(torch.randn(4, 1, 3)), torch.nn.Parameter(torch.randn(4))

    def forward(self, x):
        return F.conv1d(x[:, None], self.weight, self.bias, padding=1).mean(1)


class Net(torch.nn.Module):
    def __init__(self, piece, lift=0.0):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
        self.h = torch.nn.ModuleList([torch.nn.ModuleDict({"piece": piece})])
        self.lift = lift

    def forward(self, x):
        h = self.first(x) + self.lift
        return self.last(self.h[0]["piece"](h) + self.first(x))


def step(model, optimizer):
    optimizer.zero_grad()
    x = torch.linspace(-1, 1, 96).reshape(16, 6).sin()
    F.cross_entropy(model(x), torch.arange(16) % 3).backward()
    optimizer.step()


def judged(tmp_path, piece, meaning, lift=0.0):
    (verdict,) = verified(
        tmp_path, lambda: Net(piece(), lift), step, before=lambda recorder: recorder.claim("h.*.piece", meaning)
    )
    return verdict


GELU = torch.nn.GELU()
CASES = {
    "layer norm": (Norm, lambda: Norm(eps=1e-6), torch.nn.LayerNorm(8, eps=1e-5), 0.0),
    "layer norm of data of mean 100": (Norm, lambda: Norm(eps=1e-3), torch.nn.LayerNorm(8, eps=1e-5), 100.0),
    "variance": (Norm, lambda: Norm(unbiased=True), torch.nn.LayerNorm(8), 0.0),
    "gelu": (
        lambda: Activation(lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))),
        lambda: Activation(lambda x: F.gelu(x, approximate="tanh")),
        GELU,
        0.0,
    ),
    "turned weight": (Linear, lambda: Linear(turned=True), torch.nn.Linear(8, 8), 0.0),
    "attention": (Attention, lambda: Attention(scale=1.0), attention, 0.0),
    "padding": (Conv, lambda: Conv(shift=1), Convolved(), 0.0),
    "average": (
        lambda: Activation(lambda x: x.mean(0, keepdim=True).expand(16, 8)),
        lambda: Activation(lambda x: x.sum(0, keepdim=True).expand(16, 8)),
        lambda _, x: x.mean(0).repeat(16, 1),
        0.0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_module_that_is_what_it_is_claimed_to_be_holds(name, tmp_path):
    honest, _, meaning, lift = CASES[name]

    holds(judged(tmp_path, honest, meaning, lift))


@pytest.mark.parametrize("name", CASES)
def test_a_module_that_is_something_else_is_broken_at_its_place_alone(name, tmp_path):
    _, planted, meaning, lift = CASES[name]

    verdict = judged(tmp_path, planted, meaning, lift)

    first = verdict.broken[0]
    assert first.equation == "forward"
    assert first.place.startswith("h.0.piece")
    assert {found.place for found in verdict.broken if found.equation == "forward"} == {first.place}


class WrongBack(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (1 - torch.tanh(x))


def test_the_backward_of_a_claimed_module_is_judged_too(tmp_path):
    verdict = judged(tmp_path, lambda: Activation(WrongBack.apply), torch.nn.Tanh())

    assert broken(verdict)
    assert all(equation == "gradient" for equation, _ in broken(verdict))


def test_a_claim_that_matches_nothing_or_cannot_be_is_refused(tmp_path):
    model = Net(Norm())
    recorder = bpt.Recorder(model, out=tmp_path / "run")

    with pytest.raises(UsageError, match="there are first, last, h"):
        recorder.claim("blocks.*", torch.nn.LayerNorm(8))
    with pytest.raises(UsageError, match=r"weight of LayerNorm has the shape \[9\]"):
        recorder.claim("h.*.piece", torch.nn.LayerNorm(9))
    recorder.claim("h.0", torch.nn.Identity())
    with recorder.step():
        model(torch.randn(2, 6)).sum().backward()
    with pytest.raises(UsageError, match=r"'h.0': no module of this name ran"):
        recorder.close()


def test_a_meaning_that_needs_numbers_is_listed(tmp_path):
    verdict = judged(tmp_path, Norm, lambda m, x: x * 2 if x.sum() > 0 else x)

    assert verdict.verdict == "holds"
    assert any("cannot be followed without numbers" in text for text in left_out(verdict))


# ── compiled ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.a, self.b = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.norm(x))))


def compiled(backend, how="function"):
    def make():
        torch._dynamo.reset()
        block = Block()
        if how == "method":
            block.compile(backend=backend)
            return Net(block)
        return Net(torch.compile(block, backend=backend))

    return make


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_module_is_judged_by_its_own_python(backend, tmp_path):
    verdicts = verified(tmp_path, compiled(backend), step, steps=2)

    for verdict in verdicts:
        holds(verdict)
        assert any("running_statistics" in found.place for found in verdict.results)
        assert {"h.0.piece._orig_mod.a.weight"} <= {found.place for found in verdict.results}


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_compiles_itself_is_judged_too(tmp_path):
    (verdict,) = verified(tmp_path, compiled("aot_eager", "method"), step)

    holds(verdict)


@pytest.mark.filterwarnings("ignore")
def test_a_compiler_that_is_wrong_is_found_at_its_region(tmp_path):
    def wrong(graph, inputs):
        for node in graph.graph.nodes:
            if node.target is F.gelu:
                node.target = F.silu
        graph.recompile()
        return graph

    (verdict,) = verified(tmp_path, compiled(wrong), step)

    assert verdict.broken[0].equation == "forward"
    assert verdict.broken[0].place.startswith("h.0.piece")


# ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────


def kernel(factor):
    @bpt.claimed(lambda x, bias: F.softplus(x + bias))
    def softplus(x, bias):
        return torch.log1p(torch.exp(x + bias)) * factor

    return softplus


def test_a_function_is_judged_by_what_it_is_claimed_to_be(tmp_path):
    (verdict,) = verified(tmp_path / "a", lambda: Net(Activation(lambda x: kernel(1.0)(x, x * 2))), step)
    holds(verdict)

    (verdict,) = verified(tmp_path / "b", lambda: Net(Activation(lambda x: kernel(1.0001)(x, x * 2))), step)
    assert broken(verdict)[0] == ("forward", "h.0.piece: softplus")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_function_is_judged_by_its_own_python(backend, tmp_path):
    def make():
        torch._dynamo.reset()
        return Net(Activation(torch.compile(lambda x: (x.sin() * 2, x.exp())[0] + x, backend=backend)))

    verdicts = verified(tmp_path, make, step, steps=2)

    for verdict in verdicts:
        holds(verdict)
        assert any(found.place == "h.0.piece: sin" for found in verdict.results) is False
        assert any(found.place == "h.0.piece: add" for found in verdict.results)


def through_a_module(model, backend):
    return torch.compile(model, backend=backend)


def through_a_function(model, backend):
    return torch.compile(lambda x: model(x) * 2, backend=backend)


def through_a_method(model, backend):
    class Trainer:
        def __init__(self):
            self.model, self.factor = model, torch.tensor(0.75)

        def outputs(self, x):
            return self.model(x) * (self.factor * 2)

    return torch.compile(Trainer().outputs, backend=backend)


@pytest.mark.parametrize("way", [through_a_module, through_a_function, through_a_method])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.filterwarnings("ignore")
def test_a_model_that_is_called_through_what_was_compiled_of_it_is_judged(way, backend, tmp_path):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Block()
    called, optimizer = way(model, backend), torch.optim.SGD(model.parameters(), lr=0.1)

    with bpt.Recorder(model, optimizer, out=tmp_path) as recorder:
        for _ in range(2):
            with recorder.step():
                optimizer.zero_grad()
                called(torch.randn(5, 8)).square().mean().backward()
                optimizer.step()

    for verdict in verify_run(tmp_path):
        holds(verdict)
        assert any("running_statistics" in found.place for found in verdict.results)
        assert {"a.weight", "b.bias"} <= {found.place for found in verdict.results}


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_loss_that_is_wrong_is_found(tmp_path):
    def wrong(graph, inputs):
        for node in graph.graph.nodes:
            if node.target is torch.cos or node.target == "cos":
                node.target = torch.sin if node.op == "call_function" else "sin"
        graph.recompile()
        return graph

    torch._dynamo.reset()
    bent = torch.compile(lambda x: x.cos(), backend=wrong)

    (verdict,) = verified(tmp_path, lambda: Net(Activation(bent)), step)

    assert broken(verdict)[0] == ("forward", "h.0.piece: cos")

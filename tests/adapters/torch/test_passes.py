"""Several losses, several passes, islands, tied and frozen parameters, gradients asked for by hand; and nothing left behind."""

import threading

import pytest
import torch
from planted import Instead
from stepping import broken, holds, left_out, verified

import backproof.torch as bpt

F = torch.nn.functional


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


X = torch.linspace(-1, 1, 30).reshape(5, 6).sin()
Y = torch.tensor([0, 1, 2, 0, 1])


def two_losses(model, optimizer):
    optimizer.zero_grad()
    out = model(X)
    F.cross_entropy(out, Y).backward(retain_graph=True)
    out.square().mean().backward()
    optimizer.step()


def two_batches(model, optimizer):
    optimizer.zero_grad()
    for part in (X[:3], X[3:]):
        (model(part).square().sum() / 2).backward()
    optimizer.step()


def one_call_of_two_roots(model, optimizer):
    optimizer.zero_grad()
    out = model(X)
    torch.autograd.backward([out.square().mean(), out], [None, torch.ones_like(out) * 0.01])
    optimizer.step()


def by_hand(model, optimizer):
    loss = F.cross_entropy(model(X), Y)
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()


def frozen(model, optimizer):
    model.first.weight.requires_grad_(False)
    two_losses(model, optimizer)


def detached(model, optimizer):
    optimizer.zero_grad()
    h = torch.tanh(model.first(X))
    (F.cross_entropy(model.last(h.detach()), Y) + h.mean()).backward()
    optimizer.step()


def retained(model, optimizer):
    optimizer.zero_grad()
    h = model.first(X)
    h.retain_grad()
    F.cross_entropy(model.last(h.tanh()), Y).backward()
    assert h.grad is not None
    optimizer.step()


def sharpness(model, optimizer):
    """Two passes, the second where the first one points (sharpness-aware minimisation)."""
    optimizer.zero_grad()
    F.cross_entropy(model(X), Y).backward()
    with torch.no_grad():
        moves = [p.grad * 0.05 for p in model.parameters()]
        for p, move in zip(model.parameters(), moves, strict=True):
            p.add_(move)
    optimizer.zero_grad()
    F.cross_entropy(model(X), Y).backward()
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves, strict=True):
            p.sub_(move)
    optimizer.step()


def asked_for_one(model, optimizer):
    """The gradient of what is in the middle, of what is not used, and then a pass that adds to `.grad`."""
    optimizer.zero_grad()
    h = torch.tanh(model.first(X))
    loss = F.cross_entropy(model.last(h), Y)
    unused = torch.zeros(2, requires_grad=True)
    there, none = torch.autograd.grad(loss, [h, unused], retain_graph=True, allow_unused=True)
    assert none is None
    (loss + (h * there).sum() * 0.1).backward()
    optimizer.step()


HONEST = [
    two_losses, two_batches, one_call_of_two_roots, by_hand, asked_for_one, frozen, detached, retained, sharpness
]  # fmt: skip


@pytest.mark.parametrize("step", HONEST)
def test_every_pass_is_an_equation_of_its_own(step, tmp_path):
    (verdict,) = verified(tmp_path, Net, step)

    holds(verdict)
    assert {"first.bias", "last.weight"} <= {found.place for found in verdict.results if found.equation == "gradient"}


def penalty(model, optimizer):
    optimizer.zero_grad()
    x = X.clone().requires_grad_()
    out = model(x)
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    (F.cross_entropy(out, Y) + slope.square().mean()).backward()
    optimizer.step()


def penalty_of_what_was_left(model, optimizer):
    """The same, through `.grad`."""
    optimizer.zero_grad()
    x = X.clone().requires_grad_()
    F.cross_entropy(model(x), Y).backward(create_graph=True)
    left = x.grad
    x.grad = None
    left.square().mean().backward()
    optimizer.step()


def many_seeds(model, optimizer):
    """A whole derivative at once, from a pass that is run for many seeds together."""
    optimizer.zero_grad()
    x = X.clone().requires_grad_()
    out = model(x)
    rows = torch.autograd.grad(out, x, torch.eye(3)[:, None].expand(3, 5, 3), retain_graph=True, is_grads_batched=True)
    (out.mean() + rows[0].sum()).backward()
    optimizer.step()


def from_an_edge(model, optimizer):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(X), Y)
    torch.autograd.backward(torch.autograd.graph.get_gradient_edge(loss))
    optimizer.step()


@pytest.mark.filterwarnings("ignore:Using backward")  # PyTorch warns of create_graph
@pytest.mark.parametrize("step", [penalty, penalty_of_what_was_left, many_seeds, from_an_edge])
def test_what_no_call_shows_is_listed_and_raises_no_alarm(step, tmp_path):
    (verdict,) = verified(tmp_path, Net, step)

    assert verdict.verdict == "holds", verdict.broken[:3]
    assert left_out(verdict)
    assert any(found.equation == "forward" and found.place.endswith("linear") for found in verdict.results)


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(7, 8), torch.nn.Linear(8, 7, bias=False)
        self.head.weight = self.embed.weight
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, ids):
        return self.head(torch.tanh(self.embed(ids)))


def tied(model, optimizer):
    optimizer.zero_grad()
    ids = torch.tensor([[0, 1, 2, 3], [3, 3, 5, 6]])
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    optimizer.step()


def test_tied_weights_have_one_gradient_and_unused_ones_have_none(tmp_path):
    (verdict,) = verified(tmp_path, Tied, tied)

    holds(verdict, but=["unused"])


@pytest.mark.parametrize(
    "wrap", [torch.nn.utils.parametrizations.weight_norm, torch.nn.utils.parametrizations.spectral_norm]
)
def test_a_parametrization_is_calls_like_any_other(wrap, tmp_path):
    def make():
        model = Net()
        wrap(model.first)
        return model

    def step(model, optimizer):
        optimizer.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        optimizer.step()

    (verdict,) = verified(tmp_path, make, step)

    holds(verdict)


# ── planted ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_second_pass_is_judged_too(tmp_path):
    class Stale(torch.autograd.Function):
        passes = 0

        @staticmethod
        def forward(_, x):
            return x * 1.0

        @staticmethod
        def backward(_, gradient):
            Stale.passes += 1
            return gradient if Stale.passes % 2 else gradient * 1.01

    def step(model, optimizer):
        optimizer.zero_grad()
        out = Stale.apply(model(X))
        out.mean().backward(retain_graph=True)
        out.square().mean().backward()
        optimizer.step()

    (verdict,) = verified(tmp_path, Net, step, same=False)

    assert broken(verdict) == [("gradient", "Stale")]


def test_a_gradient_that_is_given_back_is_what_came(tmp_path):
    def wrong(real, *args, **kwargs):
        return tuple(gradient * 1.001 for gradient in real(*args, **kwargs))

    watched = Instead()
    watched.wrong = {torch.autograd.grad: wrong}
    with watched:
        (verdict,) = verified(tmp_path, Net, by_hand)

    assert broken(verdict)[0] == ("gradient", "gradient of last.bias, as it was given back")


# ── nothing is left behind ──────────────────────────────────────────────────────────────────────────────────────────


def counted(model):
    tensors = [*model.parameters()]
    return [
        *(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()),
        *(len(tensor._backward_hooks or {}) for tensor in tensors),
        "forward" in model.__dict__,
        "apply" in torch.autograd.function._SingleLevelFunction.__dict__,
        torch.overrides._len_torch_function_stack() if hasattr(torch.overrides, "_len_torch_function_stack") else 0,
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_a_step_leaves_no_hook_behind_even_when_it_raises(fails, tmp_path):
    model = Net()
    before = counted(model)
    recorder = bpt.Recorder(model, out=tmp_path / "run")
    recorder.claim("first", torch.nn.Linear(6, 8))

    def step():
        with recorder.step():
            loss = model(X).sum()
            if fails:
                raise ValueError("the user's own")
            loss.backward()

    if fails:
        with pytest.raises(ValueError, match="own"):
            step()
    else:
        step()

    assert counted(model) == before
    recorder.stepping.claims.found.clear()
    recorder.close()


def test_another_thread_goes_unnoticed(tmp_path):
    model = Net()
    other = Net()

    def elsewhere():
        for _ in range(20):
            model(X).sum()
            other(X).square().sum().backward()

    with bpt.Recorder(model, out=tmp_path / "run") as recorder, recorder.step() as observer:
        worker = threading.Thread(target=elsewhere)
        worker.start()
        model(X).sum().backward()
        worker.join()
        assert [call.place for call in observer.calls] == ["first", "", "last", ""]


def test_the_step_lets_go_of_its_tensors(tmp_path):
    import gc
    import weakref

    model = Net()
    with bpt.Recorder(model, out=tmp_path / "run") as recorder:
        with recorder.step():
            out = model(X)
            gone = weakref.ref(out)
            out.sum().backward()
        del out
        recorder._wait()
        recorder._writing = None
        gc.collect()
        assert gone() is None

"""Functions with a backward of their own, hooks, checkpoints: what they give back is the derivative of their forward, or said not to be."""

import pytest
import torch
from stepping import broken, holds, left_out, verified
from torch.utils.checkpoint import checkpoint

import backproof.torch as bpt

F = torch.nn.functional


def cubed(factor):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x * x * x * scale

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * x * x * (factor * ctx.scale), None

    return Cube


class Through(torch.autograd.Function):
    """Rounded forward, straight through backward."""

    @staticmethod
    def forward(_, x):
        return torch.round(x * 4) / 4

    @staticmethod
    def backward(_, gradient):
        return gradient


class Two(torch.autograd.Function):
    """Two inputs, two outputs; the second input's gradient may be forgotten."""

    forgets = False

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, product, total):
        x, y = ctx.saved_tensors
        return product * y + total, None if Two.forgets else product * x + total


class Opaque(torch.autograd.Function):
    """Computed where no call is seen."""

    @staticmethod
    def forward(_, x):
        return torch.from_numpy(x.detach().numpy() * 2)

    @staticmethod
    def backward(_, gradient):
        return gradient * 2


def network():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Linear(8, 3))


def stepping(between):
    def step(model, optimizer):
        torch.manual_seed(3)
        optimizer.zero_grad()
        hidden = model[0](torch.randn(5, 6))
        F.cross_entropy(model[1](between(hidden)), torch.tensor([0, 1, 2, 0, 1])).backward()
        optimizer.step()

    return step


def test_a_backward_that_is_the_derivative_holds(tmp_path):
    kept = cubed(3).apply

    (verdict,) = verified(tmp_path, network, stepping(lambda h: kept(h, 0.5) + h))

    holds(verdict)
    assert any(found.place == "Cube" and found.equation == "gradient" for found in verdict.results)


def test_a_backward_that_is_wrong_by_a_factor_is_found_at_the_function_and_nowhere_else(tmp_path):
    (verdict,) = verified(tmp_path, network, stepping(lambda h: cubed(3.003).apply(h, 0.5) + h))

    assert broken(verdict) == [("gradient", "Cube")]


@pytest.mark.parametrize("forgets", [False, True])
def test_an_input_that_gets_nothing_back_is_found(tmp_path, forgets, monkeypatch):
    monkeypatch.setattr(Two, "forgets", forgets)

    def between(h):
        product, total = Two.apply(h, h.tanh())
        return product + total

    (verdict,) = verified(tmp_path, network, stepping(between))

    assert broken(verdict) == ([("gradient", "Two")] if forgets else [])


def test_a_surrogate_is_broken_unless_it_is_said_to_be_meant(tmp_path):
    (verdict,) = verified(tmp_path / "plain", network, stepping(Through.apply))
    assert broken(verdict) == [("gradient", "Through")]

    def declared(h):
        with bpt.intended():
            return Through.apply(h)

    (verdict,) = verified(tmp_path / "context", network, stepping(declared))
    holds(verdict, but=["backward of Through"])
    assert any("declared" in text for text in left_out(verdict))

    @bpt.intended
    class Meant(Through):
        pass

    (verdict,) = verified(tmp_path / "class", network, stepping(Meant.apply))
    holds(verdict, but=["backward of Meant"])


def test_the_forward_of_a_surrogate_is_still_checked(tmp_path):
    class Wrong(Through):
        @staticmethod
        def forward(_, x):
            with torch._C.DisableTorchFunction():
                return torch.round(x * 4) / 4 + 1e-3

    bpt.intended(Wrong)
    (verdict,) = verified(tmp_path, network, stepping(Wrong.apply))

    assert any("Wrong" in text for text in left_out(verdict))


def test_what_is_computed_out_of_sight_is_listed_and_its_neighbours_are_checked(tmp_path):
    (verdict,) = verified(tmp_path, network, stepping(lambda h: Opaque.apply(h) + h))

    holds(verdict, but=["Opaque"])
    assert left_out(verdict)
    assert {"0.weight", "1.weight"} <= {found.place for found in verdict.results if found.equation == "gradient"}


# ── hooks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_hook_that_changes_a_gradient_is_said_and_the_rest_is_checked(tmp_path):
    def between(h):
        h.register_hook(lambda g: g * 1.001)
        return h

    (verdict,) = verified(tmp_path, network, stepping(between))

    holds(verdict, but=["a hook changes it"])
    assert any("a hook changes it" in text for text in left_out(verdict))


def test_a_hook_that_only_looks_is_nothing(tmp_path):
    seen = []

    def between(h):
        h.register_hook(lambda g: seen.append(g.norm()))
        return h

    (verdict,) = verified(tmp_path, network, stepping(between))

    holds(verdict)
    assert seen


def test_a_hook_of_a_parameter_that_was_there_before_is_said(tmp_path):
    def make():
        model = network()
        model[1].weight.register_hook(lambda g: g * 0.5)
        return model

    def twin_too(model, optimizer):
        if not model[1].weight._backward_hooks:  # a copy has none
            model[1].weight.register_hook(lambda g: g * 0.5)
        stepping(lambda h: h)(model, optimizer)

    (verdict,) = verified(tmp_path, make, twin_too)

    holds(verdict, but=["gradient of 1.weight, as it is handed on"])
    assert any("gradient of 1.weight" in text for text in left_out(verdict))


def test_hooks_of_modules_do_not_disturb(tmp_path):
    def step(model, optimizer):
        handle = model[1].register_full_backward_hook(lambda module, given, got: None)
        stepping(lambda h: h)(model, optimizer)
        handle.remove()

    (verdict,) = verified(tmp_path, network, step)

    holds(verdict)


# ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Block(torch.nn.Module):
    def __init__(self, reentrant, dropout=0.0, keeps=True):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.dropout, self.reentrant, self.keeps = torch.nn.Dropout(dropout), reentrant, keeps

    def inner(self, h):
        return self.b(self.dropout(torch.tanh(self.a(h))))

    def forward(self, h):
        return h + checkpoint(self.inner, h, use_reentrant=self.reentrant, preserve_rng_state=self.keeps)


def checkpointed(**given):
    return lambda: torch.nn.Sequential(torch.nn.Linear(6, 8), Block(**given), torch.nn.Linear(8, 3))


def whole(model, optimizer):
    optimizer.zero_grad()
    x = torch.linspace(-1, 1, 30).reshape(5, 6).sin()
    F.cross_entropy(model(x), torch.tensor([0, 1, 2, 0, 1])).backward()
    optimizer.step()


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_a_checkpoint_is_checked_like_what_it_covers(tmp_path, reentrant, dropout):
    (verdict,) = verified(tmp_path, checkpointed(reentrant=reentrant, dropout=dropout), whole)

    holds(verdict)
    gradients = {found.place for found in verdict.results if found.equation == "gradient"}
    assert {"1.a.weight", "1.b.weight", "0.weight"} <= gradients


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_that_was_recomputed_with_another_mask_is_found(tmp_path, reentrant):
    (verdict,) = verified(tmp_path, checkpointed(reentrant=reentrant, dropout=0.4, keeps=False), whole)

    assert verdict.verdict == "broken"
    assert all(found.equation == "gradient" for found in verdict.broken)

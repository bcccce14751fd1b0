"""Values that change: in place, through views, through aliases that the framework does not know of; each is tied or listed."""

import numpy as np
import pytest
import torch
from stepping import broken, holds, left_out, verified

F = torch.nn.functional


class Bent(torch.nn.Module):
    """Two linear layers, and something in place between them."""

    def __init__(self, between):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
        self.between = between

    def forward(self, x):
        return self.last(self.between(self.first(x)))


def stepping(x=None):
    def step(model, optimizer):
        torch.manual_seed(3)
        given = torch.randn(5, 6) if x is None else x
        optimizer.zero_grad()
        F.cross_entropy(model(given), torch.tensor([0, 1, 2, 0, 1])).backward()
        optimizer.step()

    return step


def added(h):
    h += 0.5
    return h


def doubled_slice(h):
    h = h * 1.0
    h[:, 2:5].mul_(2)
    return h


def two_views(h):
    h = h.clone()
    left, right = h[:, :4], h[:, 2:6]
    left.mul_(3)
    right.add_(left.flip(1))
    return h + left.sum() + right.mean()


def row_set(h):
    h = h * 2
    h[1] = h[0].detach() * 0.5
    h[:, 3] = 1.5
    return h


def gathered_put(h):
    h = h * 2
    return h.index_put((torch.tensor([0, 2]),), h[3:5] * 0.1)


def masked(h):
    h = h.clone()
    h.masked_fill_(h > 0.3, 0.25)
    return h


def view_of_view(h):
    h = h * 1
    tall = h.view(10, 4)
    tall.t()[1].sub_(tall[:, 0])
    return h + tall.reshape(5, 8)


def into_a_given_one(h):
    out = torch.empty(5, 8)
    with torch.no_grad():
        torch.mul(h, 2, out=out)
    return h + out


def island(h):
    with torch.no_grad():
        scale = h.abs().max()
        scale.clamp_(min=1e-3)
    return h / scale


def behind_its_back(h):
    h = h * 1
    with torch.no_grad():
        h.mul_(0.5)
    return h * 2


def through_data(h):
    h = h * 1
    h.data.mul_(0.5)
    return h * 2


def filled_buffer(h):
    cache = torch.zeros(5, 8)
    cache[:, :4] = h[:, :4]
    cache[:, 4:] = h[:, 4:].tanh()
    return cache


def unbound(h):
    a, b = (h * 1).split(4, dim=1)
    return torch.cat([b, a], dim=1).add_(h)


HONEST = {
    "x +=": added,
    "relu in place": lambda h: F.relu(h * 1.0, inplace=True),
    "leaky relu in place": lambda h: F.leaky_relu((h * 1).view(40), 0.2, True).view(5, 8),
    "mul_ on a slice": doubled_slice,
    "two views that overlap": two_views,
    "set by index": row_set,
    "index_put": gathered_put,
    "masked_fill_": masked,
    "a view of a view": view_of_view,
    "out=": into_a_given_one,
    "an island without gradients": island,
    "in place without autograd": behind_its_back,
    "through .data": through_data,
    "a buffer filled in parts": filled_buffer,
    "split": unbound,
}


@pytest.mark.parametrize("name", HONEST)
def test_what_is_changed_in_place_is_tied_to_what_it_was(name, tmp_path):
    (verdict,) = verified(tmp_path, lambda: Bent(HONEST[name]), stepping())

    holds(verdict)


def test_a_kernel_that_reads_what_it_has_just_written_is_found(tmp_path):
    def overlapping(h):
        h = h.clone()
        h[:, 2:6].add_(h[:, :4])  # undefined for tensors that overlap, and not always refused
        return h

    (verdict,) = verified(tmp_path, lambda: Bent(overlapping), stepping())

    assert broken(verdict)[0] == ("forward", "add_")


def test_a_write_by_other_means_is_not_taken_for_an_input(tmp_path):
    def elsewhere(h):
        y = h.detach() * 1
        np.asarray(y)[0, 0] += 1.0
        torch._C._autograd._unsafe_set_version_counter((y,), (y._version + 1,))
        return h + y

    (verdict,) = verified(tmp_path, lambda: Bent(elsewhere), stepping())

    assert verdict.verdict == "holds"
    assert any("a change in place that no call shows" in text for text in left_out(verdict))


def test_an_in_place_function_that_does_something_else_is_found_there(tmp_path):
    plain = torch.Tensor.mul_

    def between(h):
        h = h * 1.0
        view = h[:, 2:5]
        view.mul_(2)
        return h

    def wrong(self, other):
        return plain(self, other * 1.001)

    (verdict,) = verified(tmp_path, lambda: Bent(between), spoiling("mul_", wrong), same=False)

    assert broken(verdict)[0] == ("forward", "mul_")


def spoiling(name, wrong):
    """The step, with a method of tensors that computes something else under its name."""
    inner = stepping()

    def step(model, optimizer):
        from torch.overrides import TorchFunctionMode

        class Spoiled(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                if getattr(func, "__name__", "") == name:
                    return wrong(*args, **(kwargs or {}))
                return func(*args, **(kwargs or {}))

        from backproof.adapters.torch import observe  # noqa: F401 # recorded above, spoiled below

        with Below(Spoiled()):
            inner(model, optimizer)

    return step


class Below:
    """A mode under those that are there: what they call, it changes."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        from torch.overrides import _pop_mode, _push_mode

        try:
            self.above = _pop_mode()
        except (AssertionError, RuntimeError, IndexError):
            self.above = None
        _push_mode(self.mode)
        if self.above is not None:
            _push_mode(self.above)

    def __exit__(self, *_):
        from torch.overrides import _pop_mode, _push_mode

        if self.above is not None:
            _pop_mode()
        _pop_mode()
        if self.above is not None:
            _push_mode(self.above)

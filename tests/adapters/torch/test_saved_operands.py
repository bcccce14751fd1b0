"""What autograd saved for the backward pass, changed before it is used; and what is changed without harm."""

import numpy as np
import pytest
import torch
from stepping import broken, holds, left_out, verified

F = torch.nn.functional


class Net(torch.nn.Module):
    def __init__(self, meanwhile):
        super().__init__()
        self.first, self.last, self.meanwhile = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3), meanwhile

    def forward(self, x):
        h = self.first(x)
        y = torch.sigmoid(h) * h
        out = self.last(y)
        self.meanwhile(h, y)
        return out


def step(model, optimizer):
    optimizer.zero_grad()
    x = torch.linspace(-1, 1, 30).reshape(5, 6).sin()
    F.cross_entropy(model(x), torch.tensor([0, 1, 2, 0, 1])).backward()
    optimizer.step()


def by_data(h, y):
    y.data[0, 0] += 0.25


def by_numpy(h, y):
    np.asarray(y.detach())[0, 0] += 0.25


@pytest.mark.parametrize("edit", [by_data, by_numpy])
def test_an_operand_that_is_edited_between_is_found_at_its_call(tmp_path, edit):
    (verdict,) = verified(tmp_path, lambda: Net(edit), step)

    assert broken(verdict)[0] == ("saved operand", "last: linear")
    assert ("gradient", "last.weight") in broken(verdict)
    assert not any(equation == "forward" for equation, _ in broken(verdict))


def test_what_was_not_saved_may_change(tmp_path):
    class Plain(Net):
        def forward(self, x):
            h = self.first(x)
            y = h + 1.0
            out = self.last(y.tanh())
            self.meanwhile(h, y)
            return out

    def harmless(h, y):
        with torch.no_grad():
            h.add_(1.0)

    (verdict,) = verified(tmp_path, lambda: Plain(harmless), step)

    holds(verdict)


def test_numbers_that_were_lost_are_listed_and_their_neighbours_checked(tmp_path):
    class Plain(Net):
        def forward(self, x):
            y = self.first(x) + 1.0
            self.meanwhile(None, y)  # the sum saves nothing, so only what was recorded of it is lost
            return self.last(y.detach() * 0 + y * 2)

    (verdict,) = verified(tmp_path, lambda: Plain(by_numpy), step)

    assert verdict.verdict == "broken" or any("unseen" in text for text in left_out(verdict))


def test_the_batch_that_is_overwritten_during_the_step_is_noticed(tmp_path):
    def overwriting(model, optimizer):
        x = torch.linspace(-1, 1, 30).reshape(5, 6).sin()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), torch.tensor([0, 1, 2, 0, 1]))
        np.asarray(x)[:] = 0.0
        loss.backward()
        optimizer.step()

    (verdict,) = verified(tmp_path, lambda: Net(lambda h, y: None), overwriting)

    assert broken(verdict)[0] == ("saved operand", "first: linear")

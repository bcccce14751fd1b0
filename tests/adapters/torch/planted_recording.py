"""What only a record shows: masks, operands that were saved, functions of the user's own, claims, and what a step is restored from."""

from collections.abc import Callable
from pathlib import Path

import torch
from planted import Planted, recorded
from planted_gradients import derivative
from planted_kernels import X, classes, kernel, mlp
from torch import nn

import backproof.torch as bpt

P = 0.25


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Dropout(P), nn.Linear(32, 3))


def kept(x: torch.Tensor, p: float = P) -> torch.Tensor:
    return (torch.rand_like(x) >= p).to(x.dtype)


def of_another_mask(func, x, p=P, training=True, inplace=False):
    mask = kept(x)
    return derivative(lambda gy, y, x: gy * kept(gy) / (1 - p))(lambda x: x * mask / (1 - p), x)


def of_no_scale(func, x, p=P, training=True, inplace=False):
    mask = kept(x)
    return derivative(lambda gy, y, x: gy * mask)(lambda x: x * mask / (1 - p), x)


class Through(nn.Module):
    """A function of the user's own between two layers."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Linear(8, 16), nn.Linear(16, 3), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.function(self.first(x)))


def own(wrong: Callable, right: Callable, **options) -> Callable[[Path, bool], None]:
    """A step of a model with one of two functions, the same but for the mistake."""

    def record(out: Path, mistaken: bool) -> None:
        torch.manual_seed(0)
        model = Through(wrong if mistaken else right)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            classes(model(X)).backward()
            optimizer.step()

        recorded(out, model, step, optimizer, 2, **options)

    return record


def cube(factor: float, *, stale: bool = False) -> Callable:
    held: list[torch.Tensor] = []

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            held.append(x.detach())
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            (x,) = (held[0],) if stale else ctx.saved_tensors
            return factor * x**2 * gradient

    return Cube.apply


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x.round()

    @staticmethod
    def backward(_, gradient):
        return gradient


class Meant(Rounded):
    """The same, declared."""


bpt.intended(Meant)


def edited(change: Callable) -> Callable:
    """What a layer has saved is changed before its backward comes to it."""

    def through(h: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(h)
        z = y * y.detach()
        change(y)
        return z

    return through


def by_data(y: torch.Tensor) -> None:
    y.data[0, 0] += 0.25


def recomputed(*, same: bool) -> Callable:
    """A checkpoint whose forward is another when it is run again."""

    def through(h: torch.Tensor) -> torch.Tensor:
        runs: list[int] = []

        def inner(x: torch.Tensor) -> torch.Tensor:
            runs.append(1)
            return torch.tanh(x * (1.0 if same or len(runs) == 1 else 1.5))

        return torch.utils.checkpoint.checkpoint(inner, h, use_reentrant=False)

    return through


def claimed(make: Callable[[], nn.Module], right: Callable[[], nn.Module], meaning: nn.Module) -> Callable:
    """A module that is claimed to be another."""

    def record(out: Path, wrong: bool) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), make() if wrong else right(), nn.Linear(16, 3))
        with bpt.Recorder(model, out=out) as recorder:
            recorder.claim("1", meaning)
            with recorder.step():
                classes(model(X)).backward()

    return record


class Norm(nn.Module):
    """Somebody's layer norm."""

    def __init__(self, correction: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(16)), nn.Parameter(torch.zeros(16))
        self.correction = correction

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        off = x - x.mean(-1, keepdim=True)
        return off * torch.rsqrt(x.var(-1, correction=self.correction, keepdim=True) + 1e-5) * self.weight + self.bias


def restored(what: Callable[[nn.Module, torch.optim.Optimizer], None]) -> Callable:
    """Something is put back between two steps, and is not what the first has left."""

    def record(out: Path, wrong: bool) -> None:
        torch.manual_seed(0)
        model = mlp()()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with bpt.Recorder(model, optimizer, out=out) as recorder:
            for _ in range(2):
                with recorder.step():
                    optimizer.zero_grad()
                    classes(model(X)).backward()
                    optimizer.step()
                if wrong:
                    what(model, optimizer)

    return record


def half_as_large(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for state in optimizer.state.values():
        state["exp_avg"] *= 0.5


def rounded(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        parameter.data.copy_(parameter.data.bfloat16())


CASES = (
    Planted(
        "dropout that forgets its scale",
        kernel(dropping, X, classes, dropout=lambda f, x, p=P, training=True, inplace=False: x * kept(x)),
        "forward",
    ),
    Planted(
        "dropout that drops another share",
        kernel(
            dropping,
            X,
            classes,
            dropout=lambda f, x, p=P, training=True, inplace=False: x * kept(x, 0.02) / (1 - p),
        ),
        "mask",
    ),
    Planted(
        "dropout whose backward uses another mask", kernel(dropping, X, classes, dropout=of_another_mask), "gradient"
    ),
    Planted("dropout whose backward forgets its scale", kernel(dropping, X, classes, dropout=of_no_scale), "gradient"),
    Planted("a custom backward wrong by a factor", own(cube(2.0), cube(3.0)), "gradient", "Cube"),
    Planted("a custom backward that uses a stale operand", own(cube(3.0, stale=True), cube(3.0)), "gradient", "Cube"),
    Planted("a straight-through estimate that nobody declared", own(Rounded.apply, Meant.apply), "gradient", "Rounded"),
    Planted("an operand edited before its backward", own(edited(by_data), edited(lambda y: None)), "saved operand"),
    Planted(
        "a checkpoint that is recomputed otherwise", own(recomputed(same=False), recomputed(same=True)), "gradient"
    ),
    Planted(
        "a layer norm of somebody's with an unbiased variance",
        claimed(lambda: Norm(1), lambda: Norm(0), nn.LayerNorm(16)),
        "forward",
        cause="unbiased variance",
    ),
    Planted("an optimizer's state restored at half", restored(half_as_large), "chain"),
    Planted("parameters restored from a coarser format", restored(rounded), "chain"),
)

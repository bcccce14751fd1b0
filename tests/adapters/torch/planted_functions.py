"""Functions of few programs that compute something else than their names say: norms of nothing, grids, orders, matrices."""

import torch
from planted import Planted
from planted_kernels import classes, kernel, numbers
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it


class Normalised(nn.Module):
    """Rows of length 1; what is nothing stays nothing, and has a large slope."""

    def __init__(self):
        super().__init__()
        self.within, self.out = nn.Linear(8, 16, bias=False), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(F.normalize(self.within(x), eps=1e-6))


def with_an_empty_row() -> torch.Tensor:
    x = numbers(24, 8)
    x[3] = 0.0
    return x


class Warped(nn.Module):
    """A spatial transformer: where a plane is read is learned."""

    def __init__(self):
        super().__init__()
        self.where, self.out = nn.Linear(128, 6), nn.Linear(128, 3)

    def forward(self, x):
        theta = self.where(x.flatten(1)).view(-1, 2, 3) * 0.3 + torch.eye(2, 3)
        grid = F.affine_grid(theta, x.shape, align_corners=False)
        return self.out(F.grid_sample(x, grid, align_corners=False).flatten(1))


def corners(func, *given, align_corners=None, **named):
    return func(*given, align_corners=True, **named)


class Spread(nn.Module):
    """Each row by the distance of its quartiles."""

    def __init__(self):
        super().__init__()
        self.within, self.out = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x):
        x = self.within(x)
        quartiles = torch.quantile(x, torch.tensor([0.25, 0.75]), dim=1, keepdim=True)
        return self.out(x / (quartiles[1] - quartiles[0]))


class Coded(nn.Module):
    """What is nearest in a table of codes, by numbers of eight bits."""

    def __init__(self):
        super().__init__()
        self.codes, self.out = nn.Parameter(numbers(30, 8, seed=2)), nn.Linear(30, 3)

    def forward(self, x):
        return self.out(torch.cdist(torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127), self.codes))


class Turned(nn.Module):
    """Rotary places, by complex numbers."""

    def __init__(self):
        super().__init__()
        self.within, self.out = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        pairs = torch.view_as_complex(self.within(x).view(-1, 4, 2))
        turns = torch.polar(
            torch.ones(len(x), 4), torch.outer(torch.arange(len(x)), torch.tensor([1.0, 0.1, 0.01, 0.001]))
        )
        return self.out(torch.view_as_real(pairs * turns).flatten(1))


CASES = (
    Planted(
        "another epsilon under a row of zeros, which no value shows",
        kernel(Normalised, with_an_empty_row(), classes, normalize=lambda f, x, **_: f(x, eps=1e-5)),
        "gradient",
        "output of within: linear",
    ),
    Planted(
        "a grid whose ends are centres of cells, read as if they were edges",
        kernel(Warped, numbers(6, 2, 8, 8), classes, grid_sample=corners),
        "forward",
        "grid_sample",
    ),
    Planted(
        "a grid made for the other convention of corners",
        kernel(Warped, numbers(6, 2, 8, 8), classes, affine_grid=corners),
        "forward",
        "affine_grid",
    ),
    Planted(
        "levels rounded down",
        kernel(
            Coded,
            numbers(24, 8),
            classes,
            fake_quantize_per_tensor_affine=lambda f, x, scale, *rest: f(x - scale / 2, scale, *rest),
        ),
        "forward",
        "fake_quantize_per_tensor_affine",
    ),
    Planted(
        "distances that are squared",
        kernel(Coded, numbers(24, 8), classes, cdist=lambda f, *given, **named: f(*given, **named).square()),
        "forward",
        "cdist",
    ),
    Planted(
        "a complex product without its conjugate's sign",
        kernel(
            Turned,
            numbers(24, 8),
            classes,
            mul=lambda f, a, b: torch.complex(a.real * b.real + a.imag * b.imag, a.real * b.imag + a.imag * b.real),
        ),
        "forward",
        "mul",
    ),
    Planted(
        "turned the other way",
        kernel(Turned, numbers(24, 8), classes, polar=lambda f, size, angle: f(size, -angle)),
        "forward",
        "polar",
    ),
    Planted(
        "quantiles with a rank of n for n − 1",
        kernel(Spread, numbers(24, 8), classes, quantile=lambda f, x, q, **named: f(x, q * 16 / 15, **named)),
        "forward",
        "quantile",
    ),
)

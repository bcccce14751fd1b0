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


CASES = (
    Planted(
        "another epsilon under a row of zeros, which no value shows",
        kernel(Normalised, with_an_empty_row(), classes, normalize=lambda f, x, **_: f(x, eps=1e-5)),
        "gradient",
        "output of within: linear",
    ),
)

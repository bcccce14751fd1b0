"""Tensors to call functions with: away from ties and edges, and the same in every run."""

from __future__ import annotations

import math

import torch


def real(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    """Distinct numbers that want a gradient."""
    n = math.prod(shape)
    generator = torch.Generator().manual_seed(seed + 31 * n)
    places = (
        torch.randperm(n, generator=generator, dtype=torch.int64).double()
        + 0.25
        + 0.5 * torch.rand(n, generator=generator, dtype=torch.float64)
    )
    # Numbers of float32, so that both formats are given the same.
    return (low + (high - low) * places / max(n, 1)).float().double().reshape(shape).requires_grad_()


def above(*shape: int, seed: int = 0, high: float = 3.0) -> torch.Tensor:
    """Positive numbers, not near 0."""
    return real(*shape, seed=seed, low=0.3, high=high)


def within(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers between −1 and 1."""
    return real(*shape, seed=seed, low=-0.9, high=0.9)


def chance(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers between 0 and 1."""
    return real(*shape, seed=seed, low=0.05, high=0.95)


def blank(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers of which the second row, and what of others is below a quarter, is 0."""
    x = plain(real(*shape, seed=seed))
    x[abs(x) < 0.25] = 0.0
    x[1] = 0.0
    return x.requires_grad_()


def plain(x: torch.Tensor) -> torch.Tensor:
    """The same numbers, which want no gradient."""
    return x.detach()


def whole(*shape: int, below: int, seed: int = 0, least: int = 0) -> torch.Tensor:
    """Whole numbers."""
    return torch.randint(least, below, shape, generator=torch.Generator().manual_seed(seed + 7))


def truth(*shape: int, seed: int = 0) -> torch.Tensor:
    """Some true, some false."""
    return real(*shape, seed=seed).detach() > 0.1

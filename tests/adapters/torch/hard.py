"""Honest steps that are hard to judge: large means, ties, saturation, tiny numbers, nothing at all, infinities, and no numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from programs import Made, Program, data
from torch import nn
from torch.nn import functional as fn

INF = float("inf")
EVEN = torch.arange(16) % 2 == 0


class Between(nn.Module):
    """What happens to h between two layers."""

    def __init__(self, change: Callable[..., torch.Tensor], parts: dict[str, nn.Module]) -> None:
        super().__init__()
        self.first, self.last, self.change = nn.Linear(8, 16), nn.Linear(16, 3), change
        self.parts = nn.ModuleDict(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.change(self.first(x), **self.parts))


def hard(
    change: Callable[..., torch.Tensor] = torch.tanh,
    loss: Callable[..., torch.Tensor] = fn.cross_entropy,
    rows: int = 12,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
    **parts: Callable[[], nn.Module],
) -> Callable[[], Made]:
    def make() -> Made:
        model = Between(change, {name: part() for name, part in parts.items()})
        updates = optimizer(model.parameters(), lr=1e-2)

        def step(i: int) -> None:
            x, y = data(i, rows)
            updates.zero_grad()
            loss(model(x), y).backward()
            updates.step()

        return model, [updates], step

    return make


def times(factor: float) -> Callable[..., torch.Tensor]:
    return lambda z, y: fn.cross_entropy(z, y) * factor


def near_ties(h: torch.Tensor) -> torch.Tensor:
    return fn.max_pool1d(fn.pad((h * 4).round() / 4 + h * 1e-8, (1, 1))[:, None], 3, 1)[:, 0]


def exact_ties(h: torch.Tensor) -> torch.Tensor:
    return fn.max_pool1d(fn.relu(h - 1)[:, None], 4, 1, padding=2)[:, 0, :16]


def attended(h: torch.Tensor, **options: Any) -> torch.Tensor:
    q = h[None, None]
    return fn.scaled_dot_product_attention(q, q, q, **options)[0, 0]


def of_one(h: torch.Tensor) -> torch.Tensor:
    """Orders of what is mostly equal."""
    return h + (h.detach() * 0 + torch.arange(16) // 4).topk(5)[0].sum(-1, keepdim=True) + (h * 2).round().sort(-1)[0]


def nothing_chosen(h: torch.Tensor) -> torch.Tensor:
    none = torch.zeros(0, dtype=torch.long)
    chosen = h[torch.zeros(len(h), dtype=torch.bool)]
    return torch.cat([chosen, h.index_add(0, none, h[none])]) + chosen.sum()


def of_size_zero(h: torch.Tensor, empty: nn.Module) -> torch.Tensor:
    return torch.cat([h[:0], h, h.new_zeros(0, 16)]) + empty(h[:, :0]).sum() + fn.relu(h[:0]).sum()


def ignored(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return fn.cross_entropy(z.repeat(1, 1000), torch.where(torch.arange(12) % 2 == 0, -100, y * 999))


def beside_much(h: torch.Tensor) -> torch.Tensor:
    """Products that are small beside what they are added to: a kernel may begin with that, and round it at every term."""
    h = h.double()
    large, turn = h.new_full((12, 12), 1000.0), h.t() * 0.1
    found = torch.addmm(large, h, turn, alpha=0.35) + torch.baddbmm(large[None], h[None], turn[None], alpha=0.35)[0]
    return (h + fn.linear(h, h[:1].expand(16, 16) * 0.1, h.new_full((16,), 1000.0)) + found[:, :1] - 2000.0).float()


HARD = (
    Program("a layer norm of mean 100", hard(lambda h, norm: norm(h + 100), norm=lambda: nn.LayerNorm(16))),
    Program("a layer norm of mean 10000", hard(lambda h, norm: norm(h + 1e4), norm=lambda: nn.LayerNorm(16))),
    Program("a layer norm of a constant", hard(lambda h, norm: norm(h * 0 + 1), norm=lambda: nn.LayerNorm(16))),
    Program("a batch norm of mean 100", hard(lambda h, norm: norm(h + 100), norm=lambda: nn.BatchNorm1d(16))),
    Program("a batch norm of two", hard(lambda h, norm: norm(h), rows=2, norm=lambda: nn.BatchNorm1d(16))),
    Program("a norm of tiny numbers", hard(lambda h, norm: norm(h * 1e-20), norm=lambda: nn.RMSNorm(16))),
    Program("near ties in a pool", hard(near_ties)),
    Program("exact ties in a pool", hard(exact_ties)),
    Program("orders of equals", hard(of_one)),
    Program("a saturated softmax", hard(lambda h: (h * 1e3).softmax(-1))),
    Program("saturated scores", hard(loss=lambda z, y: fn.cross_entropy(z * 1e4, y))),
    Program("saturated attention", hard(lambda h: attended(h * 50))),
    Program(
        "saturated probabilities",
        hard(loss=lambda z, y: fn.binary_cross_entropy((z[:, 0] * 100).sigmoid(), y.clamp(0, 1).float())),
    ),
    Program("gradients of 1e-12", hard(loss=times(1e-12))),
    Program("gradients of 1e-30", hard(loss=times(1e-30))),
    Program("subnormal gradients", hard(loss=times(1e-38), optimizer=torch.optim.SGD)),
    Program("numbers of 1e15", hard(lambda h: h * 1e15, lambda z, y: (z / 1e15).square().mean())),
    Program("products beside large numbers", hard(beside_much)),
    Program("a batch of one", hard(lambda h, norm: fn.gelu(norm(h)), rows=1, norm=lambda: nn.LayerNorm(16))),
    Program("empty selections", hard(nothing_chosen)),
    Program("tensors of size zero", hard(of_size_zero, empty=lambda: nn.Linear(0, 3))),
    Program("scores of −∞", hard(lambda h: h.masked_fill(EVEN, -INF).softmax(-1))),
    Program("a mask of the least number", hard(lambda h: (h + torch.where(EVEN, torch.finfo().min, 0.0)).softmax(-1))),
    Program("a mask of −∞", hard(lambda h: attended(h, attn_mask=torch.full((12, 12), -INF).triu(1)))),
    Program(
        "rows that are masked whole",
        hard(lambda h: attended(h, attn_mask=torch.arange(12)[:, None].expand(12, 12) < 6)),
    ),
    Program("many classes, half of the targets ignored", hard(loss=ignored)),
    Program("every target ignored", hard(loss=lambda z, y: fn.cross_entropy(z, y * 0 - 100, reduction="sum"))),
    Program("every target ignored, and their mean", hard(loss=lambda z, y: fn.cross_entropy(z, y * 0 - 100))),
    Program("a ReLU of zeros", hard(lambda h: fn.relu(h * 0) + (h * 0).abs() + (h * 0).clamp(0, 1))),
    Program("a norm of zeros", hard(lambda h: (h * 0).norm(dim=-1, keepdim=True) + h)),
    Program("a root of zero", hard(lambda h: (h * 0).square().sum(-1, keepdim=True).sqrt() + h)),
    Program("products with zeros", hard(lambda h: fn.relu(h).cumprod(-1) + fn.relu(h[:, :3]).prod(-1, keepdim=True))),
    Program("whole numbers of infinities", hard(lambda h: h + fn.relu(h.detach()).log().int().clamp(0, 1))),
    Program("cosines with zeros", hard(lambda h: h + fn.cosine_similarity(h * 0, h)[:, None])),
    Program(
        "a half and a number", hard(lambda h: ((h.bfloat16() + 0.7) * (1.3 - h.bfloat16()) - torch.tensor(0.3)).float())
    ),
    Program("numbers that overflow", hard(lambda h: (h * 100).exp())),
)

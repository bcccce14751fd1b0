"""The zoo, second house: layers of torch.nn and small networks of all kinds. Each is called with its inputs and gives its loss."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as fn

SEQUENCES = torch.linspace(-2, 2, 5 * 3 * 4).reshape(5, 3, 4).sin()
ROWS = torch.linspace(-3, 3, 12 * 8).reshape(12, 8).cos()
LABELS = torch.arange(12) % 3
PICTURES = torch.linspace(-2, 2, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16).sin()
EDGES = torch.tensor([[0, 1, 2, 3, 4, 4, 2], [1, 2, 0, 4, 3, 0, 2]])


class Network(nn.Module):
    """Parts, and what they make of the inputs: a loss."""

    def __init__(self, loss: Callable[..., torch.Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)
        self.of = loss

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return self.of(**self.parts, **inputs)


# ── recurrent ───────────────────────────────────────────────────────────────────────────────────────────────────────


def recurrent(kind: type[nn.RNNBase], *, packed: bool = False, **options: Any) -> Callable[[], nn.Module]:
    width = (options.get("proj_size") or 6) * (2 if options.get("bidirectional") else 1)

    def loss(layer: nn.RNNBase, head: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        if not packed:
            return head(layer(x)[0]).square().mean()
        rows = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 2, 4]), enforce_sorted=False)
        y, lengths = nn.utils.rnn.pad_packed_sequence(layer(rows)[0])
        return head(y).square().sum() / lengths.sum()

    return lambda: Network(loss, layer=kind(4, 6, **options), head=nn.Linear(width, 2))


def cells() -> nn.Module:
    def loss(lstm: nn.LSTMCell, gru: nn.GRUCell, rnn: nn.RNNCell, x: torch.Tensor) -> torch.Tensor:
        h, c, g, r = (x.new_zeros(3, 6) for _ in range(4))
        for row in x:
            (h, c), g, r = lstm(row, (h, c)), gru(row, g), rnn(row, r)
        return (h * g + r).square().sum()

    return Network(loss, lstm=nn.LSTMCell(4, 6), gru=nn.GRUCell(4, 6), rnn=nn.RNNCell(4, 6))


DEEP = {"num_layers": 2, "bidirectional": True, "batch_first": True}

# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────────────


def transformer(**options: Any) -> Callable[[], nn.Module]:
    def loss(model: nn.Transformer, x: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=x.dtype)
        return model(x, x[:3], tgt_mask=mask).square().mean()

    return lambda: Network(loss, model=nn.Transformer(4, 2, 1, 1, 8, **options))


def attention(**options: Any) -> Callable[[], nn.Module]:
    def loss(layer: nn.MultiheadAttention, x: torch.Tensor) -> torch.Tensor:
        blocked = torch.arange(5).expand(3, 5) == 4
        y, weights = layer(x, x, x, key_padding_mask=blocked)
        return y.square().mean() + weights.square().sum()

    return lambda: Network(loss, layer=nn.MultiheadAttention(4, 2, **options))


# ── images ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class UNet(nn.Module):
    """Down and up again, by a transposed convolution and by resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.down, self.groups = nn.Conv2d(4, 8, 3, padding=1, stride=2), nn.GroupNorm(2, 8)
        self.up, self.last = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        top = fn.leaky_relu(self.norm(self.first(x)), 0.1)
        low = self.up(fn.silu(self.groups(self.down(top))))
        low = low + fn.interpolate(fn.max_pool2d(low, 2), scale_factor=2, mode="bilinear", align_corners=False)
        y = self.last(torch.cat([top, fn.elu(low)], 1))
        return fn.l1_loss(torch.sigmoid(y), x * 0.5) + fn.cross_entropy(y, (x[:, 0] > 0).long())


def separable() -> nn.Module:
    def loss(deep: nn.Conv2d, point: nn.Conv2d, squeeze: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        y = fn.hardswish(point(fn.relu6(deep(x))))
        gate = fn.hardsigmoid(squeeze(fn.adaptive_avg_pool2d(y, 1).flatten(1)))
        return (y * gate[:, :, None, None]).pow(2).mean()

    return Network(
        loss, deep=nn.Conv2d(3, 3, 3, groups=3, padding=1), point=nn.Conv2d(3, 8, 1), squeeze=nn.Linear(8, 8)
    )


# ── others ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def perceptron() -> nn.Module:
    def loss(layers: nn.Sequential, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return fn.cross_entropy(layers(x), labels, label_smoothing=0.1)

    layers = nn.Sequential(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 16), nn.SELU(), nn.Linear(16, 3)
    )
    return Network(loss, layers=layers)


def graph_network() -> nn.Module:
    """Messages along edges, added up at their ends (index_add), the largest of each graph by its nodes."""

    def loss(first: nn.Linear, second: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        begin, end = EDGES
        nodes = x[:5]
        around = torch.zeros_like(nodes).index_add(0, end, nodes[begin])
        hidden = torch.relu(first(nodes * 1.1 + around))
        mean = torch.zeros(2, 6, dtype=x.dtype).scatter_add(
            0, torch.tensor([[0], [0], [1], [1], [1]]).expand(5, 6), hidden
        )
        return second(mean[hidden.sum(1)[:2].argsort()]).logsumexp(1).mean()

    return Network(loss, first=nn.Linear(8, 6), second=nn.Linear(6, 3))


def variational() -> nn.Module:
    """A variational autoencoder: noise, reparametrised."""

    def loss(encode: nn.Linear, decode: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        mean, spread = encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        rebuilt = fn.binary_cross_entropy_with_logits(decode(z), (x > 0).to(x.dtype), reduction="sum")
        return rebuilt - 0.5 * (1 + spread - mean**2 - spread.exp()).sum()

    return Network(loss, encode=nn.Linear(8, 4), decode=nn.Linear(2, 8))


def autoencoder() -> nn.Module:
    def loss(encode: nn.Linear, decode: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        return fn.binary_cross_entropy(torch.sigmoid(decode(torch.tanh(encode(x)))), x.clamp(0, 1))

    return Network(loss, encode=nn.Linear(8, 3), decode=nn.Linear(3, 8))


def chain_field() -> nn.Module:
    """A linear chain: the score of the labels against all ways through them."""

    def loss(emit: nn.Linear, moves: nn.Linear, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores, step = emit(x), moves.weight
        score, total = scores[0, labels[0]], scores[0]
        for t in range(1, 12):
            score = score + scores[t, labels[t]] + step[labels[t - 1], labels[t]]
            total = torch.logsumexp(total[:, None] + step, 0) + scores[t]
        return torch.logsumexp(total, 0) - score

    return Network(loss, emit=nn.Linear(8, 3), moves=nn.Linear(3, 3, bias=False))


def bags() -> nn.Module:
    """Embeddings in bags, cosine and triplet losses, weights in directions and lengths."""

    def loss(bag: nn.EmbeddingBag, turn: nn.Linear, labels: torch.Tensor) -> torch.Tensor:
        rows = bag(torch.arange(24).reshape(12, 2) % 9)
        y = fn.normalize(turn(rows))
        return fn.triplet_margin_loss(y[:4], y[4:8], y[8:]) + fn.cosine_embedding_loss(
            y, rows, (labels > 0).long() * 2 - 1
        )

    return Network(loss, bag=nn.EmbeddingBag(9, 4), turn=nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)))


HOUSE: dict[str, tuple[Callable[[], nn.Module], dict[str, Any]]] = {
    "lstm": (recurrent(nn.LSTM), {"x": SEQUENCES}),
    "lstm-deep": (recurrent(nn.LSTM, **DEEP), {"x": SEQUENCES}),
    "lstm-projected": (recurrent(nn.LSTM, proj_size=3, num_layers=2), {"x": SEQUENCES}),
    "lstm-packed": (recurrent(nn.LSTM, packed=True, bidirectional=True, num_layers=2), {"x": SEQUENCES}),
    "gru": (recurrent(nn.GRU), {"x": SEQUENCES}),
    "gru-deep": (recurrent(nn.GRU, **DEEP), {"x": SEQUENCES}),
    "gru-packed": (recurrent(nn.GRU, packed=True), {"x": SEQUENCES}),
    "rnn": (recurrent(nn.RNN), {"x": SEQUENCES}),
    "rnn-deep": (recurrent(nn.RNN, nonlinearity="relu", bias=False, **DEEP), {"x": SEQUENCES}),
    "cells": (cells, {"x": SEQUENCES}),
    "transformer": (transformer(), {"x": SEQUENCES}),
    "transformer-prenorm": (transformer(activation="gelu", norm_first=True, dropout=0.0), {"x": SEQUENCES}),
    "attention": (attention(), {"x": SEQUENCES}),
    "attention-biased": (attention(add_bias_kv=True, add_zero_attn=True), {"x": SEQUENCES}),
    "unet": (UNet, {"x": PICTURES}),
    "separable": (separable, {"x": PICTURES}),
    "perceptron": (perceptron, {"x": ROWS, "labels": LABELS}),
    "graph": (graph_network, {"x": ROWS}),
    "variational": (variational, {"x": ROWS}),
    "autoencoder": (autoencoder, {"x": ROWS}),
    "chain-field": (chain_field, {"x": ROWS, "labels": LABELS}),
    "bags": (bags, {"labels": LABELS}),
}

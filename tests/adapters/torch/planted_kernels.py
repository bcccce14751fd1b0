"""Kernels that compute something else than their names say, in the forward pass."""

from collections.abc import Callable
from pathlib import Path

import torch
from planted import Instead, Planted, recorded
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it


def numbers(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


CLASSES = torch.arange(24) * 5 % 3


def train(out: Path, model: nn.Module, x: torch.Tensor, loss: Callable, wrong: dict[str, Callable], steps: int = 1):
    """One step of plain descent with some functions replaced."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        loss(model(x)).backward()
        optimizer.step()

    with Instead(**wrong):
        recorded(out, model, step, optimizer, steps)


def network(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def kernel(make: Callable, x: torch.Tensor, loss: Callable, **wrong: Callable) -> Callable[[Path, bool], None]:
    """A case: a model, its input, a loss, and the functions that are replaced when the mistake is in."""

    def record(out: Path, mistaken: bool):
        torch.manual_seed(0)
        train(out, make(), x, loss, wrong if mistaken else {})

    return record


def classes(logits: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, CLASSES[: len(logits)])


def layer_norm(width: int = 16, **options) -> Callable:
    return lambda: network(nn.Linear(8, width), nn.LayerNorm(width, **options), nn.GELU(), nn.Linear(width, 3))


def norm_of_many() -> nn.Module:
    """A layer norm over data of mean 100 and deviation 1."""
    return network(nn.LayerNorm(256), nn.Linear(256, 3))


def other_eps(func, x, shape, weight=None, bias=None, eps=1e-5):
    return func(x, shape, weight, bias, 1e-6)


def unbiased(func, x, shape, weight=None, bias=None, eps=1e-5):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=True)
    return (x - mean) / (var + eps).sqrt() * weight + bias


def eps_outside(func, x, shape, weight=None, bias=None, eps=1e-5):
    mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
    return (x - mean) / (var.sqrt() + eps) * weight + bias


class Attention(nn.Module):
    def __init__(self, *, causal: bool = False):
        super().__init__()
        self.project, self.out, self.causal = nn.Linear(8, 24), nn.Linear(8, 3), causal

    def forward(self, x):
        q, k, v = (part.unsqueeze(1) for part in self.project(x).chunk(3, dim=-1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).squeeze(1)).mean(1)


class Masked(nn.Module):
    """Attention spelled out, with a mask of the lowest number there is."""

    def __init__(self):
        super().__init__()
        self.project, self.out = nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, dim=-1)
        mask = torch.full((x.shape[1], x.shape[1]), torch.finfo(x.dtype).min).triu(1)
        return self.out(F.softmax(q @ k.transpose(1, 2) / 8**0.5 + mask, dim=-1) @ v).mean(1)


def mask_off_by_one(func, q, k, v, is_causal=False, **_):
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(1)
    return func(q, k, v, attn_mask=seen)


class Images(nn.Module):
    def __init__(self, *, pool: bool = False):
        super().__init__()
        self.conv, self.out, self.pool = nn.Conv2d(2, 4, 3, padding=1), nn.Linear(4, 3), pool

    def forward(self, x):
        x = self.conv(x)
        x = F.max_pool2d(x, 2) if self.pool else x
        return self.out(x.flatten(2).mean(-1))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(11, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.table(x).sum(1))


def counted(func, logits, target, *args, **kwargs):
    """A mean over every row, those that are ignored too."""
    return func(logits, target, reduction="sum") / len(target)


def ignoring(logits):
    target = CLASSES[: len(logits)].clone()
    target[::3] = -100
    return F.cross_entropy(logits, target)


def smoothed(logits):
    return F.cross_entropy(logits, CLASSES[: len(logits)], label_smoothing=0.1)


def low_accumulation(func, x, weight, bias=None):
    return func(x.bfloat16(), weight.bfloat16(), None if bias is None else bias.bfloat16()).float()


def mlp(*middle: nn.Module) -> Callable:
    return lambda: network(nn.Linear(8, 16), *middle, nn.Linear(16, 3))


X, WIDE, IMAGE = numbers(24, 8), 100 + numbers(512, 256), numbers(6, 2, 8, 8)
WORDS = torch.arange(24).reshape(6, 4) * 3 % 10
ROWS = numbers(6, 5, 8)


def squares(y):
    return F.mse_loss(y, torch.ones_like(y))


def means(y):
    return torch.mean((y - 1) ** 2)


CASES = (
    Planted(
        "layer norm with another epsilon",
        kernel(layer_norm(), X, classes, layer_norm=other_eps),
        "forward",
        "1: layer_norm",
        cause="eps=1e-06",
    ),
    Planted(
        "layer norm with another epsilon, on data of mean 100",
        kernel(norm_of_many, WIDE, lambda y: y.square().mean(), layer_norm=other_eps),
        "forward",
        "0: layer_norm",
        cause="eps=1e-06",
    ),
    Planted(
        "layer norm with an unbiased variance",
        kernel(layer_norm(), X, classes, layer_norm=unbiased),
        "forward",
        "1: layer_norm",
        cause="unbiased variance",
    ),
    Planted(
        "layer norm with its epsilon outside of the root",
        kernel(layer_norm(eps=1e-3), X, classes, layer_norm=eps_outside),
        "forward",
        "1: layer_norm",
    ),
    Planted(
        "tanh-GELU for erf-GELU",
        kernel(layer_norm(), X, classes, gelu=lambda f, x, approximate="none": f(x, approximate="tanh")),
        "forward",
        "2: gelu",
        cause="tanh",
    ),
    Planted(
        "GELU by a sigmoid",
        kernel(mlp(nn.GELU()), X, classes, gelu=lambda f, x, approximate="none": x * torch.sigmoid(1.702 * x)),
        "forward",
        "1: gelu",
    ),
    Planted(
        "leaky where it should be ReLU",
        kernel(mlp(nn.ReLU()), X, classes, relu=lambda f, x, inplace=False: F.leaky_relu(x, 0.01)),
        "forward",
        "1: relu",
    ),
    Planted(
        "a linear layer without its bias",
        kernel(mlp(), X, classes, linear=lambda f, x, w, b: f(x, w)),
        "forward",
        "0: linear",
    ),
    Planted(
        "a sum where it should be a mean",
        kernel(mlp(), X, means, mean=lambda f, x: x.sum()),
        "forward",
        "mean",
        cause="72 times",
    ),
    Planted(
        "squares summed where they should be averaged",
        kernel(mlp(), X, squares, mse_loss=lambda f, x, y, *_, **__: f(x, y, reduction="sum")),
        "forward",
        "mse_loss",
        cause="reduction='sum'",
    ),
    Planted(
        "accumulation in bfloat16 where float32 is claimed",
        kernel(mlp(nn.Tanh()), X, classes, linear=low_accumulation),
        "forward",
        "0: linear",
        cause="bfloat16",
    ),
    Planted(
        "a softmax along the wrong axis",
        kernel(
            lambda: network(nn.Linear(8, 24), nn.Softmax(-1), nn.Linear(24, 3)),
            X,
            classes,
            softmax=lambda f, x, *_, **__: f(x, 0),
        ),
        "forward",
        "1: softmax",
    ),
    Planted(
        "attention without its scale",
        kernel(Attention, ROWS, classes, scaled_dot_product_attention=lambda f, q, k, v, **_: f(q, k, v, scale=1.0)),
        "forward",
        "scaled_dot_product_attention",
        cause="scale",
    ),
    Planted(
        "a causal mask that is off by one",
        kernel(lambda: Attention(causal=True), ROWS, classes, scaled_dot_product_attention=mask_off_by_one),
        "forward",
        "scaled_dot_product_attention",
    ),
    Planted(
        "a causal mask that is missing",
        kernel(
            lambda: Attention(causal=True),
            ROWS,
            classes,
            scaled_dot_product_attention=lambda f, q, k, v, **_: f(q, k, v),
        ),
        "forward",
        "scaled_dot_product_attention",
        cause="is_causal=False",
    ),
    Planted(
        "a temperature in a masked softmax",
        kernel(Masked, ROWS, classes, softmax=lambda f, x, **k: f(x * 1.001, **k)),
        "forward",
        "softmax",
    ),
    Planted(
        "a convolution padded off by one",
        kernel(Images, IMAGE, classes, conv2d=lambda f, x, w, b, *_: f(F.pad(x, (2, 0, 1, 1)), w, b)),
        "forward",
        "conv: conv2d",
    ),
    Planted(
        "a convolution with its kernel turned",
        kernel(Images, IMAGE, classes, conv2d=lambda f, x, w, b, *rest: f(x, w.flip(-1, -2), b, *rest)),
        "forward",
        "conv: conv2d",
    ),
    Planted(
        "average where it should be the largest",
        kernel(lambda: Images(pool=True), IMAGE, classes, max_pool2d=lambda f, x, *_, **__: F.avg_pool2d(x, 2)),
        "forward",
        "max_pool2d",
    ),
    Planted(
        "an embedding that reads the next row",
        kernel(Words, WORDS, classes, embedding=lambda f, x, w, *rest, **__: f(x + 1, w)),
        "forward",
        "table: embedding",
    ),
    Planted(
        "ignored targets counted in the mean",
        kernel(mlp(), X, ignoring, cross_entropy=counted),
        "forward",
        "cross_entropy",
        cause="ignored",
    ),
    Planted(
        "label smoothing on the wrong side",
        kernel(
            mlp(),
            X,
            smoothed,
            cross_entropy=lambda f, x, y, **k: f(x, y, label_smoothing=0.9),
        ),
        "forward",
        "cross_entropy",
    ),
    Planted(
        "label smoothing forgotten",
        kernel(mlp(), X, smoothed, cross_entropy=lambda f, x, y, *_, **__: f(x, y)),
        "forward",
        "cross_entropy",
        cause="label_smoothing",
    ),
    Planted(
        "a sign the other way",
        kernel(mlp(nn.Tanh()), X, classes, tanh=lambda f, x: -f(x)),
        "forward",
        "1: tanh",
        cause="−1",
    ),
)

"""Small models of every shape that a trace must cope with, each with data for it."""

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    """A graph and not a chain; layers that work in place; a module that is called twice; functions between modules."""

    def __init__(self):
        super().__init__()
        self.c1, self.bn = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.act, self.c2, self.head = nn.ReLU(inplace=True), nn.Conv2d(6, 6, 3, padding=1), nn.Linear(6, 5)

    def forward(self, x):
        h = self.act(self.bn(self.c1(x)))
        h = self.act(self.c2(h) + h)
        return self.head(functional.max_pool2d(h, 2).mean((2, 3)))


class Shared(nn.Module):
    """One layer with parameters, called twice."""

    def __init__(self):
        super().__init__()
        self.layer, self.out = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(torch.tanh(self.layer(functional.relu(self.layer(x)))))


class Recurrent(nn.Module):
    """A layer with several outputs."""

    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x):
        y, (hidden, _) = self.rnn(x)
        return self.out(y[:, -1] + hidden[0])


class Bare(nn.Module):
    """Parameters of the model's own, and no module."""

    def __init__(self):
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(8, 3)), nn.Parameter(torch.ones(8))

    def forward(self, x):
        return (x * self.scale) @ self.weight


class Attention(nn.Module):
    """Whole numbers in, heads, a mask; a loss over every position."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(20, 16), nn.LayerNorm(16)
        self.qkv, self.proj, self.head = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 20)

    def forward(self, x):
        h = self.embed(x)
        b, t, c = h.shape
        q, k, v = (part.view(b, t, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(h)).split(16, 2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        return self.head(h + self.proj(mixed))


class Nested(nn.Module):
    """Modules in modules, and a dictionary that comes out."""

    def __init__(self):
        super().__init__()
        self.body = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.0)) for _ in range(2)])
        self.tail = nn.ModuleDict({"a_b": nn.Linear(8, 3)})

    def forward(self, x, *, shift=None):
        for block in self.body:
            x = x + block(x)
        return {"logits": self.tail["a_b"](x if shift is None else x + shift)}


def classes(*shape, of):
    return lambda: (torch.randn(*shape), torch.randint(0, of, shape[:1]))


MODELS = {
    "residual": (Residual, classes(4, 3, 8, 8, of=5)),
    "shared": (Shared, classes(5, 8, of=3)),
    "recurrent": (Recurrent, classes(5, 7, 4, of=3)),
    "bare": (Bare, classes(5, 8, of=3)),
    "attention": (Attention, lambda: (torch.randint(0, 20, (3, 6)), torch.randint(0, 20, (3, 6)))),
    "nested": (Nested, classes(5, 8, of=3)),
}


def made(name, dtype=torch.float32):
    """A model, its data and its optimizer, from the same seed."""
    torch.manual_seed(0)
    kind, data = MODELS[name]
    model = kind()
    x, y = data()
    model = model.to(dtype)
    return model, x.to(dtype) if x.is_floating_point() else x, y, torch.optim.Adam(model.parameters(), lr=1e-2)


def loss_of(output, y):
    logits = output["logits"] if isinstance(output, dict) else output
    return functional.cross_entropy(logits.flatten(0, -2), y.flatten())

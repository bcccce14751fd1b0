"""Honest loops around a model: what feeds it, grows it, fails and is tried again within a step, as a step of an unchanged script may be."""

from __future__ import annotations

import copy

import torch
from programs import Made, Program, classified, data, small
from torch import nn
from torch.nn import functional as fn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Rows, each computed when it is asked for."""

    def __init__(self) -> None:
        self.x, self.y = data(0, 8)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int, float]:
        return self.x[i] * 2 + 1, int(self.y[i]), 0.5 * i


def fed(workers: int) -> Made:
    """Every batch is fetched within the step."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(_: int) -> None:
        optimizer.zero_grad()
        for x, y, weight in DataLoader(Rows(), 4, shuffle=True, num_workers=workers):
            (fn.cross_entropy(model(x), y, reduction="none") * weight.float()).sum().backward()
        optimizer.step()

    return model, [optimizer], step


def grown() -> Made:
    """Layers are made within the step, in all the ways there are to begin one."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(i: int) -> None:
        x, y = data(i)
        optimizer.zero_grad()
        head = nn.Linear(16, 3)
        for begun in (nn.init.orthogonal_, nn.init.xavier_normal_, nn.init.trunc_normal_):
            begun(head.weight)
        nn.init.constant_(head.bias, 0.5)
        (fn.cross_entropy(model(x), y) + fn.cross_entropy(head(model[1](model[0](x))), y)).backward()
        optimizer.step()

    return model, [optimizer], step


def scaled_in_place() -> Made:
    """Weights are changed, and looked at again, through views that were made without gradients."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(i: int) -> None:
        x, y = data(i)
        with torch.no_grad():
            flat = model[0].weight.view(-1)
            flat.mul_(0.9)
            size = flat.abs().mean()
            model[0].weight.div_(size)
            size = size + flat.abs().max()
        optimizer.zero_grad()
        (fn.cross_entropy(model(x), y) * size).backward()
        optimizer.step()

    return model, [optimizer], step


def resumed() -> Made:
    """What was saved is loaded within the step that goes on from it."""
    model = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    classified(model, optimizer=optimizer)[2](7)
    saved = copy.deepcopy([model.state_dict(), optimizer.state_dict()])

    def step(i: int) -> None:
        x, y = data(i)
        if not i:
            for part, state in zip((model, optimizer), saved, strict=True):
                part.load_state_dict(state)
        optimizer.zero_grad()
        fn.cross_entropy(model(x), y).backward()
        optimizer.step()

    return model, [optimizer], step


def tried_again() -> Made:
    """A batch whose gradients are thrown away comes before the one that counts."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(i: int) -> None:
        for attempt in range(2):
            x, y = data(2 * i + attempt)
            optimizer.zero_grad(set_to_none=bool(i))
            fn.cross_entropy(model(x), y).backward()
        optimizer.step()

    return model, [optimizer], step


class Turning(nn.Module):
    """Complex weights: as pairs of reals they are updated, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.turn = nn.Linear(8, 8), nn.Parameter(torch.randn(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (torch.view_as_complex(self.first(x).view(-1, 4, 2)) * self.turn).abs()


def turning(kind: type[torch.optim.Optimizer], **given: float) -> Program:
    def make() -> Made:
        model = Turning()
        return classified(model, optimizer=kind(model.parameters(), **given))

    return Program(f"complex weights, by {kind.__name__}", make)


def nested() -> Made:
    """Rows of several lengths in one tensor, of which nothing can be written."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(i: int) -> None:
        x, y = data(i)
        optimizer.zero_grad()
        rows = torch.nested.nested_tensor([x[:5], x[5:]], layout=torch.jagged)
        fn.cross_entropy(model(rows).values(), y).backward()
        optimizer.step()

    return model, [optimizer], step


def in_float16() -> Made:
    """Convolutions of float16, there and back."""
    model = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.GELU(), nn.ConvTranspose1d(4, 3, 4, stride=2), nn.Flatten())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(i: int) -> None:
        x, y = data(i)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            fn.cross_entropy(model(x[:, None]), y).backward()
        optimizer.step()

    return model, [optimizer], step


LOOPS = (
    Program("convolutions in float16", in_float16),
    turning(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.1),
    turning(torch.optim.AdamW, lr=0.1, amsgrad=True),
    turning(torch.optim.RMSprop, lr=0.1),
    Program(
        "rows of many lengths", nested, ("_nested", "0: linear", "1: tanh", "2: linear", "backward of", "gradient")
    ),
    Program("batches fetched within a step", lambda: fed(0)),
    Program("batches fetched by processes", lambda: fed(2)),
    Program("layers made within a step", grown, ("qr",)),
    Program("weights changed through views", scaled_in_place),
    Program("a run resumed within its first step", resumed),
    Program("gradients thrown away", tried_again),
)

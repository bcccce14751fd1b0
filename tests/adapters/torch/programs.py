"""Honest programs of all kinds: what people do between the first line of a step and the last. Each holds, and recording changes no bit.

A program is made anew for each run: it gives its model, its optimizers, and a step of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as fn

Made = tuple[nn.Module, list[torch.optim.Optimizer], Callable[[int], None]]


@dataclass(frozen=True)
class Program:
    """An honest training program."""

    name: str
    make: Callable[[], Made]
    left_out: tuple[str, ...] = ()
    """What is not checked: the beginnings of what is said of it; empty where all is."""


def data(i: int, rows: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(i)
    return torch.randn(rows, 8, generator=drawn), torch.randint(0, 3, (rows,), generator=drawn)


def small(*middle: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), *middle, nn.Tanh(), nn.Linear(16, 3))


def classified(
    model: nn.Module, after: Callable[[], Any] = lambda: None, optimizer: Any = None, loss: Any = fn.cross_entropy
) -> Made:
    """The usual step; with something more, after the update."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)

    def step(i: int) -> None:
        x, y = data(i)
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        after()

    return model, [optimizer], step


class Through(nn.Module):
    """What a function makes between two layers."""

    def __init__(self, function: Callable[..., torch.Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Linear(8, 16), nn.Linear(16, 3), function
        self.parts = nn.ModuleDict(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.function(self.first(x), **self.parts))


def through(function: Callable[..., torch.Tensor], **parts: Callable[[], nn.Module]) -> Callable[[], Made]:
    return lambda: classified(Through(function, **{name: make() for name, make in parts.items()}))


# ── parameters changed by hand ──────────────────────────────────────────────────────────────────────────────────────


def by_hand(change: Callable[[nn.Module], None]) -> Callable[[], Made]:
    """No optimizer: the program moves its parameters itself."""

    def make() -> Made:
        model = small()

        def step(i: int) -> None:
            x, y = data(i)
            model.zero_grad()
            fn.cross_entropy(model(x), y).backward()
            change(model)

        return model, [], step

    return make


@torch.no_grad()
def in_place(model: nn.Module) -> None:
    for p in model.parameters():
        p.sub_(p.grad, alpha=0.1)


def through_data(model: nn.Module) -> None:
    for p in model.parameters():
        p.data.add_(p.grad.data, alpha=-0.1)


def other_data(model: nn.Module) -> None:
    for p in model.parameters():
        p.data = p.data - 0.1 * p.grad


@torch.no_grad()
def as_lists(model: nn.Module) -> None:
    found = list(model.parameters())
    torch._foreach_addcmul_(found, [p.grad for p in found], [torch.full_like(p, 0.5) for p in found], value=-0.1)


@torch.no_grad()
def as_one_vector(model: nn.Module) -> None:
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(model.parameters()) * 0.9, model.parameters())


def clamped() -> Made:
    model = small()

    def clamp() -> None:
        for p in model.parameters():
            p.data.clamp_(-0.1, 0.1)

    return classified(model, clamp, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def averaged_by_lists() -> Made:
    model = small()
    mean = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    return classified(model, lambda: mean.update_parameters(model))


# ── formats and kinds of tensors ────────────────────────────────────────────────────────────────────────────────────


def sparse(optimizers: Callable[[nn.Module, nn.Module], list[torch.optim.Optimizer]]) -> Callable[[], Made]:
    def make() -> Made:
        table, head = nn.Embedding(20, 8, sparse=True), nn.Linear(8, 3)
        made = optimizers(table, head)

        def step(i: int) -> None:
            x, y = data(i)
            for optimizer in made:
                optimizer.zero_grad()
            fn.cross_entropy(head(table((x.abs() * 5).long().clamp(max=19)).mean(1)), y).backward()
            for optimizer in made:
                optimizer.step()

        return nn.ModuleList([table, head]), made, step

    return make


class Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(5, 3)
        self.filter = nn.Parameter(torch.randn(5, dtype=torch.cfloat))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last((torch.fft.rfft(self.first(x)) * self.filter).abs())


# ── transforms, hooks, and what comes from elsewhere ────────────────────────────────────────────────────────────────


def mapped() -> Made:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(i: int) -> None:
        x, y = data(i)
        optimizer.zero_grad()
        fn.cross_entropy(torch.vmap(model)(x), y).backward()
        optimizer.step()

    return model, [optimizer], step


def gradients_as_functions() -> Made:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(i: int) -> None:
        x, y = data(i)
        held = {name: p.detach() for name, p in model.named_parameters()}
        found = torch.func.grad(lambda p: fn.cross_entropy(torch.func.functional_call(model, p, (x,)), y))(held)
        for name, p in model.named_parameters():
            p.grad = found[name]
        optimizer.step()

    return model, [optimizer], step


def hooked(hook: Callable[[nn.Sequential], Any]) -> Callable[[], Made]:
    def make() -> Made:
        model = small()
        hook(model)
        return classified(model)

    return make


def halved(*gradients: Any) -> Any:
    return tuple(None if g is None else g * 0.5 for g in gradients[1])


def damped(p: torch.Tensor) -> None:
    p.grad.mul_(0.7)


def updates_in_backward() -> Made:
    model = small()
    each = {p: torch.optim.AdamW([p], lr=1e-2) for p in model.parameters()}

    def update(p: torch.Tensor) -> None:
        each[p].step()
        each[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)

    def step(i: int) -> None:
        x, y = data(i)
        fn.cross_entropy(model(x), y).backward()

    return model, list(each.values()), step


def first_without_gradients() -> Made:
    """A look at the predictions, before the very same parameters are trained."""
    model = small()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(i: int) -> None:
        x, y = data(i)
        optimizer.zero_grad()
        with torch.inference_mode():
            model(x).argmax(-1).eq(y).float().mean().item()
        fn.cross_entropy(model(x), y).backward()
        optimizer.step()

    return model, [optimizer], step


def carried_over() -> Made:
    """Truncated backpropagation through time: a state goes from step to step, and no gradient with it."""
    model = nn.ModuleDict({"cell": nn.GRUCell(8, 8), "head": nn.Linear(8, 3)})
    optimizer, held = torch.optim.Adam(model.parameters()), [torch.zeros(12, 8)]

    def step(i: int) -> None:
        x, y = data(i)
        h, loss = held[0].detach(), torch.zeros(())
        optimizer.zero_grad()
        for t in range(3):
            h = model["cell"](x * (t + 1), h)
            loss = loss + fn.cross_entropy(model["head"](h), y)
        loss.backward()
        optimizer.step()
        held[0] = h

    return model, [optimizer], step


def adversaries() -> Made:
    """Gradients of the second come to it by the first's loss, too; they are cleared before they are used."""
    maker, judge = nn.Linear(4, 8), small()
    first, second = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())

    def step(i: int) -> None:
        x, _ = data(i)
        fake = maker(x[:, :4])
        second.zero_grad()
        (judge(fake.detach()).mean() - judge(x).mean()).backward()
        second.step()
        first.zero_grad()
        (-judge(fake).mean()).backward()
        first.step()

    return nn.ModuleList([maker, judge]), [first, second], step


def penalised() -> Made:
    """A gradient is differentiated again: itself it is checked, and what comes back through it is not."""
    model = small()
    optimizer = torch.optim.Adam(model.parameters())

    def step(i: int) -> None:
        x, y = data(i)
        between = (x * 0.5).requires_grad_()
        optimizer.zero_grad()
        (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
        (fn.cross_entropy(model(x), y) + (slope.norm(2, 1) - 1).square().mean()).backward()
        optimizer.step()

    return model, [optimizer], step


# ── parts of models ─────────────────────────────────────────────────────────────────────────────────────────────────


def routed(h: torch.Tensor, **experts: nn.Module) -> torch.Tensor:
    weights, chosen = h[:, : len(experts)].softmax(-1).topk(2)
    found = torch.zeros_like(h)
    for k, expert in enumerate(experts.values()):
        rows, places = torch.where(chosen == k)
        found = found.index_add(0, rows, expert(h[rows]) * weights[rows, places, None])
    return found


def distributed(h: torch.Tensor) -> torch.Tensor:
    mean, spread = h.chunk(2, -1)
    normal = torch.distributions.Normal(mean, spread.exp())
    choice = torch.distributions.Categorical(logits=mean)
    z = normal.rsample() - choice.log_prob(choice.sample())[:, None] + choice.entropy()[:, None]
    apart = torch.distributions.kl_divergence(normal, torch.distributions.Normal(0.0, 1.0))
    return torch.cat([z, apart], -1)


def dropped_in_place(h: torch.Tensor) -> torch.Tensor:
    return fn.dropout(h.unsqueeze(0).squeeze(0), 0.2, True, True)


class Folded(nn.Module):
    """Layers of sequences: what they give is a view of what they made, and is written in place."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.change = nn.Linear(8, 16), nn.Linear(16, 3), change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.change(self.first(x.view(3, 4, 8)))).reshape(12, 3)


def read_and_written(h: torch.Tensor) -> torch.Tensor:
    """Read before it is written, and a part of it at a time."""
    before = h.sum(-1, keepdim=True)
    h[:, :2] = 0.5
    h.mul_(2.0)
    return fn.relu(h, inplace=True) + before


def scores_in_place(h: torch.Tensor) -> torch.Tensor:
    """A part of a product, which is laid out otherwise than it is asked for."""
    scores = torch.einsum("bqd,bkd->bkq", h, h)[:, :3]
    scores *= 0.25
    return torch.einsum("bkq,bkd->bqd", scores.softmax(1), h[:, :3])


def counted_in_tensors(h: torch.Tensor) -> torch.Tensor:
    """Sizes that are computed by PyTorch, from numbers alone."""
    half = torch.div(h.shape[1], 2, rounding_mode="trunc")
    return h * half + h.view(12, half, 2).sum(2).repeat(1, 2).reshape(12, 2 * half)


def in_windows(h: torch.Tensor) -> torch.Tensor:
    """Windows that overlap, by strides; chosen by numbers that are taken for truth."""
    seen = h.contiguous().as_strided((12, 5, 4), (16, 3, 1)).sum(-1)
    return torch.cat([h[:, :11], torch.where((seen > 0).float().bool(), seen, 0.1 * seen)], 1)


def by_other_names(h: torch.Tensor) -> torch.Tensor:
    """Arguments as NumPy calls them, or by names where others give them by place."""
    found = torch.cat([h, h], axis=1).sum(axis=1, keepdims=True) + torch.stack([h, h], axis=0).mean(axis=0)
    found = found + torch.add(input=h, other=h, alpha=2) + torch.where(h > 0, input=h, other=h * 0.1)
    found = found + torch.matmul(input=h, other=h.permute(dims=(1, 0))) @ h.reshape(shape=(12, 16))
    return found + torch.baddbmm(h[None], batch1=h[None, :, :12], batch2=h[None], beta=0.5)[0].view(size=(12, 16))


def bag_of_words(h: torch.Tensor, table: nn.Module) -> torch.Tensor:
    return h + table((h.detach()[:, :4].abs() * 5).long().clamp(max=19)).mean(1)


def both_as_given(h: torch.Tensor) -> torch.Tensor:
    """What is of the common shape already comes back as the very same tensor."""
    wide, same = torch.broadcast_tensors(h[:, :1], h)
    return wide * same + h.exp()


class Recurrent(nn.Module):
    """Layers that drop out between them, of sequences that are as long, or packed."""

    def __init__(self, kind: type[nn.RNNBase], *, packed: bool, **options: Any) -> None:
        super().__init__()
        self.layers, self.packed = kind(8, 6, dropout=0.3, bidirectional=True, **options), packed
        self.last = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.view(4, 3, 8)
        if not self.packed:
            return self.last(self.layers(x)[0]).view(12, 3)
        rows = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 4, 3]), enforce_sorted=False)
        return self.last(nn.utils.rnn.pad_packed_sequence(self.layers(rows)[0])[0]).view(12, 3)


def teacher() -> Made:
    model = small()
    mean = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def follow() -> None:
        for a, b in zip(mean.parameters(), model.parameters(), strict=True):
            a.lerp_(b, 0.01)

    def loss(found: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return fn.cross_entropy(found, y) + fn.mse_loss(found, mean(data(0)[0]))

    return classified(model, follow, loss=loss)


ADAM, SGD = torch.optim.Adam, torch.optim.SGD
EACH_OWN = sparse(lambda table, head: [torch.optim.SparseAdam(table.parameters()), ADAM(head.parameters())])
ALL_BY_ONE = sparse(lambda table, head: [SGD([*table.parameters(), *head.parameters()], lr=0.1)])

PROGRAMS = (
    Program("parameters moved in place", by_hand(in_place)),
    Program("parameters moved through .data", by_hand(through_data)),
    Program("parameters given other data", by_hand(other_data)),
    Program("parameters moved as lists", by_hand(as_lists)),
    Program("parameters as one vector", by_hand(as_one_vector)),
    Program("parameters clamped after the update", clamped),
    Program("a mean of the model, by lists", averaged_by_lists),
    Program("a teacher that follows", teacher),
    Program("sparse gradients, each optimizer its own", EACH_OWN),
    Program("sparse gradients, added one by one", ALL_BY_ONE),
    Program(
        "complex numbers",
        lambda: classified(Spectrum()),
        ("rfft", "backward of rfft"),
    ),
    Program("torch.vmap", mapped, ("value", "gradient of")),
    Program("torch.func.grad", gradients_as_functions, (".grad of",)),
    Program("a hook before a module's backward", hooked(lambda m: m[2].register_full_backward_pre_hook(halved))),
    Program("a hook after a module's backward", hooked(lambda m: m[2].register_full_backward_hook(halved))),
    Program(
        "a hook that changes .grad once it is there",
        hooked(lambda m: m[2].weight.register_post_accumulate_grad_hook(damped)),
        (".grad of 2.weight",),
    ),
    Program("updates during the backward pass", updates_in_backward, (".grad of",)),
    Program("parameters first seen in inference mode", first_without_gradients),
    Program("a state carried over", carried_over),
    Program("adversaries", adversaries),
    Program("a penalty on a gradient", penalised, ("value", "gradient of")),
    Program("experts by torch.where", through(routed, **{f"e{i}": lambda: nn.Linear(16, 16) for i in range(4)})),
    Program("distributions", through(distributed)),
    Program("dropout in place of a view", through(dropped_in_place)),
    Program("a view written in place", lambda: classified(Folded(lambda h: fn.relu(h, inplace=True)))),
    Program(
        "a view dropped in place", lambda: classified(Folded(lambda h: fn.dropout(fn.dropout(h, 0.5), 0.2, True, True)))
    ),
    Program("a view read, and then written", lambda: classified(Folded(read_and_written))),
    Program("a part of a product written in place", lambda: classified(Folded(scores_in_place))),
    Program("numbers alone", through(counted_in_tensors)),
    Program("windows by strides", through(in_windows)),
    Program("arguments by other names", through(by_other_names)),
    Program(
        "a loss that is no number", lambda: classified(small(), loss=lambda z, y: fn.cross_entropy(z * float("nan"), y))
    ),
    Program("dropout between layers", lambda: classified(Recurrent(nn.LSTM, packed=False, num_layers=3))),
    Program("dropout between packed layers", lambda: classified(Recurrent(nn.GRU, packed=True, num_layers=2))),
    Program("classes that are no tokens", through(bag_of_words, table=lambda: nn.Embedding(20, 16, padding_idx=0))),
    Program("broadcast to the shape that it has", through(both_as_given)),
)

SEVERAL_WAYS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a product with itself": lambda h: h * h,
    "addcmul": lambda h: torch.addcmul(h, h, h),
    "cat": lambda h: torch.cat([h, h, h], 1),
    "stack": lambda h: torch.stack([h, h, h * 2]),
    "einsum": lambda h: torch.einsum("ij,kj->ik", h, h),
    "bilinear": lambda h: fn.bilinear(h, h, torch.ones(2, 12, 12) * 0.1),
    "tanhshrink": fn.tanhshrink,
    "softsign": fn.softsign,
    "normalize": fn.normalize,
    "cosine_similarity": lambda h: fn.cosine_similarity(h, h.detach() + 1),
    "cosine_embedding_loss": lambda h: fn.cosine_embedding_loss(h, h.flip(0), torch.ones(64), reduction="none"),
    "poisson_nll_loss": lambda h: fn.poisson_nll_loss(h, h.detach().abs(), reduction="none"),
    "diff": lambda h: h.diff(dim=1),
    "trapezoid": lambda h: torch.trapezoid(h, h.flip(1).detach()),
    "matrix_power": lambda h: torch.linalg.matrix_power(h[:12], 3),
    "kron": lambda h: torch.kron(h[:3], h[:3]),
}
"""Functions that are differentiated with respect to one operand along several ways; what else reads it comes in between."""

"""What goes wrong between the backward pass and the step, and the practices that no equation forbids."""

import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from planted import Instead, Planted, recorded
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it

import backproof.torch as bpt

torch.manual_seed(12)
X, Y = torch.randn(24, 8), torch.randn(24, 3)
TOKENS = torch.arange(4 * 9).reshape(4, 9) * 5 % 17 + 2
PAD = 1


def model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


def sgd(net: nn.Module, **given) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), **{"lr": 0.1, "momentum": 0.9, **given})


def run(step: Callable, steps: int = 2, make=model, optimizer=sgd, **options) -> Callable:
    """A run of `step(net, optimizer, wrong)`."""

    def record(out: Path, wrong: bool) -> None:
        net = make()
        found = optimizer(net)
        recorded(out, net, lambda: step(net, found, wrong), found, steps, **options)

    return record


def between(change: Callable, right: Callable = lambda net: None, **options) -> Callable:
    """A step with something between the backward pass and the update."""

    def step(net, optimizer, wrong):
        optimizer.zero_grad()
        F.mse_loss(net(X), Y).backward()
        (change if wrong else right)(net)
        optimizer.step()

    return run(step, **options)


# ── clipping, by functions whose names say what they do ─────────────────────────────────────────────────────────────


def clipping(factor: Callable) -> Callable:
    """`clip_grad_norm_`, with a factor of its own for a list of gradients: one for all, or one for each."""

    def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
        parameters = list(parameters)
        grads = [p.grad for p in parameters]
        with torch.no_grad():
            total_norm = torch.linalg.vector_norm(torch.cat([g.reshape(-1) for g in grads]), norm_type)
            factors = factor(grads, max_norm)
            for g, by in zip(grads, factors if isinstance(factors, list) else [factors] * len(grads), strict=True):
                g.mul_(by)
        return total_norm

    return clip_grad_norm_


def norm_of(grads, p):
    return float(torch.linalg.vector_norm(torch.cat([g.reshape(-1) for g in grads]), p))


CLIPS = {
    "clipping by the wrong norm": (lambda grads, c: c / (norm_of(grads, 1) + 1e-6), "1-norm"),
    "each gradient clipped by its own norm": (
        lambda grads, c: [min(1.0, c / (norm_of([g], 2) + 1e-6)) for g in grads],
        "own norm",
    ),
    "clipping that forgets to": (lambda grads, c: 1.0, "nothing was clipped"),
    "clipping by the square of the norm": (lambda grads, c: c / norm_of(grads, 2) ** 2, "square of the norm"),
    "clipping twice as hard": (lambda grads, c: 0.5 * c / (norm_of(grads, 2) + 1e-6), "multiplied by"),
}


def right_clip(limit: float) -> Callable:
    return lambda net: nn.utils.clip_grad_norm_(net.parameters(), limit)


def wrong_value(net):
    def clip_grad_value_(parameters, clip_value):
        with torch.no_grad():
            for p in parameters:
                p.grad.clamp_(max=clip_value)

    clip_grad_value_(list(net.parameters()), 0.01)


# ── loss scaling ────────────────────────────────────────────────────────────────────────────────────────────────────


def scaled_run(instead: dict, *, overflow: bool = False, clip: str = "", steps: int = 2) -> Callable:
    """Steps with a loss scaler; where they are wrong, with functions replaced, or with clipping before unscaling."""

    def record(out: Path, wrong: bool) -> None:
        net = model()
        optimizer = sgd(net)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=1)

        def step():
            optimizer.zero_grad()
            loss = F.mse_loss(net(X), Y)
            scaler.scale(loss * (float("inf") if overflow else 1.0)).backward()
            if clip and wrong:
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            scaler.unscale_(optimizer)
            if clip and not wrong:
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            scaler.step(optimizer)
            scaler.update()

        with Instead(**(instead if wrong else {})):
            recorded(out, net, step, optimizer, steps)

    return record


def half_unscaled(func, grads, found_inf, inverse):
    func(grads, found_inf, inverse * 2)


def blind(func, grads, found_inf, inverse):
    for gradient in grads:
        gradient.mul_(inverse)


def never_grows(func, scale, tracker, found_inf, growth, backoff, interval):
    return scale


# ── micro-batches ───────────────────────────────────────────────────────────────────────────────────────────────────


def micro_batches(sizes: list[int], divide: Callable, clip: str = "", tokens: bool = False) -> Callable:
    """Several backward passes for each update; `divide(wrong, size)` is what each loss is divided by."""

    def step(net, optimizer, wrong):
        optimizer.zero_grad()
        begin = 0
        for size in sizes:
            loss = F.mse_loss(net(X[begin : begin + size]), Y[begin : begin + size])
            (loss / divide(wrong, size)).backward()
            begin += size
            if clip and wrong:
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        if clip and not wrong:
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()

    return run(step)


def not_cleared(net, optimizer, wrong):
    if not wrong:
        optimizer.zero_grad()
    F.mse_loss(net(X), Y).backward()
    optimizer.step()


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def forgetting(net: nn.Module, wrong: bool) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for n, p in net.named_parameters() if not wrong or n != "2.bias"], lr=0.1)


def without_a_parameter(out: Path, wrong: bool) -> None:
    net = model()
    optimizer = forgetting(net, wrong)

    def step():
        net.zero_grad()
        F.mse_loss(net(X), Y).backward()
        optimizer.step()

    recorded(out, net, step, optimizer)


class Unused(nn.Module):
    def __init__(self, used: bool):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second, self.used = nn.Linear(8, 3), nn.Linear(8, 3), used

    def forward(self, x):
        return self.first(x) + self.second(x) if self.used else self.first(x)


def unused(out: Path, wrong: bool) -> None:
    net = Unused(not wrong)
    optimizer = sgd(net)
    recorded(out, net, lambda: plain_step(net, optimizer), optimizer)


def plain_step(net, optimizer):
    optimizer.zero_grad()
    F.mse_loss(net(X), Y).backward()
    optimizer.step()


class Dropping(nn.Module):
    def __init__(self, always: bool):
        super().__init__()
        torch.manual_seed(5)
        self.inner, self.always = nn.Linear(8, 3), always

    def forward(self, x):
        return self.inner(F.dropout(x, 0.25, training=True if self.always else self.training))


def dropping_in_eval(out: Path, wrong: bool) -> None:
    net = Dropping(wrong).eval()
    recorded(out, net, lambda: F.mse_loss(net(X), Y).backward())


def dropout_off(out: Path, wrong: bool) -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.25), nn.Linear(16, 3))
    net.train(not wrong)
    optimizer = sgd(net)
    recorded(out, net, lambda: plain_step(net, optimizer), optimizer)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.table, self.out = nn.Embedding(20, 8, padding_idx=PAD), nn.Linear(8, 20)

    def forward(self, tokens):
        return self.out(self.table(tokens))


def padded(out: Path, wrong: bool) -> None:
    net = Words()
    optimizer = sgd(net)
    tokens = TOKENS.clone()
    tokens[0, 5:], tokens[2, 3:] = PAD, PAD

    def step():
        optimizer.zero_grad()
        logits, targets = net(tokens[:, :-1]), tokens[:, 1:]
        ignored = -100 if wrong else PAD
        F.cross_entropy(logits.reshape(-1, 20), targets.reshape(-1), ignore_index=ignored).backward()
        optimizer.step()

    recorded(out, net, step, optimizer)


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def resumed(lost: bool, elsewhere: bool = False) -> Callable:
    """A run of two parts; the optimizer's state comes along, or is lost."""

    def record(out: Path, wrong: bool) -> None:
        net = model()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        recorded(out, net, lambda: plain_step(net, optimizer), optimizer, 2)
        again, state = model(), optimizer.state_dict()
        again.load_state_dict(net.state_dict())
        following = torch.optim.AdamW(again.parameters(), lr=1e-2)
        if not (wrong and lost):
            following.load_state_dict(state)
        if wrong and elsewhere:
            with torch.no_grad():
                again[0].bias += 1e-3
        recorded(out, again, lambda: plain_step(again, following), following, 1, resume=True)

    return record


def scheduled(order: str) -> Callable:
    """A scheduler that steps before its optimizer, or whose rate is changed behind its back."""

    def record(out: Path, wrong: bool) -> None:
        net = model()
        optimizer = sgd(net)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        with bpt.Recorder(net, optimizer, out=out, scheduler=scheduler) as recorder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says so too
            for _ in range(3):
                with recorder.step():
                    optimizer.zero_grad()
                    F.mse_loss(net(X), Y).backward()
                    if wrong and order == "before":
                        scheduler.step()
                    if wrong and order == "behind":
                        optimizer.param_groups[0]["lr"] = 0.07
                    optimizer.step()
                    if not (wrong and order == "before"):
                        scheduler.step()

    return record


def divided(out: Path, wrong: bool) -> None:
    with Instead(**({"div_": lambda func, x, by: func(x, by - 1)} if wrong else {})):
        between(divide_by_four, divide_by_four)(out, wrong)


def divide_by_four(net):
    for p in net.parameters():
        p.grad.div_(4)


def unseen(net):
    net[2].bias.grad.numpy()[1] *= 2


CASES = (
    *(
        Planted(
            name,
            between(lambda net, f=factor: clipping(f)(net.parameters(), 0.01), right_clip(0.01)),
            "clip",
            cause=cause,
        )
        for name, (factor, cause) in CLIPS.items()
    ),
    Planted(
        "gradients below the limit scaled up to it",
        between(lambda net: clipping(lambda grads, c: c / norm_of(grads, 2))(net.parameters(), 1e3), right_clip(1e3)),
        "clip",
        cause="scaled up",
    ),
    Planted(
        "clipping by value on one side only",
        between(wrong_value, lambda net: nn.utils.clip_grad_value_(net.parameters(), 0.01)),
        "clip",
        "0.weight",
    ),
    Planted("a gradient changed by something unseen", between(unseen), "edit", "2.bias"),
    Planted(
        "unscaling by half of the scale",
        scaled_run({"_amp_foreach_non_finite_check_and_unscale_": half_unscaled}),
        "unscale",
    ),
    Planted(
        "overflow that the unscaling does not see",
        scaled_run({"_amp_foreach_non_finite_check_and_unscale_": blind}, overflow=True, steps=1),
        "unscale",
        "(overflow)",
    ),
    Planted(
        "a loss scale that does not move", scaled_run({"_amp_update_scale_": never_grows}), "loss scale", "(scale)"
    ),
    Planted(
        "gradients divided by another number than is said",
        divided,
        "forward",
        "div_",
    ),
    Planted("gradients that are not cleared", run(not_cleared), "gradients-not-cleared", kind="suspect"),
    Planted(
        "micro-batches that are not divided",
        micro_batches([8, 8, 8], lambda wrong, size: 1 if wrong else 3),
        "accumulation-not-divided",
        kind="suspect",
    ),
    Planted(
        "a mean of means over unequal counts",
        micro_batches([12, 8, 4], lambda wrong, size: 3 if wrong else 24 / size),
        "mean-of-means",
        kind="suspect",
    ),
    Planted(
        "a short last window divided by the full one",
        micro_batches([8, 8, 8], lambda wrong, size: 4 if wrong else 3),
        "short-window",
        kind="suspect",
    ),
    Planted(
        "clipping after every micro-batch",
        micro_batches([8, 8, 8], lambda wrong, size: 3, clip="yes"),
        "clipping-per-micro-batch",
        kind="suspect",
    ),
    Planted("clipping before unscaling", scaled_run({}, clip="yes"), "clipping-before-unscaling", kind="suspect"),
    Planted("a parameter that no optimizer has", without_a_parameter, "parameter-not-in-optimizer", kind="suspect"),
    Planted("a parameter that gets no gradient", unused, "parameter-without-gradient", kind="suspect"),
    Planted("optimizer state lost at a resume", resumed(lost=True), "optimizer-state-lost", kind="suspect"),
    Planted("a run resumed from elsewhere", resumed(lost=False, elsewhere=True), "resumed-elsewhere", kind="suspect"),
    Planted("a scheduler that steps first", scheduled("before"), "schedule-before-step", kind="suspect"),
    Planted("a rate changed behind its scheduler's back", scheduled("behind"), "rate-not-scheduled", kind="suspect"),
    Planted("dropout in a model that is in eval mode", dropping_in_eval, "dropout-in-eval", kind="suspect"),
    Planted("dropout that does nothing in training", dropout_off, "dropout-off-in-train", kind="suspect"),
    Planted("padded targets that count", padded, "padding-counted", kind="suspect"),
)

"""Optimizers that are called like PyTorch's and do something else, and schedules that do."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import torch
from planted import Planted, recorded
from torch import nn
from torch.nn import functional as F  # noqa: N812 # PyTorch's own name for it

torch.manual_seed(11)
X, Y = torch.randn(12, 8), torch.randn(12, 8)
ADAM = {"lr": 1e-2, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1}


def model(width: int = 8) -> nn.Module:
    """Layers of one shape, so that what belongs to one fits the other."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 8))


def adam(
    self,
    group,
    p,
    g,
    state,
    *,
    decoupled,
    decay_at="before",
    eps_at="after",
    corrected=1,
    shift=0,
    swap=False,
    rated=True,
):
    """One step of Adam as its paper has it, or nearly."""
    beta1, beta2 = reversed(group["betas"]) if swap else group["betas"]
    decay, lr = group["weight_decay"], group["lr"]
    if not state:
        state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = torch.zeros_like(p)
    state["step"] += 1
    t = int(state["step"]) + shift
    if not decoupled:
        g = g + decay * p
    before = p.clone()
    state["exp_avg"].mul_(beta1).add_(g, alpha=1 - beta1)
    state["exp_avg_sq"].mul_(beta2).addcmul_(g, g, value=1 - beta2)
    v = state["exp_avg_sq"]
    if group["amsgrad"]:
        state["max_exp_avg_sq"].copy_(torch.maximum(state["max_exp_avg_sq"], v))
    one, two = (1 - beta1**t) ** corrected, (1 - beta2**t) ** corrected
    spread = {
        "after": lambda: (v / two).sqrt() + group["eps"],
        "inside": (v / two + group["eps"]).sqrt,
        "before": lambda: (v.sqrt() + group["eps"]) / two**0.5,
    }[eps_at]()
    if decoupled and decay_at == "before":
        p.mul_(1 - (lr if rated else 1) * decay)
    p.sub_(lr / one * state["exp_avg"] / spread)
    if decoupled and decay_at == "after":
        p.mul_(1 - lr * decay)
    return before


def sgd(self, group, p, g, state, *, lookahead=True, dampened=True, times=1, sign=1):
    """One step of SGD with momentum, or nearly."""
    if group["weight_decay"]:
        g = g + group["weight_decay"] * p
    g = sign * g
    if group["momentum"]:
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = g.clone()
        else:
            state["momentum_buffer"].mul_(group["momentum"]).add_(g, alpha=1 - group["dampening"] if dampened else 1)
        g = (
            g + group["momentum"] * state["momentum_buffer"]
            if group["nesterov"] and lookahead
            else state["momentum_buffer"]
        )
        if group["nesterov"] and not lookahead:
            g = state["momentum_buffer"]
    for _ in range(times):
        p.sub_(group["lr"] * g)


def rmsprop(self, group, p, g, state):
    """RMSprop that says it is centred."""
    if not state:
        state.update(step=torch.tensor(0.0), square_avg=torch.zeros_like(p), grad_avg=torch.zeros_like(p))
    state["step"] += 1
    state["square_avg"].mul_(group["alpha"]).addcmul_(g, g, value=1 - group["alpha"])
    state["grad_avg"].lerp_(g, 1 - group["alpha"])
    p.sub_(group["lr"] * g / (state["square_avg"].sqrt() + group["eps"]))


def called(cls: type, rule: Callable) -> type:
    """A class that is called like this one, and follows that rule."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    rule(self, group, p, p.grad, self.state[p])

    found = type(cls.__name__, (cls,), {"step": step})
    found.__module__, found.__qualname__ = cls.__module__, cls.__qualname__
    return found


def training(
    make: Callable, steps: int = 3, between: Callable = lambda net: None, groups=lambda net: net.parameters(), **options
):
    def record(out: Path, wrong: bool) -> None:
        net = model()
        optimizer = make(wrong)(groups(net))
        scheduler = options["scheduler"](optimizer, wrong) if "scheduler" in options else None

        def step():
            optimizer.zero_grad()
            F.mse_loss(net(X), Y).backward()
            between(net)
            optimizer.step()
            if scheduler is not None:
                scheduler.step()

        recorded(out, net, step, optimizer, steps, scheduler=scheduler)

    return record


def instead(cls: type, given: dict, rule: Callable, **more) -> Callable:
    """The class, and what is called like it."""
    wrong_class = called(cls, rule)
    return training(lambda wrong: lambda p: (wrong_class if wrong else cls)(p, **given), **more)


def of(rule: Callable, **mistake) -> Callable:
    return lambda self, group, p, g, state: rule(self, group, p, g, state, **mistake)


def neighbours(self) -> dict:
    """Each parameter's neighbour of the same shape."""
    every = [p for group in self.param_groups for p in group["params"]]
    return {p: next((q for q in reversed(every) if q is not p and q.shape == p.shape), p) for p in every}


def of_another(self, group, p, g, state):
    sgd(self, group, p, neighbours(self)[p].grad, state)


def shared_state(self, group, p, g, state):
    every = [q for each in self.param_groups for q in each["params"]]
    first = next(q for q in every if q.shape == p.shape)
    if not state and first is not p:
        state.update(self.state[first])
    adam(self, group, p, g, state, decoupled=True)


def forgetful(self, group, p, g, state):
    """It begins with the moments of a first step every time; the count goes on."""
    if state:
        state["exp_avg"].zero_()
        state["exp_avg_sq"].zero_()
    adam(self, group, p, g, state, decoupled=True)


def decays_per_parameter(self, group, p, g, state):
    """The loop that decays stands inside of the loop over parameters."""
    for q in group["params"]:
        if q is not p:
            continue
        for _ in group["params"][:3]:
            q.mul_(1 - group["lr"] * group["weight_decay"])
    decay, group["weight_decay"] = group["weight_decay"], 0.0
    adam(self, group, p, g, state, decoupled=True)
    group["weight_decay"] = decay


def twice(self, group, p, g, state):
    """A parameter that is in two lists."""
    sgd(self, group, p, g, state)
    sgd(self, group, p, g, state)


def wrong_rate(self, group, p, g, state):
    sgd(self, {**group, "lr": self.param_groups[0]["lr"]}, p, g, state)


def two_groups(net: nn.Module) -> list[dict]:
    return [
        {"params": list(net[0].parameters())},
        {"params": list(net[2].parameters()) + list(net[4].parameters()), "lr": 0.02},
    ]


O = torch.optim
SGD = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
UPDATES = (
    ("AdamW with L2", O.AdamW, ADAM, of(adam, decoupled=False), "l2 for decoupled"),
    ("Adam with decoupled decay", O.Adam, ADAM, of(adam, decoupled=True), "decoupled for l2"),
    ("AdamW that decays after the move", O.AdamW, ADAM, of(adam, decoupled=True, decay_at="after"), "decay after"),
    ("AdamW whose decay forgets the rate", O.AdamW, ADAM, of(adam, decoupled=True, rated=False), "decay without rate"),
    ("Adam with epsilon inside of the root", O.Adam, ADAM, of(adam, decoupled=False, eps_at="inside"), "eps inside"),
    ("Adam with epsilon before the correction", O.Adam, ADAM, of(adam, decoupled=False, eps_at="before"), "eps before"),
    ("Adam without bias correction", O.Adam, ADAM, of(adam, decoupled=False, corrected=0), "uncorrected"),
    ("Adam corrected twice", O.Adam, ADAM, of(adam, decoupled=False, corrected=2), "corrected twice"),
    ("Adam one step ahead", O.Adam, ADAM, of(adam, decoupled=False, shift=1), "step ahead"),
    ("Adam with its betas exchanged", O.Adam, ADAM, of(adam, decoupled=False, swap=True), "betas swapped"),
    ("AMSGrad that forgets the largest", O.Adam, {**ADAM, "amsgrad": True, "betas": (0.8, 0.5)}, of(adam, decoupled=False), "amsgrad lost"),
    ("Nesterov without lookahead", O.SGD, {**SGD, "nesterov": True}, of(sgd, lookahead=False), "lookahead missing"),
    ("dampening ignored", O.SGD, {**SGD, "dampening": 0.5}, of(sgd, dampened=False), "dampening ignored"),
    ("maximize ignored", O.SGD, {"lr": 0.1, "maximize": True}, of(sgd), "sign flipped"),
    ("RMSprop that is not centred", O.RMSprop, {"centered": True, "alpha": 0.9}, rmsprop, "centering lost"),
    ("a parameter's gradient applied to another", O.SGD, {"lr": 0.1}, of_another, "another parameter's gradient"),
    ("state that two parameters share", O.AdamW, ADAM, shared_state, "state is shared"),
    ("state lost at every step", O.AdamW, ADAM, forgetful, "state lost"),
    ("decay repeated in the loop over parameters", O.AdamW, ADAM, decays_per_parameter, "decay repeated"),
    ("a parameter updated twice", O.SGD, {"lr": 0.1}, twice, "updated twice"),
)  # fmt: skip
# State goes wrong as well, and that shows before the update.
STATE_FIRST = ("share", "betas")


def frozen_rate(scheduler_class: type, wrong_lr: Callable) -> Callable:
    """A scheduler called like this one whose rate comes from elsewhere."""
    found = type(scheduler_class.__name__, (scheduler_class,), {"get_lr": wrong_lr})
    found.__module__ = scheduler_class.__module__
    return found


L = torch.optim.lr_scheduler


def late(self):
    """The rate that should have come one step ago."""
    import math

    k = max(0, self.last_epoch - 1)
    return [
        self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * k / self.T_max)) / 2 for base in self.base_lrs
    ]


def cosine(optimizer, wrong):
    return (frozen_rate(L.CosineAnnealingLR, late) if wrong else L.CosineAnnealingLR)(optimizer, 10)


def warm_up(optimizer, wrong):
    """transformers' warm-up, whose function counts one step too few."""
    import transformers

    scheduler = transformers.get_scheduler("linear", optimizer, num_warmup_steps=4, num_training_steps=20)
    if wrong:
        right = scheduler.lr_lambdas[0]

        class Off:
            func, keywords = right.func, right.keywords

            def __call__(self, k):
                return right.func(k, **{**right.keywords, "num_warmup_steps": 5})

        scheduler.lr_lambdas = [Off() for _ in scheduler.lr_lambdas]
    return scheduler


def sequence(optimizer, wrong):
    """A sequence that changes to its next member one step too early."""
    members = [L.ConstantLR(optimizer, 0.5, 100), L.CosineAnnealingLR(optimizer, 8)]
    scheduler = L.SequentialLR(optimizer, members, [3])
    if wrong:

        class Early(L.SequentialLR):
            def step(self):
                self._milestones = [2]
                super().step()
                self._milestones = [3]

        Early.__name__ = "SequentialLR"
        scheduler.__class__ = Early
    return scheduler


def sgd_of(wrong):
    return lambda parameters: O.SGD(parameters, lr=0.1)


CASES = (
    *(
        Planted(
            name, instead(cls, given, rule), "state" if any(s in name for s in STATE_FIRST) else "update", cause=cause
        )
        for name, cls, given, rule, cause in UPDATES
    ),
    Planted(
        "another group's learning rate",
        training(
            lambda wrong: lambda groups: (called(O.SGD, wrong_rate) if wrong else O.SGD)(groups, lr=0.1),
            groups=two_groups,
        ),
        "update",
        "2.weight",
        cause="another group's learning rate",
    ),
    Planted(
        "a stale gradient, from before it was clipped",
        training(
            lambda wrong: lambda p: (Stale if wrong else O.SGD)(p, lr=0.1),
            between=lambda net: (Stale.remember(net), nn.utils.clip_grad_norm_(net.parameters(), 0.01)),
        ),
        "update",
        cause="stale gradient",
    ),
    Planted(
        "a schedule one step late", training(sgd_of, scheduler=cosine), "schedule", "(group 0)", cause="one step late"
    ),
    Planted("a warm-up off by one", training(sgd_of, scheduler=warm_up), "schedule", "(group 0)", cause="warm-up"),
    Planted(
        "the wrong member of a sequence",
        training(sgd_of, scheduler=sequence, steps=4),
        "schedule",
        "(group 0)",
        cause="wrong member",
    ),
)


class Stale(O.SGD):
    """It applies the gradients that there were before they were clipped."""

    kept: ClassVar[dict] = {}

    @classmethod
    def remember(cls, net):
        cls.kept = {p: p.grad.clone() for p in net.parameters()}

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.sub_(0.1 * self.kept[p])


Stale.__module__, Stale.__qualname__ = O.SGD.__module__, "SGD"

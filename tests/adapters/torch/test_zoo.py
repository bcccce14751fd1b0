"""The zoo: real models, each trained some real steps, hold in every equation, and there is nothing that is not checked.

No two have the same optimizer, schedule, clipping and format: each takes the next of each list.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import zoo_layers
import zoo_transformers

import backproof.torch as bpt
from backproof.verify.outcome import StepVerdict
from backproof.verify.run import verify_run

ZOO = {**zoo_transformers.HOUSE, **zoo_layers.HOUSE, **zoo_transformers.MORE}

OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=1e-3, amsgrad=True, weight_decay=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, centered=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=1e-4),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=1e-3),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-3),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-3),
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.01),
}
SCHEDULES = {
    "none": None,
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 1, gamma=0.5),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    "linear": lambda o: torch.optim.lr_scheduler.LinearLR(o, total_iters=4),
    "exponential": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    "polynomial": lambda o: torch.optim.lr_scheduler.PolynomialLR(o, total_iters=5),
    "one-cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.01, total_steps=8, cycle_momentum=False),
}
CLIPS = {
    "none": None,
    "norm": lambda p: torch.nn.utils.clip_grad_norm_(p, 1.0),
    "value": lambda p: torch.nn.utils.clip_grad_value_(p, 0.01),
}
FORMATS = ("float32", "autocast", "float64", "bfloat16", "float32")
# Kernels that are not there in a format; a batch of two through batch norm after batch norm, whose gradients are 1e-89; and BLOOM,
# whose own backward of GELU has constants of ten digits, which float64 tells from the derivative.
INSTEAD = {
    "mixtral-eager": "float32",
    "mixtral-sdpa": "autocast",
    "cells": "float32",
    "efficientnet": "float32",
    "bloom": "float32",
}
STEPS = 2


def turn(table: Any, i: int) -> str:
    names = list(table)
    return names[i % len(names)]


def format_of(name: str, i: int) -> str:
    found = FORMATS[i % len(FORMATS)]
    return INSTEAD.get(name, found)


PLANS = [
    (name, turn(OPTIMIZERS, i), turn(SCHEDULES, i), turn(CLIPS, i), format_of(name, i)) for i, name in enumerate(ZOO)
]


def trained(name: str, optimizer: str, schedule: str, clip: str, form: str, folder: Path) -> list[StepVerdict]:
    """What is said of some steps of this model."""
    torch.manual_seed(0)
    make, inputs = ZOO[name]
    model = make().train()
    if form in ("float64", "bfloat16"):
        dtype = getattr(torch, form)
        model = model.to(dtype)
        inputs = {key: x.to(dtype) if getattr(x, "is_floating_point", bool)() else x for key, x in inputs.items()}
    steps = OPTIMIZERS[optimizer](model.parameters())
    rates = SCHEDULES[schedule](steps) if SCHEDULES[schedule] else None
    with bpt.Recorder(model, steps, out=folder, scheduler=rates) as recorder:
        for _ in range(STEPS):
            with recorder.step():
                steps.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=form == "autocast"):
                    found = model(**inputs)
                (found if isinstance(found, torch.Tensor) else found.loss).backward()
                if CLIPS[clip]:
                    CLIPS[clip](model.parameters())
                steps.step()
                if rates:
                    rates.step()
    return list(verify_run(folder))


@pytest.mark.parametrize("plan", PLANS, ids="-".join)
@pytest.mark.filterwarnings("ignore")
def test_every_equation_of_a_real_model_holds_and_all_are_checked(plan: tuple[str, ...], tmp_path: Path) -> None:
    verdicts = trained(*plan, folder=tmp_path / "run")

    assert [verdict.broken for verdict in verdicts] == [[]] * STEPS, verdicts[0].broken[:3]
    assert [unexplained(verdict, plan[-1]) for verdict in verdicts] == [[]] * STEPS
    assert {result.equation for result in verdicts[1].results} >= {"forward", "gradient", "update", "chain"}


def unexplained(verdict: StepVerdict, form: str) -> list[Any]:
    """What was not checked, but for parameters that are frozen by the model itself, and digits that a whole model in halves loses."""
    known = ["had no gradient, and did not change", *(["leave no digit right"] if form == "bfloat16" else [])]
    return [entry for entry in verdict.not_checked if not any(why in entry.why for why in known)]


def test_no_two_of_the_zoo_are_trained_alike() -> None:
    assert len({plan[1:] for plan in PLANS}) == len(PLANS)


def two_players() -> tuple[torch.nn.Module, torch.nn.Module]:
    make = lambda *sizes: torch.nn.Sequential(
        torch.nn.Linear(sizes[0], 8), torch.nn.Tanh(), torch.nn.Linear(8, sizes[1])
    )
    return make(4, 8), make(8, 1)


def test_two_networks_against_each_other_each_with_its_optimizer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    maker, judge = two_players()
    both = torch.nn.ModuleDict({"maker": maker, "judge": judge})
    first, second = torch.optim.Adam(maker.parameters(), lr=1e-2), torch.optim.SGD(judge.parameters(), lr=0.1)
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    with bpt.Recorder(both, [first, second], out=tmp_path / "run") as recorder:
        for _ in range(STEPS):
            with recorder.step():
                noise, real = torch.randn(6, 4), torch.randn(6, 8)
                second.zero_grad()
                fake = maker(noise)
                said = judge(torch.cat([real, fake.detach()]))
                loss(said, torch.cat([torch.ones(6, 1), torch.zeros(6, 1)])).backward()
                second.step()
                first.zero_grad()
                loss(judge(fake), torch.ones(6, 1)).backward()
                first.step()

    verdicts = list(verify_run(tmp_path / "run"))

    assert [verdict.broken for verdict in verdicts] == [[]] * STEPS, verdicts[0].broken[:3]
    assert [verdict.not_checked for verdict in verdicts] == [[]] * STEPS

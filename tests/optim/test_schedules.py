"""Every schedule against the scheduler itself, stepped fifty times; and the mistakes that are made with schedules."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.trainer_utils import SchedulerType

from backproof.errors import InputError, UsageError
from backproof.optim.schedules import (
    FACTORS,
    REFUSED,
    SCHEDULES,
    Moment,
    Rate,
    next_rate,
    plateau_state,
    schedule_named,
)

L = torch.optim.lr_scheduler
STEPS = 50
Scheduler = Any
Make = Callable[[torch.optim.Optimizer], Scheduler]


def optimizer(momentum: float = 0.9) -> torch.optim.Optimizer:
    one, two = torch.zeros(2), torch.zeros(3)
    return torch.optim.SGD([{"params": [one], "lr": 0.1}, {"params": [two], "lr": 0.02}], momentum=momentum)


def recorded(scheduler: Scheduler) -> dict[str, Any]:
    """A scheduler's configuration with the names that its state leaves out."""
    found = {"class": type(scheduler).__name__, **scheduler.state_dict()}
    if hasattr(scheduler, "_schedulers"):
        found["_schedulers"] = [recorded(member) for member in scheduler._schedulers]
    if hasattr(scheduler, "lr_lambdas"):
        found["lambdas"] = [
            {"function": getattr(getattr(f, "func", f), "__name__", None), **getattr(f, "keywords", {})}
            for f in scheduler.lr_lambdas
        ]
    return found


SCHEDULERS: dict[str, Make] = {
    "StepLR": lambda o: L.StepLR(o, 7, gamma=0.3),
    "MultiStepLR": lambda o: L.MultiStepLR(o, [5, 11, 11, 30], gamma=0.5),
    "ExponentialLR": lambda o: L.ExponentialLR(o, 0.93),
    "ConstantLR": lambda o: L.ConstantLR(o, 0.3, 6),
    "LinearLR": lambda o: L.LinearLR(o, 0.1, 0.9, 13),
    "PolynomialLR": lambda o: L.PolynomialLR(o, 20, 2.5),
    "CosineAnnealingLR": lambda o: L.CosineAnnealingLR(o, 12, eta_min=1e-3),
    "CosineAnnealingLR long": lambda o: L.CosineAnnealingLR(o, 80),
    "CosineAnnealingWarmRestarts": lambda o: L.CosineAnnealingWarmRestarts(o, 5, T_mult=2, eta_min=1e-4),
    "CosineAnnealingWarmRestarts equal": lambda o: L.CosineAnnealingWarmRestarts(o, 9),
    "CyclicLR": lambda o: L.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], step_size_up=6, step_size_down=9),
    "CyclicLR halving": lambda o: L.CyclicLR(o, 0.01, 0.1, step_size_up=4, mode="triangular2"),
    "CyclicLR fading": lambda o: L.CyclicLR(
        o, 0.01, 0.1, step_size_up=4, mode="exp_range", gamma=0.95, cycle_momentum=False
    ),
    "OneCycleLR": lambda o: L.OneCycleLR(o, [0.5, 0.1], total_steps=STEPS),
    "OneCycleLR three": lambda o: L.OneCycleLR(
        o, 0.5, total_steps=STEPS, three_phase=True, anneal_strategy="linear", cycle_momentum=False
    ),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, 0.03, anneal_epochs=8),
    "SWALR linear": lambda o: torch.optim.swa_utils.SWALR(o, [0.3, 0.001], anneal_epochs=8, anneal_strategy="linear"),
    "SequentialLR": lambda o: L.SequentialLR(
        o,
        [L.LinearLR(o, 0.1, total_iters=5), L.CosineAnnealingLR(o, 20), L.StepLR(o, 4), L.ConstantLR(o, 0.2, 3)],
        [6, 20, 33],
    ),
    "SequentialLR restarting": lambda o: L.SequentialLR(
        o,
        [L.ConstantLR(o, 0.1, 100), L.CosineAnnealingWarmRestarts(o, 4), L.ExponentialLR(o, 0.9), L.PolynomialLR(o, 9)],
        [3, 17, 30],
    ),
    "ChainedScheduler": lambda o: L.ChainedScheduler(
        [L.ConstantLR(o, 0.1, 10), L.ExponentialLR(o, 0.95), L.MultiStepLR(o, [20, 30])]
    ),
    "ChainedScheduler of a sequence": lambda o: L.ChainedScheduler(
        [L.SequentialLR(o, [L.LinearLR(o, 0.5, total_iters=4), L.StepLR(o, 6)], [8]), L.ExponentialLR(o, 0.99)]
    ),
}
NEEDS = {"num_warmup_steps": 7, "num_training_steps": 40}
FAMILY: dict[str, dict[str, Any]] = {
    "linear": {},
    "cosine": {},
    "cosine_with_restarts": {"num_cycles": 3},
    "polynomial": {"power": 2.0, "lr_end": 1e-4},
    "constant": {},
    "constant_with_warmup": {},
    "inverse_sqrt": {"timescale": 11},
    "cosine_with_min_lr": {"min_lr_rate": 0.1},
    "cosine_warmup_with_min_lr": {"min_lr_rate": 0.1, "warmup_lr_rate": 0.2},
    "warmup_stable_decay": {"num_decay_steps": 9, "min_lr_ratio": 0.1, "warmup_type": "cosine", "decay_type": "1-sqrt"},
}
for _name, _given in FAMILY.items():
    SCHEDULERS[f"transformers {_name}"] = lambda o, n=_name, g=_given: transformers.get_scheduler(
        n, o, **NEEDS, scheduler_specific_kwargs=g
    )
SCHEDULERS["transformers warmup_stable_decay again"] = lambda o: transformers.get_scheduler(
    "warmup_stable_decay",
    o,
    **NEEDS,
    scheduler_specific_kwargs={"num_decay_steps": 9, "warmup_type": "1-sqrt", "decay_type": "linear"},
)


def play(make: Make) -> list[tuple[dict[str, Any], list[Moment], list[Rate]]]:
    """Fifty steps: the configuration, each group's moment before, and what each group has after."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        o = optimizer()
        rates = [group["lr"] for group in o.param_groups]
        scheduler = make(o)
        found = []
        for k in range(STEPS):
            if k:
                rates = [group["lr"] for group in o.param_groups]
                o.step()
                scheduler.step()
            moments = [
                Moment(k, rates[i], i, {key: x for key, x in group.items() if key != "params"}, first=k == 0)
                for i, group in enumerate(o.param_groups)
            ]
            found.append((recorded(scheduler), moments, [Rate(g["lr"], g["momentum"]) for g in o.param_groups]))
    return found


def agree(a: float, b: float, scale: float = 0.0) -> bool:
    return abs(a - b) <= 1e-15 * max(abs(b), scale)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_each_step_of_a_schedule_is_the_schedulers(name: str) -> None:
    for config, moments, after in play(SCHEDULERS[name]):
        for at, rate in zip(moments, after, strict=True):
            found = next_rate(config, at)

            assert agree(found.lr, rate.lr), at.k
            assert found.momentum is None or agree(found.momentum, rate.momentum)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_closed_form_says_the_same_as_the_steps(name: str) -> None:
    """As far as fifty roundings of the recurrence let it, in units of the first rate."""
    for config, moments, after in play(SCHEDULERS[name]):
        closed = schedule_named(config["class"]).closed
        for at, rate in zip(moments, after, strict=True):
            if closed is not None:
                assert abs(closed(config, at).lr - rate.lr) <= STEPS * 2.0**-50 * max(config["base_lrs"])


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_schedule_one_step_late_is_found(name: str) -> None:
    """The rate that a group has is the one that the step before gave it. A constant is constant, late or not."""
    played = play(SCHEDULERS[name])
    late = [
        not agree(next_rate(config, at).lr, before.lr)
        for (_, _, earlier), (config, moments, _) in pairwise(played)
        for at, before in zip(moments, earlier, strict=True)
    ]

    assert any(late) == (name != "transformers constant")


@pytest.mark.parametrize(
    "name", [name for name in SCHEDULERS if name.startswith("transformers") and name != "transformers constant"]
)
def test_a_warm_up_off_by_one_is_found(name: str) -> None:
    wrong = []
    for config, moments, after in play(SCHEDULERS[name]):
        other = {**config, "lambdas": [{**f, "num_warmup_steps": f["num_warmup_steps"] + 1} for f in config["lambdas"]]}
        wrong += [not agree(next_rate(other, at).lr, rate.lr) for at, rate in zip(moments, after, strict=True)]

    assert any(wrong)


def test_the_wrong_member_of_a_sequence_is_found() -> None:
    played = play(SCHEDULERS["SequentialLR"])
    for shift in (-1, 1):
        wrong = []
        for config, moments, after in played:
            other = {**config, "_milestones": [m + shift for m in config["_milestones"]]}
            wrong += [not agree(next_rate(other, at).lr, rate.lr) for at, rate in zip(moments, after, strict=True)]
        assert any(wrong)
    for config, moments, after in played[6:9]:
        other = {
            **config,
            "_schedulers": config["_schedulers"][1:2] + config["_schedulers"][:1] + config["_schedulers"][2:],
        }
        assert any(not agree(next_rate(other, at).lr, rate.lr) for at, rate in zip(moments, after, strict=True))


def test_the_rate_of_another_group_is_found() -> None:
    for config, moments, after in play(SCHEDULERS["CosineAnnealingLR long"])[1:]:
        assert not agree(next_rate(config, moments[0]).lr, after[1].lr)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_a_plateau_follows_the_metric_that_it_was_told(mode: str, threshold_mode: str) -> None:
    rng = np.random.default_rng(0)
    o = optimizer()
    scheduler = L.ReduceLROnPlateau(
        o, mode, 0.5, patience=2, threshold=1e-2, threshold_mode=threshold_mode, cooldown=3, min_lr=[1e-3, 4e-3]
    )
    fell = 0
    for k in range(1, STEPS + 1):
        metric = float(abs(rng.normal()) + 1 / k)
        config, rates = recorded(scheduler), [group["lr"] for group in o.param_groups]
        scheduler.step(metric)
        after = recorded(scheduler)

        state, falls = plateau_state(config, metric)
        fell += falls
        assert {key: after[key] for key in state} == state
        for i, group in enumerate(o.param_groups):
            assert next_rate(config, Moment(k, rates[i], i, metric=metric)).lr == group["lr"]
    assert fell > 3


def test_a_plateau_without_its_metric_is_refused() -> None:
    config = recorded(L.ReduceLROnPlateau(optimizer()))
    assert next_rate(config, Moment(0, 0.1, first=True)).lr == 0.1
    with pytest.raises(InputError, match="follows a metric"):
        next_rate(config, Moment(1, 0.1))


def test_every_scheduler_of_torch_and_transformers_is_in_the_table_or_refused() -> None:
    classes = {
        name
        for name, cls in vars(L).items()
        if isinstance(cls, type) and issubclass(cls, L.LRScheduler) and cls not in (L.LRScheduler, L._LRScheduler)
    }
    assert classes - set(SCHEDULES) == {"MultiplicativeLR"}
    assert set(SCHEDULES) - classes == {"SWALR"}

    known = {name for listed, _, _ in FACTORS.values() for name in listed.split(", ")}
    assert {kind.value for kind in SchedulerType} - known == {"reduce_lr_on_plateau", "greedy"}
    assert "GreedyLR" in REFUSED


def test_a_function_of_ones_own_is_refused() -> None:
    config = recorded(L.LambdaLR(optimizer(), lambda k: 0.9**k))
    with pytest.raises(
        UsageError, match="no formula is known; there are those of transformers' get_scheduler: constant"
    ):
        next_rate(config, Moment(1, 0.1))
    with pytest.raises(UsageError, match=r"MultiplicativeLR.*only the program has; there are StepLR"):
        schedule_named("torch.optim.lr_scheduler.MultiplicativeLR")
    custom = L.CyclicLR(optimizer(), 0.01, 0.1, scale_fn=lambda x: x * x, mode="own")
    with pytest.raises(InputError, match="a scale of its own"):
        next_rate(recorded(custom), Moment(1, 0.1))


def test_what_a_configuration_lacks_is_named() -> None:
    with pytest.raises(InputError, match="StepLR: its configuration has no step_size; it has class"):
        next_rate({"class": "StepLR"}, Moment(1, 0.1))
    with pytest.raises(InputError, match="base_lrs for 1 groups, and this is group 1"):
        next_rate({"class": "LambdaLR", "base_lrs": [0.1], "lambdas": [{}, {}]}, Moment(1, 0.1, 1))
    with pytest.raises(InputError, match="group 0 has no swa_lr"):
        next_rate({"class": "SWALR", "anneal_epochs": 3}, Moment(1, 0.1))

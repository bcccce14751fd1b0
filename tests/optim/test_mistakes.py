"""Every mistake of the table, made in float32, lies outside the certain bound of what was meant; what was meant lies inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executions import executed, trained
from torch_steps import ratio

from backproof.optim import OPTIMIZERS
from backproof.optim.derive import Derived, derive, value_of_step
from backproof.optim.mistakes import MISTAKES, Given, hypotheses, matched

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("sgd", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("adam", {"lr": 1e-2, "weight_decay": 0.1, "eps": 1e-6}),
    ("adam", {"lr": 1e-2, "amsgrad": True, "beta2": 0.6}),
    ("adamw", {"lr": 1e-2, "weight_decay": 0.1}),
    ("adamw", {"lr": 1e-3, "weight_decay": 0.1, "amsgrad": True, "beta2": 0.6}),
    ("adamax", {"lr": 1e-2, "weight_decay": 0.1}),
    ("nadam", {"lr": 1e-2, "weight_decay": 0.1}),
    ("nadam", {"lr": 1e-2, "weight_decay": 0.1, "decoupled": True}),
    ("radam", {"lr": 1e-2, "weight_decay": 0.1}),
    ("radam", {"lr": 1e-2, "weight_decay": 0.1, "decoupled": True}),
    ("sparse_adam", {"lr": 1e-2}),
    ("adagrad", {"lr": 1e-2, "lr_decay": 0.1, "weight_decay": 0.1}),
    ("adadelta", {"weight_decay": 0.1}),
    ("rmsprop", {"lr": 1e-2, "weight_decay": 0.1, "momentum": 0.9}),
    ("rmsprop", {"lr": 1e-2, "centered": True, "alpha": 0.9}),
    ("rprop", {"lr": 1e-2}),
    ("asgd", {"lr": 1e-2, "weight_decay": 0.1}),
    ("adafactor", {"weight_decay": 0.1}),
    ("adafactor_relative", {"weight_decay": 0.1}),
    ("lion", {"lr": 1e-3, "weight_decay": 0.1}),
    ("lamb", {"lr": 1e-2, "weight_decay": 0.1}),
]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(SETTINGS)]
SHAPE, T = (16, 24), 7
# ε = 10⁻⁸ beside √v̂ from 10⁻³ to 1, with corrections near 1: it moves a parameter of size 1 by less than its own rounding.
HIDDEN = {("adam-3", "eps_before"), ("adamw-5", "eps_inside"), ("adamw-5", "eps_before")}
Case = tuple[Given, np.ndarray[Any, Any], dict[str, Derived]]


def case(name: str, hyper: dict[str, Any]) -> Case:
    given, p = trained(OPTIMIZERS[name], hyper, SHAPE, T)
    return given, p, derive(given.optimizer, given.gradient, p, given.state, given.hyper, given.t)


def worst(claimed: dict[str, np.ndarray[Any, Any]], derived: dict[str, Derived]) -> float:
    return max(ratio(claimed[name], found) for name, found in derived.items() if name in claimed)


@pytest.mark.parametrize(("name", "hyper"), SETTINGS, ids=IDS)
def test_what_was_meant_is_inside(name: str, hyper: dict[str, Any]) -> None:
    given, p, derived = case(name, hyper)

    assert worst(executed(given, p), derived) <= 1


@pytest.mark.parametrize(("name", "hyper"), SETTINGS, ids=IDS)
def test_every_mistake_is_outside(name: str, hyper: dict[str, Any]) -> None:
    given, p, derived = case(name, hyper)
    label = f"{name}-{SETTINGS.index((name, hyper))}"
    made = {mistake.name: worst(executed(changed, p), derived) for mistake, changed in hypotheses(given)}

    assert {mistake for mistake, figure in made.items() if figure <= 1} == {m for at, m in HIDDEN if at == label}


@pytest.mark.parametrize(("name", "hyper"), SETTINGS, ids=IDS)
def test_a_mistake_is_named_by_the_hypothesis_that_holds(name: str, hyper: dict[str, Any]) -> None:
    """Derived from what was really done, the step holds: so the mistake has a name."""
    given, p, _ = case(name, hyper)
    for _, changed in hypotheses(given):
        claimed = executed(changed, p)
        derived = derive(changed.optimizer, changed.gradient, p, changed.state, changed.hyper, changed.t)

        assert worst(claimed, derived) <= 1


@pytest.mark.parametrize(("label", "mistake"), sorted(HIDDEN))
def test_what_hides_in_rounding_is_hidden_from_any_elementwise_test(label: str, mistake: str) -> None:
    """Exactly computed, the two rules differ by less than the bound everywhere."""
    name, hyper = SETTINGS[int(label.rpartition("-")[2])]
    given, p, derived = case(name, hyper)
    wrong = MISTAKES[mistake].make(given)
    assert wrong is not None

    found = value_of_step(wrong.optimizer, wrong.gradient, p, wrong.state, wrong.hyper, wrong.t)

    assert np.all(abs(found["update"] - derived["update"].value) < derived["update"].certain)


def test_the_matched_filter_tells_apart_what_hides_in_rounding() -> None:
    """Decay after the move is 3·10⁻⁹ away beside parameters of size 2, whose rounding is 10⁻⁷: no element shows it, all together do."""
    given, p = trained(OPTIMIZERS["adamw"], {"lr": 3e-4, "weight_decay": 0.1}, (600, 600), 3, centre=2.0)
    right = derive(given.optimizer, given.gradient, p, given.state, given.hyper, given.t)["update"]
    changed = MISTAKES["decay_after"].make(given)
    assert changed is not None
    wrong = value_of_step(changed.optimizer, changed.gradient, p, changed.state, changed.hyper, changed.t)["update"]
    honest, made = (executed(each, p)["update"] for each in (given, changed))
    large = abs(p) > 0.5

    assert np.all(abs(made - right.value)[large] <= right.certain[large])
    assert abs(matched(honest[large], right.value[large], wrong[large])) < 0.5
    assert abs(matched(made[large], right.value[large], wrong[large]) - 1) < 0.5


def test_every_mistake_is_made_somewhere() -> None:
    made = {mistake.name for name, hyper in SETTINGS for mistake, _ in hypotheses(case(name, hyper)[0])}

    assert made == set(MISTAKES)

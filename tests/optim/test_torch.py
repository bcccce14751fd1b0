"""Our formulas against what torch and transformers really compute, in every implementation that a CPU has."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from settings import combinations
from torch_steps import NAMES, Recorded, parameters, ratio, record

from backproof.numerics import FORMATS
from backproof.optim import OPTIMIZERS
from backproof.optim.torch_names import TORCH_OPTIMIZERS

CASES = combinations()
SHAPES = [(5, 7), (9,), (2, 3, 4)]
STEPS = {torch.optim.RAdam: 7}  # it rectifies from step 6 on


@pytest.fixture
def wide():
    """Numbers that torch keeps as tensors are of the default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def steps(cls: Any, given: dict[str, Any], fmt: str, shapes: list[tuple[int, ...]] = SHAPES) -> list[Recorded]:
    rng = np.random.default_rng(0)
    optimizer = cls(parameters(rng, shapes, fmt), **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own slow paths
        return list(record(optimizer, rng, STEPS.get(cls, 4)))


def broken_in_torch(cls: Any, given: dict[str, Any], fmt: str) -> bool:
    """Fused SGD of 16 bits on a CPU leaves whole vectors of a parameter as they were (torch 2.13)."""
    if cls is not torch.optim.SGD or not given.get("fused") or fmt not in ("bfloat16", "float16"):
        return False
    p = torch.zeros(64, dtype=getattr(torch, fmt))
    p.grad = torch.ones_like(p)
    torch.optim.SGD([p], lr=0.5, fused=True).step()
    return bool((p == 0).any())


@pytest.mark.parametrize(("label", "cls", "given"), CASES, ids=[case[0] for case in CASES])
def test_our_step_in_float64_is_torchs(label: str, cls: Any, given: dict[str, Any], wide: None) -> None:
    for step in steps(cls, given, "float64"):
        derived = step.derived()

        assert set(derived) == set(step.claimed)
        for name, claimed in step.claimed.items():
            scale = np.max(abs(claimed), initial=0) + (np.max(abs(step.before)) if name == "update" else 0)
            assert np.max(abs(claimed - derived[name].value), initial=0) <= 1e-12 * scale


KEEPS_NUMBERS_AS_TENSORS = (torch.optim.NAdam, torch.optim.ASGD, torch.optim.Adam)
FORMATS_OF = [
    (fmt, *case)
    for fmt in ("float32", "bfloat16", "float64")
    for case in CASES
    if fmt != "float64" or case[1] in KEEPS_NUMBERS_AS_TENSORS  # in float32, whatever the parameter is
]


@pytest.mark.parametrize(
    ("fmt", "label", "cls", "given"), FORMATS_OF, ids=[f"{case[1]}-{case[0]}" for case in FORMATS_OF]
)
def test_the_certain_bound_contains_what_torch_computes(fmt: str, label: str, cls: Any, given: dict[str, Any]) -> None:
    if broken_in_torch(cls, given, fmt):
        pytest.skip("this torch leaves whole vectors unchanged; see the test below")
    unbounded, seen = 0, 0
    for step in steps(cls, given, fmt):
        derived = step.derived()
        for name, claimed in step.claimed.items():
            assert ratio(claimed, derived[name]) <= 1
            unbounded += int(np.sum(~np.isfinite(derived[name].certain)))
            seen += claimed.size
    # In 16 bits a gradient and its decay may cancel: what is left of g/√v is anything.
    assert unbounded <= (0.01 * seen if fmt == "bfloat16" else 0)


@pytest.mark.parametrize("fmt", ["bfloat16", "float16"])
def test_fused_sgd_of_16_bits_is_found_where_torch_has_it_wrong(fmt: str) -> None:
    given = {"lr": 0.1, "momentum": 0.9, "fused": True}
    if not broken_in_torch(torch.optim.SGD, given, fmt):
        pytest.skip("this torch has it right")

    first = steps(torch.optim.SGD, given, fmt, [(64,)])[0]

    assert ratio(first.claimed["update"], first.derived()["update"]) > 10


# Some need more: where v − ḡ² cancels, where g + λ·p does and is divided by its own size, where 1 − βᵗ is computed in float32.
WIDER = ("RMSprop-1", "RMSprop-2", "RMSprop-3")
PLAIN = [case for case in CASES if case[0].endswith(("single", "Adafactor")) and not case[0].startswith(WIDER)]


@pytest.mark.parametrize(("label", "cls", "given"), PLAIN, ids=[case[0] for case in PLAIN])
def test_the_certain_bound_is_tight(label: str, cls: Any, given: dict[str, Any]) -> None:
    """State: within 128 roundings of its terms. Updates: the parameter's own roundings, and 200 of the move beside it."""
    unit = FORMATS["float32"].unit
    for step in steps(cls, given, "float32"):
        derived = step.derived()
        for name, found in derived.items():
            if name == "update":
                room = 4 * unit * (abs(step.before) + abs(step.after)) + 200 * unit * np.max(abs(found.value))
            else:
                size = np.max(abs(found.value)) + np.max(abs(step.old.get(name, 0.0)))
                room = 128 * unit * (size + np.max(abs(step.after)) * (name == "ax"))
            assert np.all(found.certain <= room)


def test_groups_have_numbers_of_their_own() -> None:
    rng = np.random.default_rng(0)
    one, two = parameters(rng, [(5, 7), (9,)], "float32")
    groups = [{"params": [one], "lr": 0.1, "weight_decay": 0.0}, {"params": [two], "lr": 0.01, "betas": (0.8, 0.9)}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.1)

    recorded = list(record(optimizer, rng, 3))

    assert {step.hyper["lr"] for step in recorded} == {0.1, 0.01}
    for step in recorded:
        assert ratio(step.claimed["update"], step.derived()["update"]) <= 1
        other = {0.1: 0.01, 0.01: 0.1}[step.hyper["lr"]]
        assert ratio(step.claimed["update"], step.derived(lr=other)["update"]) > 1


STATEFUL = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.Adam, {"amsgrad": True}),
    (torch.optim.AdamW, {}),
    (torch.optim.NAdam, {}),
    (torch.optim.RAdam, {}),
    (torch.optim.Adamax, {}),
    (torch.optim.Adagrad, {}),
    (torch.optim.Adadelta, {}),
    (torch.optim.RMSprop, {"centered": True}),
    (torch.optim.Rprop, {}),
    (torch.optim.Adafactor, {}),
]


def worst(claimed: dict[str, Any], derived: dict[str, Any]) -> float:
    return max(ratio(claimed[name], derived[name]) for name in claimed)


@pytest.mark.parametrize(("cls", "given"), STATEFUL, ids=[cls.__name__ for cls, _ in STATEFUL])
def test_real_steps_with_something_stale_or_exchanged_are_found(cls: Any, given: dict[str, Any]) -> None:
    """Two parameters of one shape through three steps: each claim against what another step, or the other parameter, had."""
    recorded = steps(cls, given, "float32", [(8, 9), (8, 9)])
    one, other, later = recorded[2], recorded[3], recorded[4]
    assert worst(later.claimed, later.derived()) <= 1

    wrong = {
        "the state of the step before": later.derived(old=one.old),
        "the gradient of the step before": later.derived(gradient=one.gradient),
        "the gradient of another parameter": one.derived(gradient=other.gradient),
        "the state of another parameter": one.derived(old=other.old),
        "another learning rate": later.derived(lr=later.hyper["lr"] * 1.001) if cls is not torch.optim.Rprop else None,
    }
    claims = {"the state of the step before": later, "the gradient of the step before": later}
    claims["another learning rate"] = later
    if cls is torch.optim.Adafactor:
        del wrong["another learning rate"]  # 1/√t, which is less, is what counts

    for name, derived in wrong.items():
        assert derived is None or worst(claims.get(name, one).claimed, derived) > 1, name
    twice = {**later.claimed, "update": 2 * later.claimed["update"]}
    assert worst(twice, later.derived()) > 1


def test_decay_that_acts_once_for_each_parameter_of_a_group_is_found() -> None:
    """p·(1 − η·λ) applied again and again by a loop over the group that stands at the wrong place."""
    for step in steps(torch.optim.AdamW, {"weight_decay": 0.1}, "float32"):
        again = step.claimed["update"] - step.hyper["lr"] * step.hyper["weight_decay"] * step.before

        assert ratio(step.claimed["update"], step.derived()["update"]) <= 1
        assert ratio(again, step.derived()["update"]) > 10


def test_every_optimizer_of_torch_is_in_the_table_or_refused() -> None:
    classes = {
        name
        for name, cls in vars(torch.optim).items()
        if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
    }

    listed = {each.path.rpartition(".")[2] for each in TORCH_OPTIMIZERS.values() if each.path.startswith("torch.")}

    assert classes - listed == {"LBFGS"}


def test_every_group_key_of_torch_is_read_or_chooses_an_implementation() -> None:
    """A key that is neither would be a change of the rule that nobody sees."""
    ways = {"params", "foreach", "fused", "capturable", "differentiable"}
    for each in TORCH_OPTIMIZERS.values():
        if not each.path.startswith("torch."):
            continue
        cls = getattr(torch.optim, each.path.rpartition(".")[2])
        keys = set(cls([torch.zeros(2, 2)]).param_groups[0])

        assert keys - ways == set(each.hyper), each.path


def test_defaults_are_torchs() -> None:
    for each in TORCH_OPTIMIZERS.values():
        if not each.path.startswith("torch."):
            continue
        group = getattr(torch.optim, each.path.rpartition(".")[2])([torch.zeros(2, 2)]).param_groups[0]
        defaults = OPTIMIZERS[each.record].defaults
        for key, name in each.hyper.items():
            names = (name,) if isinstance(name, str) else name
            values = group[key] if isinstance(name, tuple) else (group[key],)
            for one, value in zip(names, values, strict=True):
                assert value is None or defaults[one] == value, (each.path, one)


def test_formats_have_torchs_names() -> None:
    assert set(NAMES.values()) <= set(FORMATS)

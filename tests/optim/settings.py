"""The optimizers of torch and transformers, each with the settings it is tested under."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers.optimization import Adafactor as RelativeAdafactor

Settings = dict[str, Any]
O = torch.optim
MATRIX_ONLY = (O.Muon,)

# Class, and for each a list of settings beside the defaults.
CASES: list[tuple[Callable[..., torch.optim.Optimizer], list[Settings]]] = [
    (
        O.SGD,
        [
            {"lr": 0.1},
            {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
            {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
            {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
            {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True, "weight_decay": 0.1},
        ],
    ),
    (
        O.Adam,
        [
            {},
            {"weight_decay": 0.1},
            {"amsgrad": True, "betas": (0.5, 0.6), "maximize": True},
            {"weight_decay": 0.1, "decoupled_weight_decay": True},
        ],
    ),
    (O.AdamW, [{"weight_decay": 0.1}, {"amsgrad": True, "betas": (0.5, 0.6)}, {"maximize": True, "eps": 1e-3}]),
    (O.Adamax, [{}, {"weight_decay": 0.1}, {"maximize": True, "eps": 1e-3}]),
    (O.NAdam, [{}, {"weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}]),
    (
        O.RAdam,
        [
            {},
            {"weight_decay": 0.1, "betas": (0.9, 0.99)},
            {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
        ],
    ),
    (
        O.Adagrad,
        [{}, {"lr_decay": 0.1, "weight_decay": 0.1}, {"initial_accumulator_value": 0.5, "maximize": True, "eps": 1e-3}],
    ),
    (O.Adadelta, [{}, {"weight_decay": 0.1, "lr": 0.5}, {"maximize": True, "rho": 0.5}]),
    (
        O.RMSprop,
        [
            {},
            {"centered": True},
            {"momentum": 0.9, "weight_decay": 0.1},
            {"momentum": 0.9, "centered": True, "maximize": True},
        ],
    ),
    (O.Rprop, [{}, {"etas": (0.6, 1.3), "step_sizes": (1e-3, 1.2e-2)}, {"maximize": True}]),
    (O.ASGD, [{}, {"lambd": 0.1, "t0": 2.0, "weight_decay": 0.1}, {"maximize": True, "t0": 1.0}]),
    (O.Adafactor, [{}, {"lr": 0.5, "weight_decay": 0.1}, {"maximize": True, "eps": (1e-3, 1e-2), "d": 1.5}]),
    (
        RelativeAdafactor,
        [
            {},
            {"lr": 0.05, "relative_step": False, "scale_parameter": False, "weight_decay": 0.1},
            {"warmup_init": True, "beta1": 0.9, "clip_threshold": 0.5, "weight_decay": 0.1},
        ],
    ),
]
# What chooses among the implementations of one rule on a CPU.
IMPLEMENTATIONS: dict[str, Settings] = {
    "single": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "differentiable": {"differentiable": True},
}
HAS: dict[str, tuple[Any, ...]] = {
    "single": (
        O.SGD,
        O.Adam,
        O.AdamW,
        O.Adamax,
        O.NAdam,
        O.RAdam,
        O.Adagrad,
        O.Adadelta,
        O.RMSprop,
        O.Rprop,
        O.ASGD,
        O.Adafactor,
    ),
    "foreach": (
        O.SGD,
        O.Adam,
        O.AdamW,
        O.Adamax,
        O.NAdam,
        O.RAdam,
        O.Adagrad,
        O.Adadelta,
        O.RMSprop,
        O.Rprop,
        O.ASGD,
        O.Adafactor,
    ),
    "fused": (O.SGD, O.Adam, O.AdamW, O.Adagrad),
    "differentiable": (
        O.SGD,
        O.Adam,
        O.AdamW,
        O.Adamax,
        O.NAdam,
        O.RAdam,
        O.Adagrad,
        O.Adadelta,
        O.RMSprop,
        O.Rprop,
        O.ASGD,
    ),
}


def combinations() -> list[tuple[str, Any, Settings]]:
    """Every class with every one of its settings, in every implementation that it has."""
    found: list[tuple[str, Any, Settings]] = []
    for cls, settings in CASES:
        ways = [way for way, classes in HAS.items() if cls in classes] or [""]
        for i, given in enumerate(settings):
            for way in ways:
                label = f"{cls.__name__}-{i}" + (f"-{way}" if way else "")
                found.append((label, cls, {**given, **IMPLEMENTATIONS.get(way, {})}))
    return found

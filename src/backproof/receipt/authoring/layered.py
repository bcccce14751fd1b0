"""A topology input 1.0.0 of any depth to start from: dense layers of given sizes, with numbers that are easy to read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from backproof.engine.scalar_activations import SMOOTH
from backproof.errors import UsageError
from backproof.receipt.authoring.lossless import POLICY

ACTIVATIONS = ("sigmoid", "relu", "identity", *SMOOTH)
RATE = 0.1
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "sgd_momentum": {"momentum": 0.9},
    "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "t": 1},
    "adamw": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01, "t": 1},
}
STATES: dict[str, dict[str, float]] = {
    "sgd_momentum": {"buffer": 0.0},
    "adam": {"m": 0.0, "v": 0.0},
    "adamw": {"m": 0.0, "v": 0.0},
}
MOST_UNITS, MOST_LAYERS = 512, 64


def layered_input(sizes: Sequence[int], activations: Sequence[str], optimizer: str = "sgd") -> dict[str, Any]:
    """An input of some layers; each layer above the first has its activation, and softmax brings cross entropy."""
    _check(sizes, activations, optimizer)
    layers = ["input", *(f"hidden{k}" for k in range(1, len(sizes) - 1)), "output"]
    letters = ["x", *(f"h{k}_" for k in range(1, len(sizes) - 1)), "y"]
    units = {
        layer: [f"{letter}{i + 1}" for i in range(size)]
        for layer, letter, size in zip(layers, letters, sizes, strict=True)
    }
    parameters = list(_parameters(layers, units))
    ids = [parameter["id"] for parameter in parameters]
    softmax = activations[-1] == "softmax"
    goals = [float(i == 0) if softmax else round(0.1 + 0.8 * _spread(i), 2) for i in range(sizes[-1])]
    given: dict[str, Any] = {
        "numeric_policy": dict(POLICY),
        "bias_policy": {"mode": "sgd", "updated_in_step": True},
        "topology": {
            "layers": layers,
            "unit_order": units,
            "parameter_order": ids,
            "parameters": parameters,
            "activations": dict(zip(layers[1:], activations, strict=True)),
            "loss": "cross_entropy_softmax" if softmax else "half_squared_error",
            "bias_sharing": "per_neuron",
        },
        "learning_rate": RATE,
        "inputs": {unit: round(_spread(i + 7), 2) for i, unit in enumerate(units["input"])},
        "targets": dict(zip(units["output"], goals, strict=True)),
        "parameters_before": {name: round(1.6 * _spread(k) - 0.8, 2) for k, name in enumerate(ids, 1)},
    }
    if optimizer != "sgd":
        given["optimizer_config"] = {"name": optimizer, "learning_rate": RATE, **OPTIMIZERS[optimizer]}
        given["optimizer_state_before"] = {name: dict(STATES[optimizer]) for name in ids}
    return given


def _parameters(layers: Sequence[str], units: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    for below, above in pairwise(layers):
        for b in units[above]:
            yield from ({"id": f"w_{a}_{b}", "role": "weight", "from_unit": a, "to_unit": b} for a in units[below])
        yield from ({"id": f"b_{b}", "role": "bias", "applies_to_units": [b]} for b in units[above])


def _spread(i: int) -> float:
    """Numbers in [0, 1) that lie evenly and in no order: multiples of the golden ratio."""
    return math.modf(i * 0.6180339887498949)[0]


def _check(sizes: Sequence[int], activations: Sequence[str], optimizer: str) -> None:
    if not 2 <= len(sizes) <= MOST_LAYERS or not all(1 <= size <= MOST_UNITS for size in sizes):
        raise UsageError(f"a network has 2 to {MOST_LAYERS} layers of 1 to {MOST_UNITS} units, not {list(sizes)}")
    if len(activations) != len(sizes) - 1:
        raise UsageError(f"{len(sizes)} layers have {len(sizes) - 1} activations, not {len(activations)}")
    for k, name in enumerate(activations):
        if name not in ACTIVATIONS and (name != "softmax" or k < len(activations) - 1):
            raise UsageError(f"no activation {name!r} here; there are {', '.join(ACTIVATIONS)}, and softmax at the end")
    if optimizer not in OPTIMIZERS:
        raise UsageError(f"no optimizer {optimizer!r}; there are {', '.join(OPTIMIZERS)}")

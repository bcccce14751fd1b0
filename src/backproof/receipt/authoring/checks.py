"""What the engine asks of an input before it computes: each refusal says where, what was said and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from backproof.errors import InputError
from backproof.receipt.topology import Topology

STATE_KEYS = {"sgd": (), "sgd_momentum": ("buffer",), "adam": ("m", "v"), "adamw": ("m", "v")}
SETTINGS = {
    "sgd": ("weight_decay",),
    "sgd_momentum": ("momentum", "nesterov", "dampening", "weight_decay"),
    "adam": ("beta1", "beta2", "epsilon", "t"),
    "adamw": ("beta1", "beta2", "epsilon", "t", "weight_decay"),
}
RANGES: dict[str, tuple[str, Callable[[float], bool]]] = {
    "beta1": ("between 0 and 1", lambda x: 0 < x < 1),
    "beta2": ("between 0 and 1", lambda x: 0 < x < 1),
    "momentum": ("between 0 and 1", lambda x: 0 < x < 1),
    "epsilon": ("above 0", lambda x: x > 0),
    "t": ("a whole number from 1 on", lambda x: x >= 1 and x == int(x)),
    "weight_decay": ("0 or more", lambda x: x >= 0),
    "dampening": ("from 0 to below 1", lambda x: 0 <= x < 1),
}
TARGET_SUM_SLACK = 1e-9
MOST_SAMPLES = 10_000


def check_input(given: Mapping[str, Any], topology: Topology) -> None:
    """Topology, policies and numbers, in that order."""
    for problem in topology.problems:
        raise InputError(f"{problem.path}: {problem.message} (said {problem.said!r}, expected {problem.found!r})")
    mode = _mapping(given, "bias_policy").get("mode")
    if mode not in {"constant", "sgd"}:
        raise InputError(f"bias_policy.mode: {mode!r} is neither constant nor sgd")
    if mode == "sgd" and topology.bias_sharing == "per_layer":
        raise InputError("bias_policy.mode: sgd needs bias_sharing per_neuron; a shared bias can only be constant")
    rate = given.get("learning_rate")
    if not _is_finite(rate) or not rate > 0:  # type: ignore[operator]
        raise InputError(f"learning_rate: {rate!r} is not a finite number above 0")
    check_numbers(given, topology)


def check_numbers(given: Mapping[str, Any], topology: Topology) -> None:
    """Every declared input, target and parameter is there and finite; softmax targets sum to one."""
    for key, names in (
        ("inputs", topology.inputs),
        ("targets", topology.outputs),
        ("parameters_before", topology.parameter_order),
    ):
        held = _mapping(given, key)
        for name in names:
            if not _is_finite(held.get(name)):
                raise InputError(
                    f"{key}.{name}: {held.get(name)!r} is not a finite number; every declared id needs one"
                )
    if topology.loss == "cross_entropy_softmax":
        total = sum(given["targets"][unit] for unit in topology.outputs)
        if abs(total - 1.0) > TARGET_SUM_SLACK:
            raise InputError(f"targets: sum to {total}, but cross entropy needs probabilities that sum to 1")


def check_optimizer(
    config: Mapping[str, Any] | None, rate: float, state: Mapping[str, Any] | None, updated: list[str]
) -> None:
    """The optimizer's name, its settings and its state before the step."""
    name = "sgd" if config is None else config.get("name")
    if name not in SETTINGS:
        raise InputError(f"optimizer_config.name: {name!r}; there are {', '.join(SETTINGS)}")
    if config is not None:
        _check_settings(config, name, rate)
    keys = STATE_KEYS[name]
    if not keys:
        if state:
            raise InputError(f"optimizer_state_before: {name} keeps no state, but one was given")
        return
    for parameter in updated:
        held = (state or {}).get(parameter)
        for key in keys:
            value = held.get(key) if isinstance(held, Mapping) else None
            if not _is_finite(value) or (key == "v" and value < 0):  # type: ignore[operator]
                raise InputError(
                    f"optimizer_state_before.{parameter}.{key}: {value!r} is not a finite number it can be"
                )


def _check_settings(config: Mapping[str, Any], name: str, rate: float) -> None:
    for key in config:
        if key not in {"name", "learning_rate", *SETTINGS[name]}:
            raise InputError(f"optimizer_config.{key}: {name} has no such setting; it has {', '.join(SETTINGS[name])}")
    if config.get("learning_rate") != rate:
        raise InputError(
            f"optimizer_config.learning_rate: {config.get('learning_rate')!r} is not learning_rate {rate!r}"
        )
    for key, (says, holds) in RANGES.items():
        needed = key in SETTINGS[name] and key not in {"weight_decay", "dampening"}
        needed = needed or (key == "weight_decay" and name == "adamw")
        value = config.get(key)
        if (value is not None or needed) and not (_is_finite(value) and holds(float(value))):  # type: ignore[arg-type]
            raise InputError(f"optimizer_config.{key}: {value!r} must be {says}")
    if config.get("nesterov") and config.get("dampening"):
        raise InputError("optimizer_config.dampening: Nesterov momentum has no dampening")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _mapping(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = given.get(key)
    if not isinstance(value, Mapping):
        raise InputError(f"{key}: is missing or no object")
    return value

"""What Keras's optimizers are: rules of the table with their numbers, and what their variables are called there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

STEP = "step"


@dataclass(frozen=True)
class Rule:
    """A class of Keras: the record it follows, and the record's names for what Keras has."""

    record: str
    hyper: Mapping[str, str]
    """Keras's setting → hyper-parameter."""
    state: Mapping[str, str]
    """What Keras calls a variable of a parameter → field."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Which of the record's variants it is."""
    decays: bool = False
    """Whether its weight decay is that of the record; elsewhere Keras's is another."""


_RATE = {"learning_rate": "lr"}
_BETAS = {"beta_1": "beta1", "beta_2": "beta2"}
_ADAM = {**_RATE, **_BETAS, "epsilon": "eps", "amsgrad": "amsgrad", "weight_decay": "weight_decay"}
_MOMENTS = {"momentum": "exp_avg", "velocity": "exp_avg_sq", "velocity_hat": "max_exp_avg_sq"}

RULES: dict[str, Rule] = {
    "SGD": Rule(
        "sgd",
        {**_RATE, "momentum": "momentum", "nesterov": "nesterov"},
        {"momentum": "velocity"},
        {"rate_at": "inside"},
    ),
    "Adam": Rule("adam", _ADAM, _MOMENTS, {"eps_at": "before", "decoupled": True}, decays=True),
    "AdamW": Rule("adamw", _ADAM, _MOMENTS, {"eps_at": "before"}, decays=True),
    "Lion": Rule("lion", {**_RATE, **_BETAS, "weight_decay": "weight_decay"}, {"momentum": "exp_avg"}, decays=True),
    "Adadelta": Rule(
        "adadelta",
        {**_RATE, "rho": "rho", "epsilon": "eps"},
        {"accumulated_grad": "square_avg", "accumulated_delta_var": "acc_delta"},
    ),
}
"""A class's name → its rule. Those not in it have ε elsewhere than the records do."""
BETWEEN = "clipnorm global_clipnorm clipvalue use_ema loss_scale_factor gradient_accumulation_steps".split()
"""Settings by which Keras does something more with a gradient or a parameter, unseen."""


def rule_of(optimizer: Any) -> Rule | None:
    """The rule that an optimizer follows in every step; None where it is not known, or is not all that happens."""
    kind, settings = type(optimizer), optimizer.get_config()
    rule = RULES.get(kind.__name__) if kind.__module__.startswith("keras.") else None
    if rule is None or any(settings.get(key) for key in BETWEEN) or isinstance(settings["learning_rate"], dict):
        return None
    decays = bool(settings.get("weight_decay"))
    everywhere = all(optimizer._use_weight_decay(v) for v in optimizer._trainable_variables)  # noqa: SLF001 # Keras keeps it nowhere else
    return None if decays and not (rule.decays and everywhere) else rule


def settings_of(optimizer: Any) -> dict[str, Any]:
    """What a manifest tells of an optimizer: its rule and numbers; else its class, and what that was told."""
    rule, config = rule_of(optimizer), optimizer.get_config()
    if rule is None:
        plain = {key: item for key, item in config.items() if isinstance(item, (bool, int, float, str))}
        return {**plain, "name": f"keras.optimizers.{type(optimizer).__name__}"}
    numbers = {name: config[key] for key, name in rule.hyper.items() if config.get(key) is not None}
    return {"name": rule.record, **numbers, **rule.fixed}


def state_name(rule: Rule | None, name: str) -> str:
    """What a variable of a parameter is called in a trace."""
    return name if rule is None else rule.state.get(name, name)


def count_of(optimizer: Any) -> Any:
    """How many steps were made."""
    return np.asarray(keras.ops.convert_to_numpy(optimizer.iterations))

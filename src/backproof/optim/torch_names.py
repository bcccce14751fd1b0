"""What PyTorch and transformers call the optimizers of the table, their numbers and their state: data, no framework is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backproof.errors import InputError, UsageError
from backproof.numerics import FORMATS, format_named
from backproof.optim import OPTIMIZERS, REFUSED, Numbers, Optimizer

STEP = "step"
# These choose among implementations of one rule.
IMPLEMENTATIONS = ("foreach", "fused", "capturable", "differentiable")


@dataclass(frozen=True)
class TorchOptimizer:
    """A class of a framework: its record, and its names for what the record has."""

    path: str
    """Module and class; of torch's own, the name they are public under."""
    record: str
    hyper: Mapping[str, str | tuple[str, ...]]
    """Key of a param_group → hyper-parameter, or the several that a tuple under that key holds."""
    state: Mapping[str, str]
    """Key of the state of a parameter → field."""
    tensors: tuple[str, ...] = ()
    """The flags with which it computes numbers such as bias corrections as tensors."""
    computes: Callable[[str], str] = str
    """The format it computes in, for a parameter's format."""


def _same(*names: str) -> dict[str, Any]:
    return {name: name for name in names}


def _wide(parameter: str) -> str:
    return "float32" if parameter in ("float16", "bfloat16") else parameter


_BETAS: dict[str, str | tuple[str, ...]] = {"betas": ("beta1", "beta2")}
_ADAM = {**_same("lr", "eps", "weight_decay", "amsgrad", "maximize"), **_BETAS, "decoupled_weight_decay": "decoupled"}
_MOMENTS = _same("exp_avg", "exp_avg_sq")
_COMMON = _same("lr", "weight_decay", "maximize")
_EPSILONS = {"eps": ("eps1", "eps2")}

TORCH_OPTIMIZERS: dict[str, TorchOptimizer] = {
    each.path: each
    for each in (
        TorchOptimizer(
            "torch.optim.SGD",
            "sgd",
            {**_COMMON, **_same("momentum", "dampening", "nesterov")},
            _same("momentum_buffer"),
        ),
        TorchOptimizer(
            "torch.optim.Adam",
            "adam",
            _ADAM,
            {**_MOMENTS, **_same("max_exp_avg_sq")},
            ("capturable", "differentiable"),
        ),
        TorchOptimizer(
            "torch.optim.AdamW",
            "adamw",
            _ADAM,
            {**_MOMENTS, **_same("max_exp_avg_sq")},
            ("capturable", "differentiable"),
        ),
        TorchOptimizer(
            "torch.optim.Adamax",
            "adamax",
            {**_COMMON, **_BETAS, **_same("eps")},
            _same("exp_avg", "exp_inf"),
            ("capturable",),
        ),
        TorchOptimizer(
            "torch.optim.NAdam",
            "nadam",
            {**_COMMON, **_BETAS, **_same("eps", "momentum_decay"), "decoupled_weight_decay": "decoupled"},
            {**_MOMENTS, **_same("mu_product")},
            ("capturable", "differentiable"),
        ),
        TorchOptimizer(
            "torch.optim.RAdam",
            "radam",
            {**_COMMON, **_BETAS, **_same("eps"), "decoupled_weight_decay": "decoupled"},
            _MOMENTS,
            ("capturable",),
        ),
        TorchOptimizer("torch.optim.SparseAdam", "sparse_adam", {**_same("lr", "eps", "maximize"), **_BETAS}, _MOMENTS),
        TorchOptimizer(
            "torch.optim.Adagrad",
            "adagrad",
            {**_COMMON, **_same("lr_decay", "eps", "initial_accumulator_value")},
            _same("sum"),
        ),
        TorchOptimizer(
            "torch.optim.Adadelta", "adadelta", {**_COMMON, **_same("rho", "eps")}, _same("square_avg", "acc_delta")
        ),
        TorchOptimizer(
            "torch.optim.RMSprop",
            "rmsprop",
            {**_COMMON, **_same("alpha", "eps", "momentum", "centered")},
            _same("square_avg", "momentum_buffer", "grad_avg"),
        ),
        TorchOptimizer(
            "torch.optim.Rprop",
            "rprop",
            {**_same("lr", "maximize"), "etas": ("eta_minus", "eta_plus"), "step_sizes": ("step_min", "step_max")},
            _same("prev", "step_size"),
        ),
        TorchOptimizer(
            "torch.optim.ASGD",
            "asgd",
            {**_COMMON, **_same("lambd", "alpha", "t0")},
            _same("eta", "mu", "ax"),
            ("capturable", "foreach"),
        ),
        TorchOptimizer(
            "torch.optim.Adafactor",
            "adafactor",
            {**_COMMON, **_EPSILONS, **_same("beta2_decay", "d")},
            _same("row_var", "col_var", "variance"),
        ),
        TorchOptimizer(
            "torch.optim.Muon",
            "muon",
            {
                **_same("lr", "weight_decay", "momentum", "nesterov", "ns_coefficients", "ns_steps", "eps"),
                "adjust_lr_fn": "adjust_lr",
            },
            _same("momentum_buffer"),
        ),
        TorchOptimizer(
            "transformers.optimization.Adafactor",
            "adafactor_relative",
            {
                **_same("lr", "weight_decay", "clip_threshold", "decay_rate", "beta1", "scale_parameter"),
                **_same("relative_step", "warmup_init"),
                **_EPSILONS,
            },
            _same("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq", "exp_avg", "RMS"),
            computes=_wide,
        ),
    )
}


def torch_optimizer(path: str) -> TorchOptimizer:
    """The entry of a class, named by module and class."""
    name = path.rpartition(".")[2]
    public = f"torch.optim.{name}" if path.startswith("torch.optim.") else path
    if public in TORCH_OPTIMIZERS:
        return TORCH_OPTIMIZERS[public]
    reason = REFUSED.get(name.lower(), "its rule is not in the table")
    raise UsageError(f"optimizer {path}: {reason}; there are {', '.join(TORCH_OPTIMIZERS)}")


def record_of(named: TorchOptimizer) -> Optimizer:
    """The record that a class follows."""
    return OPTIMIZERS[named.record]


def hyper_of(named: TorchOptimizer, group: Numbers, parameter: str, scalars: str | None = None) -> dict[str, Any]:
    """The hyper-parameters of a param_group, for a parameter of this format, its step count a tensor of format `scalars`.

    What a key does not say has the record's default: groups of older versions lack the younger flags.
    """
    found: dict[str, Any] = {}
    for key, name in named.hyper.items():
        if key not in group or (group[key] is None and key == "adjust_lr_fn"):
            continue
        if isinstance(name, str):
            found[name] = group[key]
        else:
            values = tuple(group[key])
            if len(values) != len(name):
                raise InputError(
                    f"{named.path}: {key} of a group has {len(values)} values, expected {len(name)}: {', '.join(name)}"
                )
            found.update(zip(name, values, strict=True))
    if found.get("eps1", 0.0) is None:
        found["eps1"] = 2 * format_named(parameter).unit
    if named.tensors:
        rate = group.get("lr_format")  # a rate that is a tensor: what is computed with it is rounded as it is
        known = [name for name in (scalars, rate) if name is not None]
        found["scalars"] = min(known, key=lambda name: FORMATS[name].precision, default=None)
        found["tensors"] = rate is not None or any(group.get(flag) for flag in named.tensors)
    return record_of(named).settings(found)


def count_of(state: Mapping[str, Any]) -> int:
    """Which step comes next, by the state before it: 1 without any, or where the class does not count."""
    return int(state.get(STEP, 0)) + 1


def state_of(named: TorchOptimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a parameter under the record's names, without the step count; what the class does not have is refused."""
    unknown = [key for key in state if key != STEP and key not in named.state]
    if unknown:
        raise InputError(f"{named.path} has no state {', '.join(unknown)}; it has {', '.join((STEP, *named.state))}")
    return {named.state[key]: value for key, value in state.items() if key != STEP and value is not None}

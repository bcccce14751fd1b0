"""Real steps of torch, recorded: what each parameter, its gradient and its state were before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from backproof.optim import Optimizer
from backproof.optim.derive import Derived, Formats, derive, first_state
from backproof.optim.torch_names import count_of, hyper_of, record_of, state_of, torch_optimizer

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Recorded:
    """One parameter through one step."""

    optimizer: Optimizer
    hyper: dict[str, Any]
    t: int
    format: str
    gradient: np.ndarray[Any, Any]
    before: np.ndarray[Any, Any]
    after: np.ndarray[Any, Any]
    old: dict[str, np.ndarray[Any, Any]]
    new: dict[str, np.ndarray[Any, Any]]
    formats: Formats

    @property
    def claimed(self) -> dict[str, np.ndarray[Any, Any]]:
        """The update and the new state, as torch has them."""
        return {"update": self.after - self.before, **self.new}

    def derived(self, **changes: Any) -> dict[str, Derived]:
        """The same from our formula; changes are of hyper-parameters, the step count, the gradient or the old state."""
        given = {"gradient": self.gradient, "t": self.t, "old": self.old, "before": self.before}
        given.update({name: changes.pop(name) for name in list(changes) if name in given})
        hyper = {**self.hyper, **changes}
        return derive(self.optimizer, given["gradient"], given["before"], given["old"], hyper, given["t"], self.formats)


def numbers(x: Any) -> np.ndarray[Any, Any]:
    """A tensor or number as float64."""
    return np.array(x.detach().double().numpy() if isinstance(x, torch.Tensor) else x, dtype=np.float64)


def path_of(optimizer: torch.optim.Optimizer) -> str:
    cls = type(optimizer)
    return f"{cls.__module__}.{cls.__qualname__}"


def parameters(rng: np.random.Generator, shapes: list[tuple[int, ...]], fmt: str) -> list[torch.Tensor]:
    return [torch.tensor(rng.normal(size=shape), dtype=DTYPES[fmt]) for shape in shapes]


def record(
    optimizer: torch.optim.Optimizer, rng: np.random.Generator, steps: int, spread: float = 3.0
) -> Iterator[Recorded]:
    """Real steps on gradients of sizes from 10⁻³ to 1, some of them exactly 0."""
    named = torch_optimizer(path_of(optimizer))
    for t in range(1, steps + 1):
        for group in optimizer.param_groups:
            for p in group["params"]:
                size = 10.0 ** -rng.uniform(0, spread, size=p.shape) * (rng.random(p.shape) > 0.1)
                p.grad = torch.tensor(rng.normal(size=p.shape) * size, dtype=p.dtype)
        before = {p: (numbers(p), snapshot(optimizer, p)) for group in optimizer.param_groups for p in group["params"]}
        optimizer.step()
        for group in optimizer.param_groups:
            for p in group["params"]:
                value, old = before[p]
                fmt, shape = NAMES[p.dtype], tuple(p.shape)
                formats, scalars = formats_of(optimizer, p)
                hyper = hyper_of(named, group, fmt, scalars)
                rule = record_of(named)
                fields = {field.name for field in rule.state_fields(hyper, shape)}
                held = first_state(rule, shape, hyper, fmt)
                held.update({name: x for name, x in state_of(named, old).items() if name in fields})
                new = {name: x for name, x in state_of(named, snapshot(optimizer, p)).items() if name in fields}
                assert count_of(old) == t or "step" not in optimizer.state[p]
                yield Recorded(rule, hyper, t, fmt, numbers(p.grad), value, numbers(p), held, new, formats)


def formats_of(optimizer: torch.optim.Optimizer, p: torch.Tensor) -> tuple[Formats, str | None]:
    """What a step is computed, summed and stored in, and its count; sums of 16 bits are accumulated in float32."""
    fmt, step = NAMES[p.dtype], optimizer.state[p].get("step")
    computing = torch_optimizer(path_of(optimizer)).computes(fmt)
    scalars = NAMES[step.dtype] if isinstance(step, torch.Tensor) else None
    sums = "float32" if computing in ("bfloat16", "float16") else None
    return Formats(computing, sums, fmt if fmt != computing else None), scalars


def snapshot(optimizer: torch.optim.Optimizer, p: torch.Tensor) -> dict[str, Any]:
    """A parameter's state as numbers, now."""
    return {name: numbers(value) for name, value in optimizer.state[p].items() if value is not None}


def ratio(claimed: np.ndarray[Any, Any], derived: Derived) -> float:
    """max |claimed − derived|/bound; 0/0 is 0."""
    off = abs(claimed - derived.value)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(off == 0, 0.0, off / derived.certain)
    return float(np.max(found, initial=0.0))


def slope(claimed: np.ndarray[Any, Any], derived: np.ndarray[Any, Any]) -> float:
    """⟨claimed, derived⟩/⟨derived, derived⟩ − 1."""
    return float(np.vdot(claimed, derived) / np.vdot(derived, derived) - 1.0)

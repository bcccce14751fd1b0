"""An optimizer's step, observed: parameters, gradients and state as it finds them and as it leaves them."""

from __future__ import annotations

from typing import Any

import torch

from backproof.adapters.torch.encode import dtype_name, encode, is_written, numbers_of
from backproof.adapters.torch.handling import Handling
from backproof.adapters.torch.values import Values
from backproof.errors import UsageError
from backproof.trace.step import Update


class Updates:
    """The optimizer steps of one step."""

    def __init__(self, values: Values, handling: Handling) -> None:
        self.values = values
        self.handling = handling
        self.found: list[Update] = []
        self.counts: dict[int, int] = {}
        """How many updates each optimizer had made before this step."""
        self.claimed: dict[int, str] = {}
        """The class that an optimizer is claimed to be."""
        self._which = 0

    def before(self, optimizer: torch.optim.Optimizer, which: int = 0) -> None:
        """Parameters, gradients and state, as the optimizer finds them."""
        self.handling.settle(closely=True)
        self.handling.add("update", "", {}, update=len(self.found), values=len(self.values.found))
        self._which = which
        for parameter in parameters_of(optimizer):
            for written in (parameter, *filter(torch.is_tensor, optimizer.state.get(parameter, {}).values())):
                self.values.keep(written)
        self._snapshot(optimizer, "before")

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Parameters and state, as the optimizer leaves them; and its configuration."""
        names = {id(p): self._name(p, i) for i, p in enumerate(parameters_of(optimizer))}
        grads = {name: self.handling.value_of(name) for name in names.values()}
        state = self._snapshot(optimizer, "after")
        groups = [
            {
                **{key: self._said(item) for key, item in group.items() if key != "params"},
                **{f"{key}_format": dtype_name(item.dtype) for key, item in group.items() if torch.is_tensor(item)},
                "params": [names[id(p)] for p in group["params"]],
            }
            for group in optimizer.param_groups
        ]
        before = self.counts.get(self._which, 0) + sum(update.which == self._which for update in self.found)
        claimed = self.claimed.get(self._which, "")
        given = _told(optimizer)
        self.found.append(Update(class_of(optimizer), groups, state, grads, self._which, before, given, claimed))
        self.values.renew(parameters_of(optimizer))
        found = self.handling.look()
        if found:
            self.handling.add("step", "", found, update=len(self.found) - 1)

    def _said(self, item: Any) -> Any:
        """A number of a group; one that is kept as a tensor is that number."""
        if isinstance(item, torch.Tensor) and item.numel() == 1:
            return encode(item.item(), self.values.number)
        return encode(item, self.values.number)

    def _name(self, parameter: torch.Tensor, place: int) -> str:
        return self.values.names.get(id(parameter), f"unnamed.{place}")

    def _snapshot(self, optimizer: torch.optim.Optimizer, when: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        numbers, update = self.values.numbers, len(self.found)
        for i, parameter in enumerate(parameters_of(optimizer)):
            name = self._name(parameter, i)
            if not is_written(parameter):
                continue
            numbers[f"u{update}:{when}:parameter:{name}"] = numbers_of(parameter).clone()
            for key, item in optimizer.state.get(parameter, {}).items():
                if isinstance(item, (torch.Tensor, int, float)) and not isinstance(item, bool):
                    numbers[f"u{update}:{when}:{key}:{name}"] = _tensor(item)
                    found.setdefault(name, []).append(key)
        return found


def class_of(optimizer: torch.optim.Optimizer) -> str:
    """Module and class."""
    kind = type(optimizer)
    return f"{kind.__module__}.{kind.__qualname__}"


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Every parameter that an optimizer has, in its order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _told(optimizer: torch.optim.Optimizer) -> dict[str, float]:
    """What a loss scaler has told a fused optimizer, which unscales by itself."""
    found = {name: getattr(optimizer, name, None) for name in ("grad_scale", "found_inf")}
    return {name: float(item) for name, item in found.items() if isinstance(item, torch.Tensor)}


def _tensor(item: Any) -> torch.Tensor:
    return numbers_of(item).clone() if isinstance(item, torch.Tensor) else torch.tensor(item, dtype=torch.float64)


def plain_optimizer(optimizer: Any) -> torch.optim.Optimizer:
    """The optimizer inside of what wraps it."""
    inner = getattr(optimizer, "optimizer", None)
    if isinstance(inner, torch.optim.Optimizer):
        return plain_optimizer(inner)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(f"a {type(optimizer).__name__} was given as an optimizer, which is a torch.optim.Optimizer")
    return optimizer

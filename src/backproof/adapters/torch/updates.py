"""An optimizer's step, observed: parameters, gradients and state as it finds them and as it leaves them."""

from __future__ import annotations

from typing import Any

import torch

from backproof.adapters.torch.encode import encode
from backproof.adapters.torch.values import Values
from backproof.trace.step import Update


class Updates:
    """The optimizer steps of one step."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.found: list[Update] = []

    def before(self, optimizer: torch.optim.Optimizer) -> None:
        """Parameters, gradients and state, as the optimizer finds them."""
        for parameter in _parameters(optimizer):
            self.values.keep(parameter)
        self._snapshot(optimizer, "before")

    def after(self, optimizer: torch.optim.Optimizer) -> None:
        """Parameters and state, as the optimizer leaves them; and its configuration."""
        state = self._snapshot(optimizer, "after")
        groups = [
            {
                **{key: encode(item, self.values.number) for key, item in group.items() if key != "params"},
                "params": [self._name(p, i) for i, p in enumerate(group["params"])],
            }
            for group in optimizer.param_groups
        ]
        kind = type(optimizer)
        self.found.append(Update(f"{kind.__module__}.{kind.__qualname__}", groups, state))

    def _name(self, parameter: torch.Tensor, place: int) -> str:
        return self.values.names.get(id(parameter), f"unnamed.{place}")

    def _snapshot(self, optimizer: torch.optim.Optimizer, when: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        numbers, update = self.values.numbers, len(self.found)
        for i, parameter in enumerate(_parameters(optimizer)):
            name = self._name(parameter, i)
            numbers[f"u{update}:{when}:parameter:{name}"] = parameter.detach().clone()
            if when == "before" and parameter.grad is not None:
                numbers[f"u{update}:{when}:gradient:{name}"] = parameter.grad.detach().clone()
            for key, item in optimizer.state.get(parameter, {}).items():
                if isinstance(item, (torch.Tensor, int, float)) and not isinstance(item, bool):
                    numbers[f"u{update}:{when}:{key}:{name}"] = _tensor(item)
                    found.setdefault(name, []).append(key)
        return found


def _tensor(item: Any) -> torch.Tensor:
    return item.detach().clone() if isinstance(item, torch.Tensor) else torch.tensor(item, dtype=torch.float64)


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]

"""Learning rate schedulers, watched: each step of one is an event, with what every group had before it and after."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from backproof.adapters.torch.encode import dtype_name, encode
from backproof.adapters.torch.updates import plain_optimizer
from backproof.trace.handling import Scheduled

NUMBERS = (
    *("lr", "momentum", "initial_lr", "max_lr", "min_lr", "swa_lr"),
    *("max_momentum", "base_momentum"),
)


class Schedules:
    """The schedulers of a run, until `close`."""

    def __init__(
        self, schedulers: Sequence[Any], optimizers: Sequence[torch.optim.Optimizer], counts: dict[int, int]
    ) -> None:
        self.schedulers: list[Any] = []
        self.optimizers = optimizers
        self.counts = counts
        self.events: list[Scheduled] = []
        """Since they were last taken."""
        self._undo: list[Callable[[], None]] = []
        self._numbers: dict[int, int] = {}
        self.also(schedulers)

    def also(self, schedulers: Sequence[Any]) -> None:
        """Watch these too."""
        for scheduler in map(_plain, schedulers):
            if any(scheduler is known for known in self.schedulers):
                continue
            number = self._numbers[id(scheduler)] = len(self.schedulers)
            if not any(type(known) is type(scheduler) for known in self.schedulers):
                self._watch(type(scheduler))
            self.schedulers.append(scheduler)
            if _count(scheduler) == 0:
                now = _numbers(scheduler.optimizer)
                before = [{**group, "lr": group.get("initial_lr", group["lr"])} for group in now]
                self._add(number, scheduler, config_of(scheduler), before, 0, None)

    @property
    def rates(self) -> dict[str, list[float]]:
        """For each optimizer that has a scheduler, the rates of its groups as they are now."""
        found = {}
        for scheduler in self.schedulers:
            which = self._which(scheduler)
            found[str(which)] = [float(group["lr"]) for group in scheduler.optimizer.param_groups]
        return found

    def take(self) -> list[Scheduled]:
        """The events since the last time."""
        found, self.events = self.events, []
        return found

    def close(self) -> None:
        """Watch no longer."""
        while self._undo:
            self._undo.pop()()

    def _watch(self, kind: type) -> None:
        """See the steps of the schedulers of this class: those of others pass through."""
        original, own = kind.step, "step" in vars(kind)  # type: ignore[attr-defined] # every scheduler has one
        numbers = self._numbers

        @functools.wraps(original)
        def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            number = numbers.get(id(scheduler))
            if number is None:
                return original(scheduler, *args, **kwargs)
            config, before, since = config_of(scheduler), _numbers(scheduler.optimizer), _count(scheduler)
            result = original(scheduler, *args, **kwargs)
            told = args[0] if args else kwargs.get("metrics", kwargs.get("epoch"))
            self._add(number, scheduler, config, before, since, None if told is None else float(told))
            return result

        def undo() -> None:
            if vars(kind).get("step") is step:
                if own:
                    kind.step = original  # type: ignore[attr-defined] # as above
                else:
                    del kind.step  # type: ignore[attr-defined] # as above

        kind.step = step  # type: ignore[attr-defined] # as above
        self._undo.append(undo)

    def _add(
        self,
        number: int,
        scheduler: Any,
        config: dict[str, Any],
        before: list[dict[str, float]],
        since: int,
        metric: float | None,
    ) -> None:
        which = self._which(scheduler)
        after = _numbers(scheduler.optimizer)
        k = _count(scheduler)
        updates = self.counts.get(which, 0)
        self.events.append(Scheduled(number, which, config, k, tuple(before), tuple(after), metric, updates, since))

    def _which(self, scheduler: Any) -> int:
        plain = plain_optimizer(scheduler.optimizer)
        return next((i for i, each in enumerate(self.optimizers) if each is plain), -1)


def _plain(scheduler: Any) -> Any:
    """The scheduler inside of what wraps it."""
    inner = getattr(scheduler, "scheduler", None)
    return scheduler if inner is None or not hasattr(inner, "step") else _plain(inner)


def _count(scheduler: Any) -> int:
    """How many steps a scheduler has made."""
    if hasattr(scheduler, "last_epoch"):
        return int(scheduler.last_epoch)
    return max((_count(member) for member in getattr(scheduler, "_schedulers", ())), default=0)


def _numbers(optimizer: torch.optim.Optimizer) -> list[dict[str, float]]:
    found = []
    for group in optimizer.param_groups:
        numbers = {
            name: float(group[name]) for name in NUMBERS if isinstance(group.get(name), (int, float, torch.Tensor))
        }
        if "betas" in group:
            numbers["beta1"] = float(group["betas"][0])
        found.append(numbers)
    return found


def config_of(scheduler: Any) -> dict[str, Any]:
    """A scheduler's configuration, with the names that its state leaves out."""
    state = {key: _said(item) for key, item in scheduler.state_dict().items() if key != "_schedulers"}
    found = {"class": type(scheduler).__name__, **state}
    formats = [dtype_name(rate.dtype) for rate in _rates(scheduler) if isinstance(rate, torch.Tensor)]
    if formats:
        found["lr_format"] = formats[0]
    if hasattr(scheduler, "_schedulers"):
        found["_schedulers"] = [config_of(member) for member in scheduler._schedulers]  # noqa: SLF001 # it has no other name
    if hasattr(scheduler, "milestones") and isinstance(state.get("milestones"), dict):
        found["milestones"] = sorted(scheduler.milestones.elements())
    if hasattr(scheduler, "lr_lambdas"):
        found["lambdas"] = [_function(function) for function in scheduler.lr_lambdas]
    if type(scheduler).__name__ == "CyclicLR" and getattr(scheduler, "_scale_fn_custom", None) is not None:
        found["own_scale"] = True
    return found


def _rates(scheduler: Any) -> list[Any]:
    return [group["lr"] for group in getattr(getattr(scheduler, "optimizer", None), "param_groups", ())]


def _function(function: Any) -> dict[str, Any]:
    keywords = {key: _said(item) for key, item in getattr(function, "keywords", {}).items()}
    return {"function": getattr(getattr(function, "func", function), "__name__", None), **keywords}


def _said(item: Any) -> Any:
    """A part of a configuration as data."""
    return encode(_held(item), lambda tensor: -1)


def _held(item: Any) -> Any:
    """The same with numbers for tensors that hold one: so a rate may be kept."""
    if isinstance(item, torch.Tensor) and item.numel() == 1:
        return item.item()
    if isinstance(item, (list, tuple)):
        return [_held(part) for part in item]
    return {key: _held(part) for key, part in item.items()} if isinstance(item, dict) else item

"""Steps of a run, one after the other: what is watched from the first to the last, and what only while a step is observed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from threading import get_ident
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

import torch

from backproof.adapters.torch.claims import Claims, inside_of_compiled
from backproof.adapters.torch.facts import facts_of, wrapper_of
from backproof.adapters.torch.functions import watching_functions
from backproof.adapters.torch.modes import leave_mode, only_here
from backproof.adapters.torch.observe import Observer
from backproof.adapters.torch.schedules import Schedules
from backproof.adapters.torch.updates import parameters_of, plain_optimizer
from backproof.errors import UsageError

Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None


class Stepping:
    """A model with its optimizers and schedulers, through the steps of a run."""

    def __init__(self, model: torch.nn.Module, optimizer: Optimizers = None, scheduler: Any = None) -> None:
        if not isinstance(model, torch.nn.Module):
            raise UsageError(f"a {type(model).__name__} was given as the model, which is a torch.nn.Module")
        self.model = model
        self.claims = Claims(model)
        self.optimizers = [plain_optimizer(each) for each in _listed(optimizer)]
        self.counts = dict.fromkeys(range(len(self.optimizers)), 0)
        """How many updates each optimizer has made."""
        self.schedules = Schedules(_listed(scheduler), self.optimizers, self.counts)
        self.intended: list[str] = []
        self.claimed: dict[int, str] = {}
        self.more: dict[str, Any] = {"fresh": not any(optimizer.state for optimizer in self.optimizers)}
        """Facts of the run."""
        self.observer: Observer | None = None
        self._used: dict[str, tuple[ReferenceType[torch.Tensor], int]] = {}
        """The gradients that updates have followed, and how often they had been changed by then."""
        self._names: dict[int, str] = {}
        self._updating: dict[int, FrameType] = {}
        """The call of each optimizer's `step` that goes on."""
        self._stack = ExitStack()
        self._always = ExitStack()
        self.updated: Callable[[int], None] = lambda which: None
        """Is told of every update, when it is made."""
        self.first: Callable[[], None] | None = None
        """Is told of the first update, before it is made."""
        for which, each in enumerate(self.optimizers):
            self._always.callback(each.register_step_pre_hook(partial(self._before, which)).remove)
            self._always.callback(each.register_step_post_hook(partial(self._after, which)).remove)

    # ── a step ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, index: int) -> Observer:
        """Observe what happens from here on."""
        if self.observer is not None:
            raise UsageError("a step is being recorded already: steps cannot lie in each other")
        observer = self.observer = Observer(self.model, index)
        only_here(observer)
        self._name(observer)
        observer.updates.counts = dict(self.counts)
        observer.updates.claimed = self.claimed
        observer.facts = {
            **facts_of(self.model, self.optimizers, observer.values.names),
            **self.more,
            "intended": list(self.intended),
            "rates": self.schedules.rates,
            "idle": [],
            "wrapped_calls": 0,
            "inner_calls": 0,
        }
        stack = self._stack = ExitStack()
        wrapper = wrapper_of(self.model)
        if wrapper is not None:
            self._wrapped(observer, wrapper)
        hidden = inside_of_compiled(self.model)
        for name, module in self.model.named_modules():
            if name in hidden:
                continue
            observer.modules.before(module, partial(_enter, observer, name))
            observer.modules.after(module, partial(_leave, observer))
            if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:  # noqa: SLF001 # what all of them are
                observer.modules.before(module, partial(_idle, observer, name))
        observer.modules.on()
        stack.callback(observer.modules.off)
        stack.callback(observer.gradients.close)
        stack.enter_context(watching_functions(observer))
        stack.enter_context(self.claims.watching(observer))
        observer.handling.start(self._used)
        observer.__enter__()  # type: ignore[no-untyped-call] # torch says no more
        return observer

    def end(self) -> Observer:
        """Observe no longer; what was seen."""
        observer = self._left()
        observer.handling.settle()
        observer.values.leave()
        observer.saved.settle()
        observer.scheduled = self.schedules.take()
        return observer

    def drop(self) -> None:
        """Observe no longer, and forget it."""
        if self.observer is not None:
            self._left()

    def skip(self) -> None:
        """A step that is not observed."""
        self.more.pop("resumed", None)

    def close(self) -> None:
        """Leave nothing behind."""
        self.drop()
        self.schedules.close()
        self._always.close()

    def _left(self) -> Observer:
        observer = self.observer
        assert observer is not None  # it began
        self.observer = None
        leave_mode(observer)
        self._stack.close()
        self.more.pop("resumed", None)
        self.more["fresh"] = self.more["fresh"] and not any(self.counts.values())
        return observer

    def _name(self, observer: Observer) -> None:
        """Parameters that an optimizer has and the model does not, by their place in it."""
        names = observer.values.names
        for which, optimizer in enumerate(self.optimizers):
            for number, group in enumerate(optimizer.param_groups):
                for place, parameter in enumerate(group["params"]):
                    if id(parameter) not in names:
                        names[id(parameter)] = f"optimizer{which}.group{number}.{place}"
                        observer.values.parameters.add(id(parameter))
                        observer.handling.also(names[id(parameter)], parameter)
        self._names = names

    # ── updates ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _before(self, which: int, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        """Before an update; with a closure, the forward and backward pass are inside of it."""
        caller = sys._getframe(1)  # noqa: SLF001 # the frame of `step`, in which the hooks are called before and after
        if _is_around(self._updating.get(which), caller):
            return None  # a step that calls its parent's: one update, from the outer one's configuration
        self._updating[which] = caller
        closure = kwargs.get("closure") or next((each for each in args if callable(each)), None)
        observer = self.observer
        if self.first is not None:
            first_of_all, self.first = self.first, None
            first_of_all()
        if observer is None:
            return None
        if closure is None:
            observer.before_update(optimizer, which)
            return None
        first = [True]

        def observed() -> Any:
            if not first[0]:
                observer.resume()
            result = closure()
            if first[0]:
                observer.before_update(optimizer, which)
            else:
                observer.pause()
            first[0] = False
            return result

        swapped = {id(closure): observed}
        return (
            tuple(swapped.get(id(each), each) for each in args),
            {key: swapped.get(id(each), each) for key, each in kwargs.items()},
        )

    def _after(self, which: int, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """An update was made, observed or not: remember which gradients it followed."""
        if self._updating.get(which) is not sys._getframe(1):  # noqa: SLF001 # see above
            return
        del self._updating[which]
        if self.observer is not None:
            self.observer.after_update(optimizer)
        self.counts[which] += 1
        for parameter in parameters_of(optimizer):
            gradient, name = parameter.grad, self._names.get(id(parameter))
            if gradient is not None and name is not None:
                self._used[name] = ref(gradient), gradient._version  # noqa: SLF001 # there is no other way to ask
        self.updated(which)

    def _wrapped(self, observer: Observer, wrapper: Any) -> None:
        """A data-parallel model: count who is called, and know when gradients are reduced."""
        facts = observer.facts
        facts["wrapped"] = type(wrapper).__name__
        inner = [0]

        def called(key: str, *_: Any) -> None:
            facts[key] += 1
            inner[0] += key == "wrapped_calls"

        def reducing() -> str:
            reduced = bool(inner[0]) and wrapper.require_backward_grad_sync
            inner[0] = 0
            return _way_of(wrapper) if reduced and observer.facts["world"] > 1 else ""

        observer.modules.before(wrapper, partial(called, "wrapped_calls"))
        observer.modules.before(wrapper.module, partial(called, "inner_calls"))
        observer.handling.reducing = reducing
        observer.gradients.copies = True


def _is_around(outer: FrameType | None, frame: FrameType | None) -> bool:
    """Whether a call goes on around another; one that ended with an error does not."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is not None


def _way_of(wrapper: Any) -> str:
    """How a data-parallel model reduces: a mean, unless a hook of another name does it."""
    hooks = [hook for hook, _ in getattr(wrapper, "_comm_hooks", ())]
    names = [getattr(hook, "__name__", type(hook).__name__) for hook in hooks]
    return "mean" if all(name == "allreduce_hook" for name in names) else names[-1]


def _listed(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


def _enter(observer: Observer, name: str, *_: Any) -> None:
    if get_ident() == observer.thread:
        observer.place.append(name)


def _idle(observer: Observer, name: str, module: torch.nn.Module, *_: Any) -> None:
    """A dropout that does nothing."""
    if not module.training and torch.is_grad_enabled():
        observer.facts["idle"].append(name)


def _leave(observer: Observer, *_: Any) -> None:
    if get_ident() == observer.thread and observer.place:
        observer.place.pop()

"""An unchanged script, instrumented: every step of an optimizer is a step, from the one before it on."""

from __future__ import annotations

import functools
import gc
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from backproof.adapters.torch.recorder import Recorder
from backproof.adapters.torch.updates import parameters_of
from backproof.errors import InputError


class Instrument:
    """Finds the models of a script by its optimizers, and records its steps."""

    def __init__(self, out: str | os.PathLike[str], every: int = 1) -> None:
        self.out, self.every = Path(out), every
        self.optimizers: list[torch.optim.Optimizer] = []
        self.recorder: Recorder | None = None
        self._begun = False

    def made(self, optimizer: torch.optim.Optimizer) -> None:
        """The script has made an optimizer."""
        self.optimizers.append(optimizer)
        self._restart()

    def _restart(self) -> None:
        """Record from here on, with every optimizer that there is."""
        count = 0
        if self.recorder is not None:
            count = self.recorder.count
            self.recorder.close()
        models = _models(self.optimizers)
        if not models:
            return
        model = models[0] if len(models) == 1 else torch.nn.ModuleDict({f"model{i}": m for i, m in enumerate(models)})
        self.recorder = Recorder(model, self.optimizers, self.out, every=self.every, resume=count > 0)
        self.recorder.count = count
        self.recorder.stepping.more["resumed"] = False
        self.recorder.stepping.first = self._first
        self.recorder.stepping.updated = lambda which: self._updated()
        self.recorder.begin()

    def _first(self) -> None:
        """Before the first update: the schedulers that the script has made by now."""
        assert self.recorder is not None  # it is its update
        found = _living(torch.optim.lr_scheduler.LRScheduler)
        inner = {id(member) for each in found for member in getattr(each, "_schedulers", ())}
        ours = [each for each in found if id(each) not in inner and getattr(each, "optimizer", None) in self.optimizers]
        self.recorder.stepping.schedules.also(ours)

    def _updated(self) -> None:
        assert self.recorder is not None  # it is its update
        self.recorder.end()
        self.recorder.begin()

    def close(self) -> None:
        """The script has ended; what came after its last update is no step."""
        if self.recorder is not None:
            self.recorder.stepping.drop()
            self.recorder.close()

    @property
    def steps(self) -> int:
        """How many steps were recorded."""
        return len([path for path in self.out.glob("step*") if path.name[4:].isdecimal()])


def _models(optimizers: Sequence[torch.optim.Optimizer]) -> list[torch.nn.Module]:
    """The outermost modules that have these optimizers' parameters."""
    wanted = {id(parameter) for optimizer in optimizers for parameter in parameters_of(optimizer)}
    modules = _living(torch.nn.Module)
    inner = {id(child) for module in modules for child in module.modules() if child is not module}
    outer = [module for module in modules if id(module) not in inner]
    return [module for module in outer if any(id(parameter) in wanted for parameter in module.parameters())]


def _living(kind: type) -> list[Any]:
    """Every object of a class that there is. Asked of its type: some objects answer for themselves, and warn."""
    return [found for found in gc.get_objects() if issubclass(type(found), kind)]


@contextmanager
def instrumented(out: str | os.PathLike[str], every: int = 1) -> Iterator[Instrument]:
    """Every optimizer that is made in here is seen."""
    instrument = Instrument(out, every)
    original = torch.optim.Optimizer.__init__
    making: list[Any] = []

    @functools.wraps(original)
    def made(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        if optimizer not in making:
            making.append(optimizer)
            instrument.made(optimizer)

    torch.optim.Optimizer.__init__ = made  # type: ignore[method-assign, assignment] # put back below
    try:
        yield instrument
    finally:
        torch.optim.Optimizer.__init__ = original  # type: ignore[method-assign] # as it was
        instrument.close()


def run_script(script: str, arguments: Sequence[str], out: str, every: int) -> tuple[int, BaseException | None]:
    """Run a script as Python would, recorded; how many steps there are, and what it raised."""
    path = Path(script)
    if not path.is_file():
        raise InputError(f"{script}: there is no such script")
    if any(Path(out).glob("step*")):
        raise InputError(
            f"{out}: already holds a recorded run; give another folder with --out, so that nothing is lost"
        )
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [script, *arguments], str(path.resolve().parent)
    raised: BaseException | None = None
    try:
        with instrumented(out, every) as instrument:
            try:
                runpy.run_path(script, run_name="__main__")
            except SystemExit as left:
                raised = left if left.code not in (0, None) else None
            except Exception as error:  # noqa: BLE001 # it is the script's own, and shown as Python shows it
                raised = error
    finally:
        sys.argv, sys.path[0] = before
    return instrument.steps, raised

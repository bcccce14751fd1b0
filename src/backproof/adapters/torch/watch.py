"""A sanitizer: every so many steps one is observed and verified where it is; nothing is stored unless it is broken."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import torch

from backproof.adapters.torch.encode import stored
from backproof.adapters.torch.memory import InMemory
from backproof.adapters.torch.observe import Observer
from backproof.adapters.torch.stepping import Optimizers, Stepping
from backproof.errors import BackproofError, UsageError
from backproof.trace.recording import Writer
from backproof.verify.outcome import StepVerdict

OnBroken = str | Callable[[StepVerdict, str], None]
WAYS = ("raise", "warn")


class BrokenStepError(BackproofError):
    """An equation of a watched step does not hold."""

    exit_code = 1

    def __init__(self, message: str, verdict: StepVerdict, path: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.path = path


class Watch:
    """`with bpt.watch(model, optimizer, every=100): ...` around a training loop. A step ends with its optimizer's step."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Optimizers,
        *,
        scheduler: Any = None,
        every: int = 100,
        on_broken: OnBroken = "raise",
        out: str | os.PathLike[str] = "backproof-broken",
    ) -> None:
        if every < 1:
            raise UsageError(f"every={every}: every which step is to be watched; 1 is all of them")
        if on_broken not in WAYS and not callable(on_broken):
            raise UsageError(f"on_broken={on_broken!r}: 'raise', 'warn', or a function of (verdict, path)")
        self.stepping = Stepping(model, optimizer, scheduler)
        if not self.stepping.optimizers:
            raise UsageError("watch needs an optimizer: a step ends with the optimizer's step")
        self.every, self.on_broken, self.out = every, on_broken, Path(out)
        self.count = 0
        """Steps so far."""
        self.watched: list[StepVerdict] = []
        """The verdicts on the steps that were looked at."""

    def __enter__(self) -> Self:
        self.stepping.updated = self._updated
        self.stepping.begin(self.count)
        return self

    def __exit__(self, *_: object) -> None:
        self.stepping.close()

    def _updated(self, which: int) -> None:
        """An update was made; with the last optimizer's the step has ended."""
        if which != len(self.stepping.optimizers) - 1:
            return
        observer = self.stepping.end() if self.stepping.observer is not None else None
        self.count += 1
        if observer is not None:
            self._look(observer)
        if self.count % self.every == 0:
            self.stepping.begin(self.count)
        else:
            self.stepping.skip()

    def _look(self, observer: Observer) -> None:
        step = observer.finish()
        try:
            verdict = _verdict(step, observer)
        except Exception as error:  # noqa: BLE001 # what the checker cannot do must not end a training run
            warnings.warn(f"backproof: step {step.index} could not be verified: {error}", stacklevel=2)
            return
        self.watched.append(verdict)
        if verdict.verdict == "broken":
            path = self._keep(observer, step)
            self._tell(verdict, path)

    def _keep(self, observer: Observer, step: Any) -> str:
        """The step as a folder, for who wants to look into it."""
        self.out.mkdir(parents=True, exist_ok=True)
        number = step.index
        while (self.out / f"step{number:06d}").exists():
            number += 1
        tensors = {name: stored(tensor) for name, tensor in observer.numbers.items()}
        Writer(self.out).write(number, step, tensors, ())
        return str(self.out / f"step{number:06d}")

    def _tell(self, verdict: StepVerdict, path: str) -> None:
        if callable(self.on_broken):
            self.on_broken(verdict, path)
            return
        first = verdict.findings[0]
        why = first.cause or first.because
        message = (
            f"step {verdict.step}: {first.equation} at {first.place} does not hold{f' ({why})' if why else ''}: "
            f"claimed {first.claimed:.9g}, derived {first.derived:.9g}, bound {first.bound:.2g}; "
            f"{len(verdict.broken)} equations of {verdict.counts['checked']} in all. The step is kept in {path}: bp verify {self.out}"
        )
        if self.on_broken == "raise":
            raise BrokenStepError(message, verdict, path)
        warnings.warn(message, stacklevel=2)


def _verdict(step: Any, observer: Observer) -> StepVerdict:
    """A quick look; what does not hold is verified as a whole, and named."""
    from backproof.diagnose.explain import diagnosed
    from backproof.trace.folder import Recorded
    from backproof.verify.step import Options, verify_step

    recorded = Recorded(step, InMemory(observer.numbers))  # type: ignore[arg-type] # it reads like a folder's
    with torch.no_grad():
        verdict = verify_step(recorded, Options(screen=True))
        return diagnosed(verify_step(recorded)) if verdict.verdict == "broken" else verdict

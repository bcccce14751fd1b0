"""The recorder: `with recorder.step(): ...` around a training step writes what happened into a folder."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch

from backproof.adapters.torch.encode import stored
from backproof.adapters.torch.granularity import coarser, granularity_named
from backproof.adapters.torch.observe import Observer
from backproof.adapters.torch.stepping import Optimizers, Stepping
from backproof.adapters.torch.updates import class_of
from backproof.errors import InputError, UsageError
from backproof.optim.torch_names import torch_optimizer
from backproof.trace.recording import Writer


class Recorder:
    """Records the steps of a training run into `out`, one folder each. A step that fails leaves nothing behind.

    `every` is which steps are recorded. `granularity` is how much of them: every call (`op`), what passes from module to module
    (`module`), or leaves and results alone (`ends`). What is not written is derived when the step is verified, within wider bounds.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Optimizers = None,
        out: str | os.PathLike[str] = "run",
        *,
        scheduler: Any = None,
        every: int = 1,
        granularity: str = "op",
        resume: bool = False,
    ) -> None:
        self.granularity = granularity_named(granularity)
        if every < 1:
            raise UsageError(f"every={every}: every which step is to be recorded; 1 is all of them")
        self.out, self.every = Path(out), every
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.out}: no run can be recorded there: {error.strerror}") from None
        self.count = self._first(resume=resume)
        self.stepping = Stepping(model, optimizer, scheduler)
        self.stepping.more.update({"every": every, "resumed": resume and self.count > 0})
        self._writer = Writer(self.out)
        self._writing: threading.Thread | None = None
        self._failed: list[BaseException] = []
        self._closed = False

    def _first(self, *, resume: bool) -> int:
        """The number of the first step: 0, or the one after the last that was recorded."""
        numbers = [int(path.name[4:]) for path in self.out.glob("step*") if path.name[4:].isdecimal()]
        if not resume and any(self.out.glob("step*")):
            raise InputError(
                f"{self.out}: already holds a recorded run; give another folder, so that nothing is lost, "
                "or resume=True, to go on with it"
            )
        for half in self.out.glob("step*.part"):
            shutil.rmtree(half)
        return max(numbers) + 1 if numbers else 0

    # ── what the user says ──────────────────────────────────────────────────────────────────────────────────────────

    def intend(self, practice: str) -> None:
        """Say that a practice is meant: it is recorded, and shown as said."""
        from backproof.verify.practices import practice_named

        self.stepping.intended.append(practice_named(practice).name)

    def claim(self, pattern: str, meaning: torch.nn.Module | Callable[..., Any]) -> None:
        """Say what the modules of a pattern (`h.*.ln`) are meant to be: they are judged by that, and not by their own Python.

        The meaning is a module with the same parameters, `torch.nn.LayerNorm(384, eps=1e-5)`, or a function of the module and its
        inputs, `lambda m, x: F.layer_norm(x, (384,), m.gamma, m.beta)`. A claim that matches nothing is an error.
        """
        self.stepping.claims.add(pattern, meaning)

    def claim_optimizer(self, optimizer: torch.optim.Optimizer, rule: type | str) -> None:
        """Say which class's rule an optimizer follows; its updates are then judged by that."""
        name = rule if isinstance(rule, str) else f"{rule.__module__}.{rule.__qualname__}"
        which = next((i for i, each in enumerate(self.stepping.optimizers) if each is optimizer), None)
        if which is None:
            raise UsageError(f"{class_of(optimizer)}: this optimizer was not given to the recorder")
        torch_optimizer(name)  # refuses what has no rule here
        self.stepping.claimed[which] = name

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def step(self) -> Iterator[Observer | None]:
        """One training step: all that is called inside belongs to it."""
        observer = self.begin()
        try:
            yield observer
        except BaseException:
            self.stepping.drop()
            raise
        self.end()

    def begin(self) -> Observer | None:
        """A step begins; None if it is one that is not recorded. `step` does this and `end` for you."""
        if self._closed:
            raise UsageError("the recorder is closed; a new one with resume=True goes on in the same folder")
        self._wait()  # what the last step left is still being written from the very tensors that this one will change
        if self.count % self.every:
            self.stepping.skip()
            return None
        return self.stepping.begin(self.count)

    def end(self) -> None:
        """A step ends."""
        if self.stepping.observer is not None:
            observer = self.stepping.end()
            self._writing = threading.Thread(target=self._write, args=(self.count, observer), daemon=False)
            self._writing.start()
        self.count += 1

    def _write(self, number: int, observer: Observer) -> None:
        try:
            step = coarser(observer.finish(), observer.numbers, self.granularity)
            named = {f"v{value.id}" for value in step.values.values() if value.name}
            lasting = {name for name in observer.numbers if name in named or name.startswith("u")}
            tensors = {name: stored(tensor) for name, tensor in observer.numbers.items()}
            self._writer.write(number, step, tensors, lasting)
        except BaseException as error:  # noqa: BLE001 # it is raised again where the user is
            self._failed.append(error)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._failed:
            raise self._failed.pop()

    def close(self) -> None:
        """Wait until all is written; no step is recorded after that."""
        self._closed = True
        self.stepping.close()
        self._wait()
        if self.count:
            self.stepping.claims.check_all_ran()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

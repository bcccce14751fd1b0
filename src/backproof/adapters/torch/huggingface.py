"""Callbacks for the Trainer of Hugging Face transformers."""

from __future__ import annotations

import os
from typing import Any

from transformers import TrainerCallback

from backproof.adapters.torch.loops import Prepare, Recording, Watching
from backproof.adapters.torch.watch import OnBroken


def _of(given: dict[str, Any]) -> tuple[Any, list[Any], list[Any]]:
    """The model, the optimizers and the schedulers that a callback is given."""
    return given["model"], [given["optimizer"]], [given["lr_scheduler"]]


class RecorderCallback(TrainerCallback):
    """Records every step of an update, with the backward passes that it accumulates: `Trainer(..., callbacks=[RecorderCallback("run")])`.

    `prepare` is given the recorder before the first step, for `claim` and `intend`. Training that is resumed goes on in the same folder.
    """

    def __init__(self, out: str | os.PathLike[str] = "run", *, every: int = 1, prepare: Prepare | None = None) -> None:
        self._steps = Recording(out, every, prepare)

    def on_train_begin(self, *told: Any, **given: Any) -> None:
        """Training starts."""
        _, state, *_ = told
        self._steps.start(*_of(given), resume=state.global_step > 0)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """An update begins, with the first of its backward passes."""
        self._steps.begin()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """The update was made, and the schedule has moved on."""
        self._steps.end()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Wait until all is written."""
        self._steps.close()


class WatchCallback(TrainerCallback):
    """Verifies every so many steps where they are, as `backproof.torch.watch` does; nothing is stored unless one is broken."""

    def __init__(
        self, *, every: int = 100, on_broken: OnBroken = "raise", out: str | os.PathLike[str] = "backproof-broken"
    ) -> None:
        self._steps = Watching(every, on_broken, out)

    def on_train_begin(self, *_: Any, **given: Any) -> None:
        """Training starts."""
        self._steps.start(*_of(given))

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Watch no longer."""
        self._steps.close()

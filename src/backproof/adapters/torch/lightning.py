"""Callbacks for the Trainer of Lightning."""

from __future__ import annotations

import os
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from backproof.adapters.torch.loops import Prepare, Recording, Watching
from backproof.adapters.torch.watch import OnBroken


def _schedulers(trainer: Trainer) -> list[Any]:
    return [config.scheduler for config in trainer.lr_scheduler_configs]


class RecorderCallback(Callback):
    """Records every step of an update, with the batches that it accumulates: `Trainer(callbacks=[RecorderCallback("run")])`.

    `prepare` is given the recorder before the first step, for `claim` and `intend`. Training that is resumed goes on in the same folder.
    """

    def __init__(self, out: str | os.PathLike[str] = "run", *, every: int = 1, prepare: Prepare | None = None) -> None:
        self._steps = Recording(out, every, prepare)
        self._updates = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Training starts."""
        self._updates = trainer.global_step
        self._steps.start(pl_module, trainer.optimizers, _schedulers(trainer), resume=trainer.global_step > 0)

    def on_train_batch_start(self, *_: Any) -> None:
        """A batch begins: a step, or one more batch of it."""
        self._steps.begin()

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """With the batch that an update followed, the step has ended."""
        if trainer.global_step > self._updates:
            self._updates = trainer.global_step
            self._steps.end()

    def on_exception(self, *_: Any) -> None:
        """Training failed."""
        self._steps.close()

    def on_train_end(self, *_: Any) -> None:
        """Wait until all is written."""
        self._steps.close()


class WatchCallback(Callback):
    """Verifies every so many steps where they are, as `backproof.torch.watch` does; nothing is stored unless one is broken."""

    def __init__(
        self, *, every: int = 100, on_broken: OnBroken = "raise", out: str | os.PathLike[str] = "backproof-broken"
    ) -> None:
        self._steps = Watching(every, on_broken, out)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Training starts."""
        self._steps.start(pl_module, trainer.optimizers, _schedulers(trainer))

    def on_exception(self, *_: Any) -> None:
        """Training failed."""
        self._steps.close()

    def on_train_end(self, *_: Any) -> None:
        """Watch no longer."""
        self._steps.close()

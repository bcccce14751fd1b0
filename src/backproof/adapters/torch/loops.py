"""Training loops of others: what their callbacks share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from backproof.adapters.torch.recorder import Recorder
from backproof.adapters.torch.watch import OnBroken, Watch

Prepare = Callable[[Recorder], None]


class Recording:
    """A recorder that begins when the loop knows its model and optimizer."""

    def __init__(self, out: str | os.PathLike[str], every: int, prepare: Prepare | None) -> None:
        self.out, self.every, self.prepare = out, every, prepare
        self.recorder: Recorder | None = None

    def start(
        self, model: torch.nn.Module, optimizers: Sequence[Any], schedulers: Sequence[Any], *, resume: bool
    ) -> None:
        """Training starts, or goes on."""
        found = [each for each in schedulers if each is not None]
        self.recorder = Recorder(model, list(optimizers), self.out, scheduler=found, every=self.every, resume=resume)
        if self.prepare is not None:
            self.prepare(self.recorder)

    def begin(self) -> None:
        """A step begins, unless the one that has begun was not ended."""
        if self.recorder is not None and self.recorder.stepping.observer is None:
            self.recorder.begin()

    def end(self) -> None:
        """A step has ended."""
        if self.recorder is not None:
            self.recorder.end()

    def drop(self) -> None:
        """Training failed: the step that has begun is forgotten."""
        if self.recorder is not None:
            self.recorder.stepping.drop()

    def close(self) -> None:
        """Training has ended; what has begun is no step."""
        if self.recorder is not None:
            self.recorder.stepping.drop()
            self.recorder.close()


class Watching:
    """A watch that begins when the loop knows its model and optimizer."""

    def __init__(self, every: int, on_broken: OnBroken, out: str | os.PathLike[str]) -> None:
        self.every, self.on_broken, self.out = every, on_broken, out
        self.watch: Watch | None = None

    def start(self, model: torch.nn.Module, optimizers: Sequence[Any], schedulers: Sequence[Any]) -> None:
        """Training starts."""
        found = [each for each in schedulers if each is not None]
        self.watch = Watch(
            model, list(optimizers), scheduler=found, every=self.every, on_broken=self.on_broken, out=self.out
        )
        self.watch.__enter__()

    def close(self) -> None:
        """Training has ended, or failed."""
        if self.watch is not None:
            self.watch.__exit__()
            self.watch = None

"""The recorder: `with recorder.step(): ...` around a training step writes what happened into a folder."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from backproof.adapters.torch.encode import stored
from backproof.adapters.torch.observe import Observer
from backproof.errors import InputError
from backproof.trace.safetensors import write


class Recorder:
    """Records the steps of a training run into `out`, one folder each. A step that fails leaves nothing behind."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        out: str | os.PathLike[str] = "run",
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.out = Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        if any(self.out.glob("step*")):
            raise InputError(f"{self.out}: already holds a recorded run; give another folder, so that nothing is lost")
        self.count = 0
        self._writing: threading.Thread | None = None
        self._failed: list[BaseException] = []

    @contextmanager
    def step(self) -> Iterator[Observer]:
        """One training step: all that is called inside belongs to it."""
        self._wait()  # what the last step left is still being written from the very tensors that this one will change
        observer = Observer(self.model, self.count)
        with ExitStack() as stack:
            for name, module in self.model.named_modules():
                stack.callback(module.register_forward_pre_hook(partial(_enter, observer, name)).remove)
                stack.callback(module.register_forward_hook(partial(_leave, observer), always_call=True).remove)
            if self.optimizer is not None:
                stack.callback(self.optimizer.register_step_pre_hook(_hook(observer.before_update)).remove)
                stack.callback(self.optimizer.register_step_post_hook(_hook(observer.after_update)).remove)
            stack.callback(observer.gradients.close)
            with observer:
                yield observer
        folder = self.out / f"step{self.count:06d}"
        self._writing = threading.Thread(target=self._write, args=(folder, observer), daemon=False)
        self._writing.start()
        self.count += 1

    def _write(self, folder: Path, observer: Observer) -> None:
        partial_folder = folder.with_name(folder.name + ".part")
        try:
            partial_folder.mkdir()
            step = observer.finish()
            write(partial_folder / "tensors.safetensors", {name: stored(t) for name, t in observer.numbers.items()})
            (partial_folder / "step.json").write_text(json.dumps(step.to_json(), ensure_ascii=False), encoding="utf-8")
            partial_folder.rename(folder)
        except BaseException as error:  # noqa: BLE001 # it is raised again where the user is
            shutil.rmtree(partial_folder, ignore_errors=True)
            self._failed.append(error)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.join()
            self._writing = None
        if self._failed:
            raise self._failed.pop()

    def close(self) -> None:
        """Wait until all is written."""
        self._wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _enter(observer: Observer, name: str, *_: Any) -> None:
    observer.place.append(name)


def _leave(observer: Observer, *_: Any) -> None:
    if observer.place:
        observer.place.pop()


def _hook(method: Callable[[torch.optim.Optimizer], None]) -> Any:
    def hook(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        method(optimizer)

    return hook

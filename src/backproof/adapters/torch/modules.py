"""The modules of a model, seen as they run: by hooks that hang on none of them, so that a copy or a file of one has nothing of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as hooks

Told = Callable[[torch.nn.Module], None]


class Modules:
    """What is to be done before and after the modules that are listed; nothing while it is off."""

    def __init__(self) -> None:
        self._before: dict[int, list[Told]] = {}
        self._after: dict[int, list[Told]] = {}
        self._handles: list[Any] = []

    def before(self, module: torch.nn.Module, told: Told) -> None:
        """Be told when this module begins."""
        self._before.setdefault(id(module), []).append(told)

    def after(self, module: torch.nn.Module, told: Told) -> None:
        """Be told when this module has ended, also by an exception."""
        self._after.setdefault(id(module), []).append(told)

    def on(self) -> None:
        """Begin to look."""

        def begins(module: torch.nn.Module, _: Any) -> None:
            for told in self._before.get(id(module), ()):
                told(module)

        def ends(module: torch.nn.Module, *_: Any) -> None:
            for told in self._after.get(id(module), ()):
                told(module)

        self._handles = [
            hooks.register_module_forward_pre_hook(begins),
            hooks.register_module_forward_hook(ends, always_call=True),
        ]

    def off(self) -> bool:
        """Look no longer: a compiler that runs now finds no hook. Whether it was on."""
        looked = bool(self._handles)
        while self._handles:
            self._handles.pop().remove()
        return looked

"""The modules of a model, seen as they run: by hooks that hang on none of them, so that a copy or a file of one has nothing of ours.

And the modules that a function makes use of.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
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


def reached(function: Any) -> torch.nn.ModuleList:
    """The modules that a function is a method of, closes over, or calls by a name of its file."""
    found: dict[int, torch.nn.Module] = {}
    seen: set[int] = set()
    ahead = [function]
    while ahead:
        thing = ahead.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, torch.nn.Module):
            found[id(thing)] = thing
        else:
            ahead += _seen_from(thing)
    return torch.nn.ModuleList(found.values())


def _seen_from(thing: Any) -> list[Any]:
    """What a function may call that is a module, or leads to one."""
    owner, body = getattr(thing, "__self__", None), getattr(thing, "__func__", thing)
    if not isinstance(body, FunctionType):
        return []
    cells = [cell.cell_contents for cell in body.__closure__ or () if _is_filled(cell)]
    known = [body.__globals__.get(name) for name in body.__code__.co_names]
    parts = list(vars(owner).values()) if hasattr(owner, "__dict__") else []
    modules = [item for item in (*cells, *known, *parts, owner) if isinstance(item, torch.nn.Module)]
    return [*modules, *(item for item in cells if callable(item))]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that has no value yet
        return False

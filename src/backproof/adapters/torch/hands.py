"""Functions that are known to change gradients, found on the stack with the numbers they were given; and the user's line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

DEPTH = 12
"""As many frames up as a known function may be from a call that it makes."""


@dataclass(frozen=True)
class Hand:
    """A function that is known to change gradients: by its name, and by the local variables that it must have."""

    kind: str
    needs: tuple[str, ...]
    given: Callable[[dict[str, Any]], dict[str, Any]]


def _clip(names: dict[str, Any]) -> dict[str, Any]:
    norm = names.get("total_norm")
    return {
        "max_norm": float(names["max_norm"]),
        "norm_type": str(float(names["norm_type"])),
        "norm": str(float(norm)) if norm is not None else None,
        "foreach": names.get("foreach"),
    }


HANDS: dict[str, Hand] = {
    "clip_grad_norm_": Hand("clip", ("max_norm", "norm_type", "parameters"), _clip),
    "clip_grad_value_": Hand(
        "clip_value", ("clip_value", "parameters"), lambda names: {"limit": float(names["clip_value"])}
    ),
    "zero_grad": Hand("clear", (), lambda names: {}),
}


def line() -> str:
    """The user's line: the nearest frame that is neither PyTorch's nor of this package."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # who calls is known to the stack alone
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("torch", "backproof", "contextlib"):
            return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def scaler_scale() -> float | None:
    """The scale of the GradScaler that is at work."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 # the same
    for _ in range(DEPTH):
        if frame is None:
            break
        scaler = frame.f_locals.get("self") if frame.f_code.co_name == "unscale_" else None
        if isinstance(scaler, torch.amp.GradScaler):
            return float(scaler.get_scale())
        frame = frame.f_back
    return None


def operation(op: Any) -> str:
    """The name of a reduction; without one it is a sum."""
    return "sum" if op is None else str(op).rpartition(".")[2].lower()


def world() -> int:
    """How many ranks there are."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1

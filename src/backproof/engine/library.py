"""Native libraries: each is built beside what calls it, where there is a C compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Bound = TypeVar("Bound")


def loaded(caller: str, name: str, bound: Callable[[ctypes.CDLL], Bound]) -> Bound | None:
    """The library of this name beside the caller's file, its functions told their arguments; None where it was not built."""
    for path in sorted(Path(caller).parent.glob(f"{name}*")):
        try:
            return bound(ctypes.CDLL(str(path)))
        except OSError:  # one of another platform
            continue
    return None

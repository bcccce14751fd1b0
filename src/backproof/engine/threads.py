"""Threads for what waits for memory or for native code, and not for Python."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


@cache
def threads() -> ThreadPoolExecutor | None:
    """As many as the array library is allowed; None where that is one."""
    from concurrent.futures import ThreadPoolExecutor

    count = allowed()
    return ThreadPoolExecutor(count, "backproof") if count > 1 else None


@cache
def allowed() -> int:
    """How many threads the array library may have, as its users say it; without a word, a few."""
    said = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS", "")
    return min(int(said) if said.isdecimal() else 4, len(os.sched_getaffinity(0)))

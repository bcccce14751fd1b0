"""Threads for what waits for memory or for arithmetic on arrays, which do not hold Python up."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


@cache
def threads(purpose: str) -> ThreadPoolExecutor | None:
    """As many as the array library is allowed; None where that is one.

    Each purpose has threads of its own: work that waited for other work of the same threads could wait for ever.
    """
    from concurrent.futures import ThreadPoolExecutor

    count = allowed()
    return ThreadPoolExecutor(count, f"backproof-{purpose}") if count > 1 else None


@cache
def allowed() -> int:
    """How many threads the array library may have: what its users say, or else one for each processor."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(int(said), there) if said.isdecimal() else there


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads.cache_clear)  # a process that is forked has none of its parent's threads

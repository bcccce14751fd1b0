"""Threads for what waits for memory or for arithmetic on arrays, which do not hold Python up."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Item = TypeVar("Item")
Found = TypeVar("Found")


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


def ahead(purpose: str, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
    """What is made of each item, in order, and not many before they are asked for."""
    pool = threads(purpose)
    if pool is None:
        yield from map(work, items)
        return
    waiting: deque[Future[Found]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > allowed():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@contextmanager
def one_for_each_product() -> Iterator[None]:
    """The array library makes a product by the thread that asks for it, as long as this lasts.

    Its own threads wait for the next product by spinning. Of many small ones that takes the processors from all else that goes on.
    """
    found = _openblas()
    if found is None:
        yield
        return
    ask, tell = found
    before = ask()
    tell(1)
    try:
        yield
    finally:
        tell(before)


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """How OpenBLAS is asked for its number of threads, and told; None where NumPy is linked with something else."""
    import ctypes

    from numpy.linalg import _umath_linalg

    library = ctypes.CDLL(_umath_linalg.__file__)  # it finds what it is linked with as well
    for name in ("scipy_openblas_%s_num_threads64_", "scipy_openblas_%s_num_threads", "openblas_%s_num_threads"):
        if hasattr(library, name % "set"):
            return getattr(library, name % "get"), getattr(library, name % "set")
    return None

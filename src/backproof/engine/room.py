"""Whether a graph's values can be held in this machine's memory, asked before it is too late."""

from __future__ import annotations

import os

from backproof.errors import DomainError
from backproof.ir.graph import Graph


def require_room(graph: Graph, bytes_each: int) -> None:
    """An error when so many bytes for each number of the graph are more than the machine has."""
    needed, there = bytes_each * sum(kind.size for kind in graph.types), _memory()
    if needed <= there:
        return
    value, largest = max(enumerate(graph.types), key=lambda pair: pair[1].size)
    raise DomainError(
        f"the values of this graph need about {_gigabytes(needed)}, and this machine has {_gigabytes(there)}; "
        f"the largest is {graph.name(value)}, {largest}. Record the graph with smaller sizes: what is checked does not depend on them"
    )


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"

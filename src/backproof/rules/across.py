"""Pairs of consecutive records, within a block and over the seam between two blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from backproof.engine.scalar_domain import Positions
from backproof.rules.ball import Ball
from backproof.rules.layout import Layout
from backproof.rules.rule import Equation, Ledger


class Pairs(NamedTuple):
    """Records of a block, each with the record before it."""

    rows: Positions
    earlier: Ledger
    earlier_rows: Positions

    def equation(
        self, said: Positions, source: Callable[[Layout], Positions], because: str, ids: tuple[str, ...]
    ) -> Equation:
        """What is said equals what the record before says at `source`."""
        columns = source(self.earlier.layout)
        held = self.earlier.ball(columns)
        found = Ball(held.mid[self.earlier_rows], held.rad[self.earlier_rows], held.unit)
        return Equation(said, found, because, (columns,), ids, rows=self.rows, earlier=True)


def pairs(ledger: Ledger) -> Iterator[Pairs]:
    """The pairs of a block: over the seam first, then within."""
    if ledger.previous is not None:
        last = ledger.previous.columns.size - 1
        yield Pairs(np.array([0]), ledger.previous, np.array([last]))
    size = ledger.columns.size
    if size > 1:
        yield Pairs(np.arange(1, size), ledger, np.arange(size - 1))

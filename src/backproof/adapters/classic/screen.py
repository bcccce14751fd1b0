"""The screen of imports: the records of a block whose every number clearly agrees, found natively.

It asks for more than the differential does, so that whatever it passes agrees; the differential looks at the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backproof.adapters.classic.differential import Expected, observed_product
from backproof.engine.scalar_domain import Positions
from backproof.receipt.columns import Columns
from backproof.rules.ball import SLACK, Ball
from backproof.rules.observed import roundings
from backproof.verify import native
from backproof.verify.screen import Program
from backproof.verify.tracing import CannotTraceError, TracedBall, TracedBalls, Tracer

BALLS = TracedBalls()


class Agreement:
    """The differential of one shape, for records computed in one format, as a program."""

    def __init__(self, expected: Expected, unit: float) -> None:
        self._unit = unit
        self._tracer = Tracer(len(expected.plan.shape.paths) + 1)
        try:
            checks = [self._derived(expected), self._copied(expected), *self._multiplied(expected)]
        except CannotTraceError:
            self._program = None
        else:
            self._program = Program(self._tracer, checks, unit)

    def passes(self, columns: Columns) -> NDArray[np.bool_]:
        """Which records clearly agree."""
        if self._program is None or columns.exponents is None:
            return np.zeros(columns.size, dtype=np.bool_)
        return self._program.passes(columns.numbers, columns.exponents)

    def _ball(self, columns: Positions) -> TracedBall:
        """Columns as slots of one nameless record; -1 is the last column, which is missing."""
        ids = np.asarray(columns, dtype=np.intp)[None] % self._tracer.columns
        return TracedBall(self._tracer, ids, self._unit)

    def _derived(self, expected: Expected) -> NDArray[np.intp]:
        """Each number beside the one that the engine derives, which shows the rounding of the parameter it moved."""
        plan, (present, said, _) = expected.plan, expected.judged
        found = BALLS.join(list(plan.values(plan.run(BALLS, self._ball), BALLS.join)))[:, present]
        after = expected.moved[present]
        moved = np.flatnonzero(after >= 0)
        wide = found[:, moved].widened((roundings(plan.name) / SLACK) * self._ball(after[moved]))
        return self._pairs(said, BALLS.put(found, moved, wide))

    def _copied(self, expected: Expected) -> NDArray[np.intp]:
        copies, originals, _ = expected.copies
        return self._pairs(copies, self._ball(originals))

    def _multiplied(self, expected: Expected) -> list[NDArray[np.intp]]:
        """Products beside their factors."""
        return [
            self._pairs(said, observed_product(expected.plan, factors, units, self._ball))
            for said, factors, units, _ in expected.products
        ]

    def _pairs(self, said: Positions, found: Ball) -> NDArray[np.intp]:
        assert isinstance(found, TracedBall)
        return np.stack([said.ravel(), found.ids.reshape(said.size)], axis=1)


def agreement(expected: Expected, unit: float) -> Agreement | None:
    """The screen of a shape; None where there is no native code, or where the shape itself disagrees."""
    if native.library() is None or expected.absent or expected.ghosts or expected.mislabelled:
        return None
    return Agreement(expected, unit)

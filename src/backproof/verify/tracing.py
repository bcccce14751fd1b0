"""The equations of a shape as a program: a rule is run once on balls that note what is done to them.

A rule that looks at the numbers themselves, instead of computing with them, cannot be traced: it is run as it is.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from backproof.engine.scalar_activations import Smooth
from backproof.engine.scalar_domain import Positions, log_softmax, softmax
from backproof.rules.ball import Ball, Balls, Reals
from backproof.rules.layout import Layout
from backproof.rules.rule import Ledger

Ids = NDArray[np.intp]


class Op(IntEnum):
    """The operations of screen.c, in its order."""

    CONSTANT = 0
    NEGATE = 1
    ADD = 2
    SUBTRACT = 3
    MULTIPLY = 4
    DIVIDE = 5
    EXP = 6
    LOG = 7
    SQRT = 8
    POWER = 9
    RELU = 10
    STEP = 11
    TOTAL = 12
    SHIFT = 13
    UNLESS_ZERO = 14
    WIDEN = 15


class CannotTraceError(Exception):
    """The rule asks for a number, and a trace has none."""


class Tracer:
    """What was done, node by node. A slot is a column of the shape, or a node after them."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.size = columns  # slots so far
        self.code: list[NDArray[np.int32]] = []
        self.lists: list[NDArray[np.int32]] = []
        self.listed = 0
        self.constants: list[tuple[float, float]] = []
        self._constant_ids: dict[tuple[float, float], int] = {}

    def mark(self) -> tuple[int, int, int, int]:
        """Where the trace stands."""
        return self.size, len(self.code), len(self.lists), self.listed

    def back_to(self, mark: tuple[int, int, int, int]) -> None:
        """Forget what was noted after a mark."""
        self.size, codes, lists, self.listed = mark
        del self.code[codes:], self.lists[lists:]
        self._constant_ids = {pair: place for pair, place in self._constant_ids.items() if place < self.size}

    def note(self, op: Op, a: Ids, b: Ids) -> Ids:
        """One node for each pair of operands."""
        a, b = np.broadcast_arrays(a, b)
        code = np.empty((a.size, 3), dtype=np.int32)
        code[:, 0], code[:, 1], code[:, 2] = op, a.ravel(), b.ravel()
        self.code.append(code)
        ids = np.arange(self.size, self.size + a.size, dtype=np.intp).reshape(a.shape)
        self.size += a.size
        return ids

    def note_many(self, op: Op, operands: Ids) -> Ids:
        """One node for each row of operands along the last axis."""
        count = operands.shape[-1]
        rows = operands.reshape(-1, count)
        offsets = self.listed + count * np.arange(len(rows), dtype=np.intp)
        self.lists.append(rows.ravel().astype(np.int32))
        self.listed += rows.size
        return self.note(op, offsets, np.full(len(rows), count, dtype=np.intp)).reshape(operands.shape[:-1])

    def constant(self, mid: Reals, rad: Reals) -> Ids:
        """Nodes of fixed balls, one for each that is different."""
        mid, rad = np.broadcast_arrays(mid, rad)
        pairs = list(zip(mid.ravel().tolist(), rad.ravel().tolist(), strict=True))
        for pair in pairs:
            if pair not in self._constant_ids:
                place = np.array(len(self.constants), dtype=np.intp)
                self._constant_ids[pair] = int(self.note(Op.CONSTANT, place, np.zeros_like(place)))
                self.constants.append(pair)
        return np.array([self._constant_ids[pair] for pair in pairs], dtype=np.intp).reshape(mid.shape)


class TracedBall(Ball):
    """Balls of one nameless record, as slots."""

    def __init__(self, tracer: Tracer, ids: Ids, unit: float) -> None:
        object.__setattr__(self, "tracer", tracer)
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "unit", unit)

    tracer: Tracer
    ids: Ids

    @property
    def mid(self) -> NoReturn:
        """There are no values."""
        raise CannotTraceError

    rad = mid

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values; one record."""
        return self.ids.shape

    def made(self, ids: Ids) -> TracedBall:
        """Other slots of the same trace."""
        return TracedBall(self.tracer, ids, self.unit)

    def slots(self, other: Ball | float) -> Ids:
        """Another operand as slots."""
        if isinstance(other, TracedBall):
            return other.ids
        if isinstance(other, Ball):
            return self.tracer.constant(other.mid, other.rad)
        return self.tracer.constant(np.asarray(other, dtype=np.float64), np.asarray(0.0))

    def _note(self, op: Op, a: Ids, b: Ids) -> TracedBall:
        return self.made(self.tracer.note(op, a, b))

    def __neg__(self) -> Ball:
        return self._note(Op.NEGATE, self.ids, self.ids)

    def __add__(self, other: Ball | float) -> Ball:
        return self._note(Op.ADD, self.ids, self.slots(other))

    __radd__ = __add__

    def __sub__(self, other: Ball | float) -> Ball:
        return self._note(Op.SUBTRACT, self.ids, self.slots(other))

    def __rsub__(self, other: Ball | float) -> Ball:
        return self._note(Op.SUBTRACT, self.slots(other), self.ids)

    def __mul__(self, other: Ball | float) -> Ball:
        return self._note(Op.MULTIPLY, self.ids, self.slots(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Ball | float) -> Ball:
        return self._note(Op.DIVIDE, self.ids, self.slots(other))

    def __rtruediv__(self, other: Ball | float) -> Ball:
        return self._note(Op.DIVIDE, self.slots(other), self.ids)

    def __getitem__(self, key: Any) -> Ball:
        return self.made(self.ids[key])

    def reshape(self, shape: tuple[int, ...]) -> Ball:
        """The same slots in another shape."""
        return self.made(self.ids.reshape(shape))

    def widened(self, *by: Ball) -> Ball:
        """The same values with a larger radius."""
        ids = self.ids
        for ball in by:
            ids = self.tracer.note(Op.WIDEN, ids, self.slots(ball))
        return self.made(ids)


class TracedBalls(Balls):
    """The functions of the engine's domain, noted."""

    def exp(self, x: Ball) -> Ball:
        """eˣ."""
        return _one(Op.EXP, x)

    def log(self, x: Ball) -> Ball:
        """ln x."""
        return _one(Op.LOG, x)

    def sqrt(self, x: Ball) -> Ball:
        """√x."""
        return _one(Op.SQRT, x)

    def power(self, x: Ball, y: Ball) -> Ball:
        """xʸ."""
        ball = _traced(x, y)
        return ball.made(ball.tracer.note(Op.POWER, ball.slots(x), ball.slots(y)))

    def relu(self, x: Ball) -> Ball:
        """max(x, 0)."""
        return _one(Op.RELU, x)

    def step(self, x: Ball) -> Ball:
        """1 where x > 0, else 0."""
        return _one(Op.STEP, x)

    def total(self, x: Ball, axis: int) -> Ball:
        """The sum along an axis."""
        ball = _traced(x)
        return ball.made(ball.tracer.note_many(Op.TOTAL, np.moveaxis(ball.ids, axis, -1)))

    def shift(self, x: Ball) -> Ball:
        """The largest of the last axis."""
        ball = _traced(x)
        return ball.made(ball.tracer.note_many(Op.SHIFT, ball.ids)[..., None])

    def unless_zero(self, t: Ball, x: Ball) -> Ball:
        """x, but 0 where t is 0."""
        ball = _traced(t, x)
        return ball.made(ball.tracer.note(Op.UNLESS_ZERO, ball.slots(t), ball.slots(x)))

    def unless_lost(self, p: Ball, x: Ball, otherwise: Ball) -> Ball:  # noqa: ARG002 - the judge looks there
        """x, which is no number where p is 0: there the judge looks."""
        return x

    def sigmoid(self, x: Ball) -> Ball:
        """1 / (1 + e⁻ˣ); where it overflows, the judge looks."""
        return 1.0 / (1.0 + self.exp(-x))

    def softmax(self, net: Ball) -> Ball:
        """e^(z − max) / Σ e^(z − max)."""
        found: Ball = softmax(self, net)
        return found

    def log_softmax(self, net: Ball, _: Ball) -> Ball:
        """ln p, from the net inputs."""
        found: Ball = log_softmax(self, net)
        return found

    def at_most(self, x: Ball, _: Any) -> Ball:
        """x; where its bound is too wide, the judge looks."""
        return x

    def join(self, parts: list[Ball]) -> Ball:
        """Side by side along the last axis."""
        ball = _traced(*parts)
        return ball.made(np.concatenate([ball.slots(part) for part in parts], axis=-1))

    def put(self, x: Ball, positions: Positions, values: Ball) -> Ball:
        """X with some entries of its last axis replaced."""
        ball = _traced(x, values)
        ids = np.array(ball.slots(x))
        ids[..., positions] = ball.slots(values)
        return ball.made(ids)

    def value(self, smooth: Smooth, x: Ball) -> NoReturn:
        """The screen has the classic activations only."""
        raise CannotTraceError(smooth, x)

    def slope(self, smooth: Smooth, x: Ball) -> NoReturn:
        """The screen has the classic activations only."""
        raise CannotTraceError(smooth, x)


TracedBall.functions = TracedBalls()


def _traced(*balls: Ball) -> TracedBall:
    return next(ball for ball in balls if isinstance(ball, TracedBall))


def _one(op: Op, x: Ball) -> Ball:
    ball = _traced(x)
    return ball.made(ball.tracer.note(op, ball.ids, ball.ids))


class _NoColumns:
    """A block of one record whose numbers nobody knows."""

    size = 1

    def __getattr__(self, name: str) -> NoReturn:
        raise CannotTraceError


class TracedLedger(Ledger):
    """A block to trace on."""

    def __init__(self, layout: Layout, unit: float) -> None:
        none: Any = _NoColumns()
        super().__init__(none, layout)
        self.__dict__["unit"] = unit
        self.tracer = Tracer(len(layout.shape.paths) + 1)

    def ball(self, columns: Positions | int) -> Ball:
        """The columns as slots; -1 is the last, which is missing."""
        ids = np.asarray(columns, dtype=np.intp)[None] % self.tracer.columns
        return TracedBall(self.tracer, ids, self.unit)

    def values(self, _: Positions | int) -> NoReturn:
        """There are no values."""
        raise CannotTraceError

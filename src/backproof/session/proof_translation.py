"""From a recorded graph to the theory's instructions: one rule per primitive, written from its mathematics.

Nothing here calls a primitive's own formulas. What was decided on the way (which side of a kink, which element won, where an index
points) is taken from the recorded values, and said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backproof.engine.exact import SURROGATES, whole
from backproof.errors import DomainError
from backproof.ir.graph import Graph, Node
from backproof.session.proof_program import (
    Bilinear,
    Elementwise,
    Entries,
    Expr,
    Given,
    Instruction,
    Linear,
    Pooled,
    Product,
    Selected,
    Stop,
    Table,
    num,
    poly,
    var,
)

Array = Any


def function(name: str, x: Expr) -> Expr:
    """The polynomial that stands for a function."""
    return poly(SURROGATES[name], x)


HALF = whole(0.5)
ERF_SCALE = whole(2 / math.sqrt(math.pi))
ONE = num(1)
X, A, B = var(0), var(0), var(1)
Y, AFTER_TWO, AFTER_THREE = var(1), var(2), var(3)  # the result, after one, two or three arguments


def _inverse(x: Expr) -> Expr:
    return function("inverse", x)


SMOOTH: dict[str, tuple[Expr, tuple[Expr, ...]]] = {
    "add": (A + B, (ONE, ONE)),
    "sub": (A - B, (ONE, -ONE)),
    "mul": (A * B, (B, A)),
    "div": (A * _inverse(B), (_inverse(B), -(AFTER_TWO * _inverse(B)))),
    "neg": (-X, (-ONE,)),
    "exp": (function("exp", X), (Y,)),
    "expm1": (function("expm1", X), (Y + ONE,)),
    "log": (function("log", X), (_inverse(X),)),
    "log1p": (function("log1p", X), (_inverse(X + ONE),)),
    "sqrt": (function("sqrt", X), (_inverse(Y + Y),)),
    "rsqrt": (function("rsqrt", X), (-(Y * _inverse(X + X)),)),
    "tanh": (function("tanh", X), (ONE - Y * Y,)),
    "sigmoid": (function("sigmoid", X), (Y * (ONE - Y),)),
    "erf": (function("erf", X), (num(ERF_SCALE) * function("exp", -(X * X)),)),
    "sin": (function("sin", X), (function("cos", X),)),
    "cos": (function("cos", X), (-function("sin", X),)),
}
"""name → (y, its slopes); a slope may read the result."""


@dataclass
class Writer:
    """The program so far, and where each of the graph's values is in it."""

    graph: Graph
    values: Sequence[Array]
    instructions: list[Instruction] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    frozen: dict[str, int] = field(default_factory=dict)
    """operation → how many of its decisions were taken from the record."""
    value: int = 0
    """The value that is being translated."""

    def add(self, instruction: Instruction) -> int:
        """Append an instruction; the number of its value."""
        self.instructions.append(instruction)
        return len(self.graph.leaves) + len(self.instructions) - 1

    def decided(self, numbers: Array) -> int:
        """A value that holds decisions."""
        found = np.asarray(numbers)
        op = self.node.op
        self.frozen[op] = self.frozen.get(op, 0) + int(found.size)
        return self.add(given(found))

    @property
    def node(self) -> Node:
        """The node that is being translated."""
        found = self.graph.node(self.value)
        assert found is not None  # leaves are not translated
        return found

    def at(self, i: int) -> int:
        """Where argument i is."""
        return self.place[self.node.arguments[i]]

    def recorded(self, i: int) -> Array:
        """Argument i, as it was recorded."""
        return self.values[self.node.arguments[i]]

    def dims(self, i: int) -> tuple[int, ...]:
        """The shape of argument i."""
        return self.graph.types[self.node.arguments[i]].shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.graph.types[self.value].shape

    def param(self, name: str) -> Any:
        """A static parameter."""
        return self.node.given[name]


def integers(x: Array) -> tuple[int, ...]:
    """An array's elements in row-major order; truth values are 0 and 1."""
    return tuple(int(value) for value in np.asarray(x).ravel().tolist())


def given(x: Array) -> Given:
    """An array as it is."""
    return Given(tuple(np.shape(x)), integers(x))


# ── elementwise ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _smooth(w: Writer) -> int:
    f, slopes = SMOOTH[w.node.op]
    return w.add(Elementwise(f, slopes, tuple(w.at(i) for i in range(len(slopes)))))


def _masked(mask: Callable[[Array], Array]) -> Callable[[Writer], int]:
    """y = mask·x: a kink, whose side was decided."""

    def rule(w: Writer) -> int:
        return w.add(Elementwise(A * B, (B, None), (w.at(0), w.decided(mask(w.recorded(0))))))

    return rule


def _extreme_of_two(sign: int) -> Callable[[Writer], int]:
    """The larger (sign 1) or smaller of two; a tie sends half to each side."""

    def rule(w: Writer) -> int:
        a, b = (np.asarray(w.recorded(i) * sign) for i in (0, 1))
        tie = HALF * np.asarray(a == b).astype(int)
        chosen = w.decided(a >= b)
        left, right = w.decided((a > b) + tie), w.decided((b > a) + tie)
        first = var(2)
        f = first * A + (ONE - first) * B
        return w.add(Elementwise(f, (var(3), var(4), None, None, None), (w.at(0), w.at(1), chosen, left, right)))

    return rule


def _where(w: Writer) -> int:
    condition = var(0)
    f = condition * var(1) + (ONE - condition) * var(2)
    return w.add(Elementwise(f, (None, condition, ONE - condition), (w.at(0), w.at(1), w.at(2))))


def _pow(w: Writer) -> int:
    positive = w.decided(w.recorded(0) > 0)
    mask = var(2)
    by_base = B * A ** (B - ONE)
    by_exponent = mask * AFTER_THREE * function("log", mask * A + (ONE - mask))
    return w.add(Elementwise(A**B, (by_base, by_exponent, None), (w.at(0), w.at(1), positive)))


def _cast(w: Writer) -> int:
    if w.graph.types[w.value].kind != "real":
        return _recorded(w)
    return w.add(Elementwise(X, (ONE if w.graph.types[w.node.arguments[0]].kind == "real" else None,), (w.at(0),)))


def _recorded(w: Writer) -> int:
    """A decision, or whole numbers: taken from the record."""
    return w.decided(w.values[w.value])


def _constant(w: Writer) -> int:
    return w.add(given(w.values[w.value]))


# ── structure ───────────────────────────────────────────────────────────────────────────────────────────────────────

Parameters = tuple[tuple[int, ...] | int | bool, ...]


def _linear(parameters: Callable[[Writer], Parameters], argument: int = 0) -> Callable[[Writer], int]:
    """One table, of the primitive's own name."""

    def rule(w: Writer) -> int:
        return w.add(Linear(w.shape, ((w.at(argument), Table(w.node.op, parameters(w))),)))

    return rule


def _concat(w: Writer) -> int:
    axis, begin, sources = w.param("axis"), 0, []
    for i in range(len(w.node.arguments)):
        sources.append((w.at(i), Table("concat", (w.dims(i), w.shape, axis, begin))))
        begin += w.dims(i)[axis]
    return w.add(Linear(w.shape, tuple(sources)))


def _sum_pool(w: Writer) -> Parameters:
    low = tuple(pair[0] for pair in w.param("padding"))
    return (w.dims(0), w.shape, w.param("window"), w.param("stride"), w.param("dilation"), low)


def _max_pool(w: Writer) -> int:
    x = w.recorded(0)
    n, c, *space = x.shape
    out = w.shape[2:]
    winners = [
        _winner(np.asarray(x[image, channel]), w.node.given, window)
        for image in range(n)
        for channel in range(c)
        for window in np.ndindex(*out)
    ]
    w.frozen["max_pool"] = w.frozen.get("max_pool", 0) + len(winners)
    table = Table("gather_along", ((n * c, math.prod(space)), 1, math.prod(out), tuple(winners)))
    return w.add(Linear(w.shape, ((w.at(0), table),)))


def _winner(plane: Array, given: dict[str, Any], window: tuple[int, ...]) -> int:
    """The place of the first largest element of one window, by looking at each."""
    best, place = None, -1
    for offset in np.ndindex(*given["window"]):
        at = tuple(
            o * s + k * d - pad[0]
            for o, s, k, d, pad in zip(
                window, given["stride"], offset, given["dilation"], given["padding"], strict=True
            )
        )
        inside = all(0 <= i < n for i, n in zip(at, plane.shape, strict=True))
        if inside and (best is None or plane[at] > best):
            best = plane[at]
            place = 0
            for i, n in zip(at, plane.shape, strict=True):
                place = place * n + i
    return place


def _extreme(sign: int) -> Callable[[Writer], int]:
    """max or min over axes: the first winner is the value, and all winners share the derivative."""

    def rule(w: Writer) -> int:
        x, axes = np.asarray(w.recorded(0) * sign), w.param("axes")
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        rows, each = (math.prod(x.shape[axis] for axis in some) for some in (kept, axes))
        order = (*kept, *axes)
        values = x.transpose(order).reshape(rows, each)
        places = np.arange(x.size).reshape(x.shape).transpose(order).reshape(rows, each)
        forward: list[tuple[int, int, int]] = []
        jacobian: list[tuple[int, int, int]] = []
        for k in range(rows):
            winners = [int(i) for v, i in zip(values[k], places[k], strict=True) if v == values[k].max()]
            c0, c1, c2 = SURROGATES["inverse"]
            share = c0 + c1 * len(winners) + c2 * len(winners) ** 2
            forward.append((winners[0], 1, k))
            jacobian += [(i, share, k) for i in winners]
        w.frozen[w.node.op] = w.frozen.get(w.node.op, 0) + rows
        return w.add(Selected(w.shape, w.at(0), tuple(forward), _sorted(jacobian)))

    return rule


def _sorted(entries: list[tuple[int, int, int]]) -> Entries:
    return tuple(sorted(entries, key=lambda entry: (entry[2], entry[0])))


def _sum_of(w: Writer) -> Table:
    return Table("sum", (w.dims(0), w.param("axes")))


def _prod(w: Writer) -> int:
    return w.add(Product(w.shape, _sum_of(w), w.at(0)))


def _logsumexp(w: Writer) -> int:
    before, after, weight = function("exp", X), function("log", X), function("exp", var(0) - var(1))
    return w.add(Pooled(w.shape, _sum_of(w), w.at(0), before, after, weight))


def _dot_general(w: Writer) -> int:
    contract, batch = w.param("contract"), w.param("batch")
    table = Table("dot_general", (w.dims(0), w.dims(1), contract[0], contract[1], batch[0], batch[1]))
    return w.add(Bilinear(w.shape, table, w.at(0), w.at(1)))


def _conv(w: Writer) -> int:
    low = tuple(pair[0] for pair in w.param("padding"))
    steps = (w.param("stride"), w.param("input_dilation"), w.param("window_dilation"))
    table = Table("conv", (w.dims(0), w.dims(1), w.shape, *steps, low, w.param("groups")))
    return w.add(Bilinear(w.shape, table, w.at(0), w.at(1)))


def _indexed(parameters: Callable[[Writer], Parameters], argument: int) -> Callable[[Writer], int]:
    """A table of integers that were recorded."""

    def rule(w: Writer) -> int:
        index = integers(w.recorded(1 - argument))
        w.frozen[w.node.op] = w.frozen.get(w.node.op, 0) + len(index)
        table = Table(w.node.op, (*parameters(w), index))
        return w.add(Linear(w.shape, ((w.at(argument), table),)))

    return rule


RULES: dict[str, Callable[[Writer], int]] = {
    **dict.fromkeys(SMOOTH, _smooth),
    "pow": _pow,
    "relu": _masked(lambda x: x > 0),
    "abs": _masked(lambda x: (x > 0).astype(int) - (x < 0).astype(int)),
    "sign": _recorded,
    "maximum": _extreme_of_two(1),
    "minimum": _extreme_of_two(-1),
    "where": _where,
    "sum": _linear(lambda w: (w.dims(0), w.param("axes"))),
    "max": _extreme(1),
    "min": _extreme(-1),
    "prod": _prod,
    "logsumexp": _logsumexp,
    "cumsum": _linear(lambda w: (w.dims(0), w.param("axis"), w.param("reverse"))),
    "dot_general": _dot_general,
    "conv": _conv,
    "reshape": _linear(lambda w: (w.dims(0),)),
    "transpose": _linear(lambda w: (w.dims(0), w.param("axes"))),
    "broadcast": _linear(lambda w: (w.dims(0), w.shape, w.param("axes"))),
    "slice": _linear(lambda w: (w.dims(0), w.shape, w.param("start"), w.param("step"))),
    "pad": _linear(lambda w: (w.dims(0), w.shape, w.param("low"), w.param("interior"))),
    "concat": _concat,
    "flip": _linear(lambda w: (w.dims(0), w.param("axes"))),
    "gather": _indexed(lambda w: (w.dims(0), w.param("axis")), 0),
    "scatter_add": _indexed(lambda w: (w.shape, w.param("axis")), 1),
    "gather_along": _indexed(lambda w: (w.dims(0), w.param("axis"), w.shape[w.param("axis")]), 0),
    "scatter_along": _indexed(lambda w: (w.shape, w.param("axis"), w.dims(1)[w.param("axis")]), 1),
    "max_pool": _max_pool,
    "sum_pool": _linear(_sum_pool),
    "constant": _constant,
    "cast": _cast,
    "stop_gradient": lambda w: w.add(Stop(w.at(0))),
}
"""primitive → its instructions. What is not here makes whole numbers or truth values, which are recorded decisions."""

RECORDED = tuple(name for name, rule in RULES.items() if rule is _recorded)
"""Primitives of reals whose value is a decision."""


def translate(graph: Graph, values: Sequence[Array]) -> Writer:
    """The instructions of a graph at these values."""
    w = Writer(graph, values, place=list(range(len(graph.leaves))))
    for value in range(len(graph.leaves), len(graph)):
        w.value = value
        kind = graph.types[value].kind
        rule = (
            RULES.get(w.node.op) if kind == "real" else (_constant if w.node.op in ("constant", "iota") else _recorded)
        )
        if rule is None:
            raise DomainError(f"%{value}: the theory has no instruction for {w.node.op}")
        w.place.append(rule(w))
    return w

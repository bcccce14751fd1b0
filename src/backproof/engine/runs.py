"""How a run of operations is written: what belongs to it, in which passes over a row it is made, and in which registers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.engine.bounded import Bounded
from backproof.engine.fused import CODE, COLUMN, DECIDES, FULL, POINTWISE, REDUCES, ROW, SMALL, Fused, Source
from backproof.engine.native.fused import BLOCK, REGISTERS, InstructionStruct
from backproof.engine.sums import own
from backproof.ir.graph import Graph, Node
from backproof.ir.primitives.elementwise import EXP_ULPS
from backproof.ir.rounding import Decides, Moves, Rounds
from backproof.ir.types import Shape
from backproof.numerics import FORMATS, likely

VIEWS = ("broadcast", "reshape", "transpose", "slice", "stop_gradient")
"""What is done to something read without touching it."""
NARROW = 8
"""Rows of fewer numbers are not worth a run of their own."""


@dataclass(eq=False)
class Step:
    """An instruction before it has its registers."""

    op: str
    reads: tuple[Step, ...] = ()
    row: bool = False
    level: int = 0
    """How many passes over a row must have ended before."""
    known: bool = False
    """Whether the result has no bound, since it is exact."""
    numbers: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    source: int = -1

    @property
    def gathers(self) -> bool:
        """Whether it makes one number of a row."""
        return CODE[self.op] >= CODE["sum"]

    @property
    def held(self) -> bool:
        """Whether its register is its own throughout."""
        return self.row or self.op == "constant"


class _UnfitError(Exception):
    """What cannot be a part of a run."""


def fused(graph: Graph, value: int, D: Bounded, exact: Sequence[bool]) -> Fused | None:
    """The run that ends in this value, as long as it can be; None if it is none. `exact` says which leaves are."""
    node, shape = graph.node(value), graph.types[value].shape
    if node is None or graph.types[value].kind != "real" or D.storage.precision > FORMATS["float32"].precision:
        return None
    operand = graph.types[node.arguments[0]].shape if node.arguments else ()
    column = node.op == "sum" and len(operand) > 1 and node.given["axes"] == tuple(range(len(operand) - 1))
    frame = operand if column else _frame(graph, value)
    if not frame or frame[-1] < NARROW or math.prod(frame) < SMALL or (node.op not in (*POINTWISE, *REDUCES)):
        return None
    writer = _Writer(graph, value, D, frame, _known(graph, exact))
    try:
        root = writer.step(node.arguments[0]) if column else writer.made(value)
        if column and root.held:
            return None
        return writer.finished(root, shape, COLUMN if column else ROW if root.row else FULL)
    except _UnfitError:
        return None


def _frame(graph: Graph, value: int) -> Shape:
    """The shape along whose last axis a run reduces; else that of its result."""
    todo, seen = [value], {value}
    for at in todo:
        node = graph.node(at)
        if node is None or node.op not in (*POINTWISE, *REDUCES, "reshape", "broadcast", "stop_gradient", "cast"):
            continue
        if node.op in REDUCES:
            shape = graph.types[node.arguments[0]].shape
            if node.given["axes"] == (len(shape) - 1,):
                return shape
            continue
        fresh = [argument for argument in node.arguments if argument not in seen]
        seen.update(fresh)
        todo += fresh
    return graph.types[value].shape


def _known(graph: Graph, exact: Sequence[bool]) -> list[bool]:
    """Whether a value is exact, as far as the graph tells."""
    known = list(exact)
    for node in graph.nodes:
        kind = node.primitive.rounding
        free = isinstance(kind, (Moves, Decides)) or (isinstance(kind, Rounds) and kind.ulps == 0 and not kind.absolute)
        plain = free or node.op in ("where", "iota", "max", "min", "stop_gradient") or _turns_real(node)
        known.append(plain and all(known[i] for i in node.arguments))
    return known


def _turns_real(node: Node) -> bool:
    return node.op == "cast" and node.given["to"] == "real"


class _Writer:
    """A run while it is written."""

    def __init__(self, graph: Graph, root: int, D: Bounded, frame: Shape, known: list[bool]) -> None:
        self.graph, self.root, self.D, self.frame, self.known = graph, root, D, frame, known
        self.rows, self.columns = math.prod(frame[:-1]), frame[-1]
        self.unit = own(D.storage)
        self.sources: dict[tuple[int, tuple[Node, ...], bool], int] = {}
        self.steps: list[Step] = []
        self.found: dict[int, Step] = {}

    def step(self, value: int) -> Step:
        """What makes a value: operations of the run, or else it is read."""
        if value not in self.found:
            try:
                self.found[value] = self.made(value)
            except _UnfitError:
                self.found[value] = self.read(value)
        return self.found[value]

    def row(self, shape: Shape) -> bool:
        """Whether a shape is of a number for each row; otherwise it is of one for each place, or it does not fit."""
        size = math.prod(shape)
        if size == self.rows * self.columns and shape[-1] == self.columns:
            return False
        if size == self.rows and (shape == self.frame[:-1] or shape == (*self.frame[:-1], 1)):
            return True
        raise _UnfitError

    def add(self, op: str, reads: tuple[Step, ...], **more: Any) -> Step:
        """One more instruction."""
        level = max((read.level for read in reads), default=0)
        self.steps.append(Step(op, reads, **{"level": level, **more}))
        return self.steps[-1]

    def read(self, value: int) -> Step:
        """A value that is there already, or its view."""
        moves: list[Node] = []
        shape, at = self.graph.types[value].shape, value
        while (node := self.graph.node(at)) is not None and node.op in VIEWS:
            moves.insert(0, node)
            (at,) = node.arguments
        key = at, tuple(moves), self.row(shape)
        if key not in self.sources:
            self.sources[key] = len(self.sources)
        exact = self.known[at]
        return self.add("load", (), row=key[2], known=exact, source=self.sources[key])

    def made(self, value: int) -> Step:
        """The operation that makes a value, if it can be a part of the run."""
        node = self.graph.node(value)
        if node is None:
            return self.read(value)
        shape = self.graph.types[value].shape
        match node.op:
            case "constant":
                return self._constant(node, shape)
            case "stop_gradient":
                return self.step(*node.arguments)
            case "cast" if _turns_real(node) and self.graph.types[node.arguments[0]].kind != "int":
                return self.step(*node.arguments)
            case "reshape":
                return self._reshaped(node, shape)
            case "broadcast":
                return self._spread(node, shape)
            case "scatter_along":
                return self._scattered(node, shape)
            case op if op in REDUCES:
                return self._reduced(node, shape)
            case op if op in POINTWISE:
                return self._pointwise(node, shape)
        raise _UnfitError

    def _inside(self, value: int) -> Step:
        """What makes a value, unless it is only read."""
        found = self.step(value)
        if found.op == "load":
            raise _UnfitError
        return found

    def _constant(self, node: Node, shape: Shape) -> Step:
        number = node.given["value"]
        if not isinstance(number, (int, float)):
            raise _UnfitError
        self.row(shape)
        error = self.D.constant(value=number, shape=()).likely if isinstance(number, float) else None
        off = 0.0 if error is None else float(error)
        return self.add("constant", (), known=off == 0, numbers=(0.0, 0.0, float(number), off))

    def _reshaped(self, node: Node, shape: Shape) -> Step:
        found = self._inside(*node.arguments)
        if found.row is not self.row(shape):
            raise _UnfitError
        return found

    def _spread(self, node: Node, shape: Shape) -> Step:
        axes = node.given["axes"]
        if self.row(shape) or axes != tuple(range(len(axes))) or math.prod(shape[len(axes) :]) != self.columns:
            raise _UnfitError
        found = self._inside(*node.arguments)
        if found.op == "constant":
            return found
        if not found.row:
            raise _UnfitError
        return self.add("spread", (found,), known=found.known)

    def _scattered(self, node: Node, shape: Shape) -> Step:
        index, updates = (self.graph.types[i].shape for i in node.arguments)
        fits = index == updates == (*self.frame[:-1], 1) and shape == self.frame
        if not fits or node.given["axis"] != len(shape) - 1 or not self.known[node.arguments[0]]:
            raise _UnfitError
        places, moved = (self.step(i) for i in node.arguments)
        if moved.op == "constant" or places.op == "constant":
            raise _UnfitError
        return self.add("scatter_along", (places, moved), known=moved.known)

    def _reduced(self, node: Node, shape: Shape) -> Step:
        (operand,) = (self.graph.types[i].shape for i in node.arguments)
        if node.given["axes"] != (len(operand) - 1,) or self.row(operand) or not self.row(shape):
            raise _UnfitError
        found = self.step(*node.arguments)
        if found.op == "constant":
            raise _UnfitError
        n, summing = self.columns - 1, self.D.accumulation
        factor = float(likely(n, own(summing)))
        if node.op == "sum":
            whole = 2.0**self.D.storage.precision
            unit = 0.0 if summing is self.D.storage else self.unit
            return self._gathered("sum", (found,), known=False, numbers=(unit, n * summing.underflow, factor, whole))
        if node.op != "logsumexp":
            return self._gathered(node.op, (found,), known=found.known)
        top = self._gathered("lse_top", (found,), known=False)
        numbers = (self.unit, 2 * self.D.storage.underflow, EXP_ULPS * self.unit, factor + self.unit)
        return self._gathered("lse_sum", (found, top), known=False, numbers=numbers)

    def _gathered(self, op: str, reads: tuple[Step, ...], **more: Any) -> Step:
        return self.add(op, reads, row=True, level=max(read.level for read in reads) + 1, **more)

    def _pointwise(self, node: Node, shape: Shape) -> Step:
        row = self.row(shape)
        if node.op in DECIDES and not all(self.known[i] for i in node.arguments):
            raise _UnfitError
        if node.op == "where" and not self.known[node.arguments[0]]:
            raise _UnfitError
        reads = tuple(self.step(i) for i in node.arguments)
        if any(read.row is not row and read.op != "constant" for read in reads):
            raise _UnfitError
        if all(map(self._is_one, reads)):
            raise _UnfitError  # of single numbers, everywhere: the result may be exact
        rounding = node.primitive.rounding
        ulps = rounding.ulps if isinstance(rounding, Rounds) else 0.0
        numbers = (ulps * self.unit, ulps * self.D.storage.underflow, 0.0, 0.0)
        known = ulps == 0 and all(read.known for read in reads)
        return self.add(node.op, reads, row=row, known=known, numbers=numbers)

    def _is_one(self, read: Step) -> bool:
        """Whether it is one number, everywhere."""
        if read.op != "load":
            return read.op == "constant"
        value, _, _ = list(self.sources)[read.source]
        return self.graph.types[value].size == 1

    # ── from steps to code ──────────────────────────────────────────────────────────────────────────────────────────

    def finished(self, root: Step, shape: Shape, sink: int) -> Fused:
        """The run whose result this is."""
        stages = self._stages(root, sink)
        places, registers = self._placed(stages, root)
        code = [self._instruction(step, places, at) for at, stage in enumerate(stages) for step in stage]
        ends = np.cumsum([len(stage) for stage in stages]).tolist()
        n = self.rows - 1
        summing = self.D.accumulation
        stored = 0.0 if summing is self.D.storage else self.unit
        total = (float(likely(n, own(summing))), n * summing.underflow, 2.0**self.D.storage.precision, stored)
        return Fused(
            shape,
            self.frame,
            sink,
            tuple(Source(*key) for key in self.sources),
            (InstructionStruct * len(code))(*code),
            (ctypes.c_int32 * len(ends))(*ends),
            registers,
            places[id(root), len(stages) - 1],
            root.known and sink != COLUMN,
            total,
        )

    def _stages(self, root: Step, sink: int) -> list[list[Step]]:
        """What is done once a row and what is done over its columns, in turn. What a row is too long to hold is made again in each pass."""
        wanted = _upstream([root])
        passes = root.level + (sink != ROW)
        stages: list[list[Step]] = []
        for level in range(passes + (sink == ROW)):
            stages.append([s for s in self.steps if s in wanted and s.held and s.level == level])
            if level == passes:
                break
            ends = [s for s in self.steps if s in wanted and s.gathers and s.level == level + 1]
            ends += [root] if level == root.level and sink != ROW else []
            if self.columns <= BLOCK:
                stages.append([s for s in self.steps if s in wanted and _in_pass(s, level)])
            else:
                needed = _upstream(ends, across=True)
                stages.append([s for s in self.steps if s in needed and (not s.held or s in ends)])
        return stages

    def _placed(self, stages: list[list[Step]], root: Step) -> tuple[dict[tuple[int, int], int], int]:
        """The register of each step, in each stage; what is no longer read makes room."""
        order = [(at, step) for at, stage in enumerate(stages) for step in stage]
        fixed = {id(step): i for i, step in enumerate(dict.fromkeys(s for _, s in order if s.held or s.gathers))}
        again = self.columns > BLOCK
        last: dict[tuple[int, int], int] = {}
        for position, (at, step) in enumerate(order):
            for read in step.reads if at % 2 or not step.gathers else ():
                if id(read) not in fixed:
                    last[id(read), at if again else 0] = position
        places: dict[tuple[int, int], int] = {}
        free: list[int] = []
        count = len(fixed)
        now: dict[tuple[int, int], int] = {}
        for position, (at, step) in enumerate(order):
            scope = at if again else 0
            for read in step.reads:
                places[id(read), at] = fixed[id(read)] if id(read) in fixed else now.get((id(read), scope), 0)
            if id(step) in fixed:
                places[id(step), at] = fixed[id(step)]
            else:
                if not free:
                    free.append(count)
                    count += 1
                now[id(step), scope] = places[id(step), at] = free.pop()
            ended = {read for read in step.reads if last.get((id(read), scope)) == position and read is not root}
            free += [now[id(read), scope] for read in ended if (id(read), scope) in now]
        if count + 1 > REGISTERS:
            raise _UnfitError
        places[0, 0] = count  # what a step may write on while it works
        return places, count + 1

    def _instruction(self, step: Step, places: dict[tuple[int, int], int], at: int) -> InstructionStruct:
        unit, under, x, y = step.numbers
        if step.op == "load":
            bound = -1 if step.known else 2 * step.source + 1
            return InstructionStruct(
                CODE["load"], places[id(step), at], 2 * step.source, bound, 0, 0, 0.0, 0.0, 0.0, 0.0
            )
        reads = list(step.reads)
        spare = places[0, 0]
        if step.op == "where":  # its condition is the third
            reads = [*reads[1:], reads[0]]
        slots = [places[id(read), at] for read in reads]
        known = sum(1 << i for i, read in enumerate(reads[:2]) if read.known)
        known |= 2 if len(reads) == 1 and known else 0
        while len(slots) < 3:
            slots.append(spare if step.op == "lse_sum" else slots[0] if slots else 0)
        return InstructionStruct(CODE[step.op], places[id(step), at], *slots, known, unit, under, x, y)


def _upstream(ends: Sequence[Step], *, across: bool = False) -> set[Step]:
    """What these are made of; not across what was held from an earlier pass, if that is asked for."""
    found, todo = set(ends), list(ends)
    while todo:
        for read in todo.pop().reads:
            if read not in found and not (across and read.held):
                found.add(read)
                todo.append(read)
    return found


def _in_pass(step: Step, level: int) -> bool:
    """Whether a step belongs to the pass of a level: it is made there, or it gathers there."""
    return step.level == level + 1 if step.gathers else step.level == level and not step.held

"""A graph, evaluated a slab at a time: a large value is cut along an axis, and each slab needs only slabs of what it is made of.

What lies between the leaves and a result is then never held as a whole, stays near the processor, and slabs can be evaluated at the same
time. Every number is one that `evaluate` may give (a product adds up in an order that depends on its size, which every bound has room
for), and so is every bound: how many roundings meet in a sum does not depend on the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.cuts import axes_read, resized
from backproof.engine.domain import Domain
from backproof.engine.fused import Fused
from backproof.engine.native.fused import library
from backproof.engine.runs import fused
from backproof.engine.threads import allowed, one_for_each_product, threads
from backproof.ir.graph import Graph, Leaf, Node
from backproof.ir.types import Type

SLAB = 1 << 17
"""Numbers of a slab's largest value: a few arrays of so many stay near the processor."""
PRODUCT_SLAB = 1 << 18
"""The same where matrices are multiplied, which is slow in thin strips: at least this, and what all slabs read, which is held anyway."""
MOST_NODES = 200
"""A graph of more is not taken apart where it cannot be cut."""
KIND_OF_DTYPE = {"f": "real", "i": "int", "b": "bool"}
"""What an array's numbers are, where they need not be looked at before they are read."""
SPARSE = 8
"""So many times more room than numbers that are scattered over it."""
AGAIN = 4
"""What every slab reads as a whole is not read more often than this, measured by the slabs themselves."""


Made = tuple[int, Fused | None, Node, tuple[int, ...]]
"""A value, the run that ends in it or else the node that makes it, and what that reads."""


@dataclass(frozen=True)
class Plan:
    """A value of a graph, cut along an axis."""

    graph: Graph
    value: int
    axis: int
    along: dict[int, int | None]
    """The values that a slab needs: the axis along which each is cut, or None if all of it is needed."""
    sources: tuple[tuple[int, int | None], ...]
    """What slabs are made of: leaves, and values that cannot be cut, by the axis along which they are read."""

    @property
    def whole(self) -> int:
        """Numbers that every slab reads, or that are held as a whole."""
        sizes = [(value, axis, self.graph.types[value].size) for value, axis in self.sources]
        return sum(size for value, axis, size in sizes if axis is None or value >= len(self.graph.leaves))

    @property
    def cut(self) -> int:
        """Numbers of what is cut."""
        return sum(self.graph.types[value].size for value, axis in self.along.items() if axis is not None)

    @cached_property
    def before(self) -> int:
        """Numbers that are made before any slab is: those of what is held as a whole, and of what that is made of."""
        made: set[int] = set()
        todo = [value for value, _ in self.sources]
        while todo:
            value = todo.pop()
            node = self.graph.node(value)
            if node is not None and value not in made:
                made.add(value)
                todo.extend(node.arguments)
        return sum(self.graph.types[value].size for value in made)

    @cached_property
    def step(self) -> int:
        """How wide a slab is."""
        largest = max(
            self.graph.types[value].size // max(self.graph.types[value].shape[axis], 1)
            for value, axis in self.along.items()
            if axis is not None
        )
        room = max(PRODUCT_SLAB, self.whole) if self.multiplies else SLAB
        most = max(1, AGAIN * self.cut // max(self.whole, 1))  # slabs
        return min(max(1, room // max(largest, 1), -(-self.width // most)), self.width)

    @cached_property
    def multiplies(self) -> bool:
        """Whether a slab is a product of large matrices, which takes all processors by itself."""
        return any(_is_product(self.graph, value) for value, axis in self.along.items() if axis is not None)

    @cached_property
    def width(self) -> int:
        """How long the axis is."""
        return self.graph.types[self.value].shape[self.axis]

    def of(self, size: int) -> Graph:
        """The graph of a slab of this width; its leaves are the sources."""
        leaves = [_sized(self.graph.types[value], axis, size) for value, axis in self.sources]
        number: dict[tuple[int, int | None], int] = {source: i for i, source in enumerate(self.sources)}
        nodes: list[Node] = []
        for value in sorted(self.along):
            axis, node = self.along[value], self.graph.node(value)
            if axis is None or node is None:
                continue
            arguments = tuple(number[source] for source in _reads(self.graph, value, axis, self.along))
            nodes.append(replace(node, arguments=arguments, params=resized(node, axis, size)))
            number[value, axis] = len(leaves) + len(nodes) - 1
        return Graph(tuple(map(Leaf, leaves)), tuple(nodes), (number[self.value, self.axis],))


def _sized(kind: Type, axis: int | None, size: int) -> Type:
    return kind if axis is None else Type(kind.kind, (*kind.shape[:axis], size, *kind.shape[axis + 1 :]))


def _is_product(graph: Graph, value: int) -> bool:
    node = graph.node(value)
    return node is not None and (node.op == "conv" or (node.op == "dot_general" and not node.given["batch"][0]))


def _reads(graph: Graph, value: int, axis: int, along: dict[int, int | None]) -> list[tuple[int, int | None]]:
    """What a slab of a value reads, and along which axis each is cut."""
    node = graph.node(value)
    assert node is not None  # leaves read nothing
    found = axes_read(node, [graph.types[i].shape for i in node.arguments], graph.types[value].shape, axis)
    assert found is not None  # it was asked before
    return list(zip(node.arguments, found, strict=True))


def _planned(graph: Graph, value: int, axis: int) -> Plan | None:
    along: dict[int, int | None] = {value: axis}
    sources: dict[tuple[int, int | None], None] = {} if value >= len(graph.leaves) else {(value, axis): None}
    for made in range(value, len(graph.leaves) - 1, -1):
        node = graph.node(made)
        if made not in along or node is None:
            continue
        cut = along[made]
        shapes = [graph.types[i].shape for i in node.arguments]
        found = None if cut is None else axes_read(node, shapes, graph.types[made].shape, cut)
        if found is None:
            along[made] = None
            if made == value:
                return None
            continue  # it is made as a whole, apart
        for argument, its in zip(node.arguments, found, strict=True):
            along[argument] = its if along.setdefault(argument, its) == its else None
    for made in sorted(along):
        if along[made] is None or graph.node(made) is None:
            continue
        for argument, its in _reads(graph, made, along[made], along):  # type: ignore[arg-type] # not None
            if graph.node(argument) is None or along[argument] is None:
                sources[argument, its] = None
    return Plan(graph, value, axis, along, tuple(sources))


class Survey:
    """What is known of a graph before it is evaluated: how large things are, and how they can be cut."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.heaviest: list[int] = [kind.size for kind in graph.types]
        """The largest of a value and of what it is made of, constants left out."""
        for value, node in enumerate(graph.nodes, len(graph.leaves)):
            own = 0 if node.op in ("constant", "iota") else graph.types[value].size
            self.heaviest[value] = max(own, *(self.heaviest[a] for a in node.arguments), 0)
        self._plans: dict[tuple[int, int], Plan | None] = {}
        self._graphs: dict[tuple[int, int, int], Survey] = {}
        self._runs: dict[tuple[int, str, tuple[bool, ...]], Fused | None] = {}
        self.orders: dict[tuple[int, str, tuple[bool, ...]], list[Made]] = {}
        """What is made on the way to a value, where nothing is known before, by the domain in which runs are evaluated at once."""

    def plan(self, value: int, axis: int) -> Plan | None:
        """A value cut along an axis; None if that would not help."""
        key = value, axis
        if key not in self._plans:
            worth = self.graph.types[value].shape[axis] > 1
            found = _planned(self.graph, value, axis) if worth else None
            self._plans[key] = found if found is not None and found.whole <= found.cut else None
        return self._plans[key]

    def run(self, value: int, D: Bounded, exact: tuple[bool, ...]) -> Fused | None:
        """The run of operations that ends in a value; None where there is none. `exact` says which leaves are."""
        key = value, D.name, exact
        if key not in self._runs:
            self._runs[key] = fused(self.graph, value, D, exact)
        return self._runs[key]

    def best(self, value: int) -> Plan | None:
        """A value cut along the axis that leaves least to be read by every slab; the first of equals, whose slabs lie together.

        What is scattered over much room stays whole: most of it is never touched.
        """
        node = self.graph.node(value)
        scattered = 0 if node is None or node.op != "scatter_add" else self.graph.types[node.arguments[1]].size
        if 0 < SPARSE * scattered <= self.graph.types[value].size:
            return None
        plans = [self.plan(value, axis) for axis in range(self.graph.types[value].rank)]
        return min((plan for plan in plans if plan is not None), key=lambda plan: plan.whole, default=None)

    def slab(self, plan: Plan, size: int) -> Survey:
        """Of the graph of a slab."""
        key = plan.value, plan.axis, size
        if key not in self._graphs:
            self._graphs[key] = Survey(plan.of(size))
        return self._graphs[key]


_SURVEYS: dict[int, Survey] = {}
MOST_SURVEYS = 256


def survey_of(graph: Graph) -> Survey:
    """What is known of a graph, looked up once as long as it is asked for again."""
    found = _SURVEYS.get(id(graph))
    if found is None or found.graph is not graph:
        while len(_SURVEYS) >= MOST_SURVEYS:
            _SURVEYS.pop(next(iter(_SURVEYS)))
        found = _SURVEYS[id(graph)] = Survey(graph)
    return found


class Slabs:
    """One evaluation of a graph in a domain."""

    def __init__(self, survey: Survey, D: Domain, leaves: Sequence[Any], *, alone: bool = True) -> None:
        """`alone` says that no other evaluation goes on beside this one, so that all threads are free."""
        self.survey, self.graph, self.D, self.leaves, self.alone = survey, survey.graph, D, leaves, alone
        self._known: dict[int, Any] = {}

    def value(self, value: int) -> Any:
        """A whole value, made of slabs if that is better."""
        if value not in self._known:
            self._known[value] = self._made(value)
        return self._known[value]

    def know(self, value: int, found: Any) -> None:
        """Take a value to be this, whatever it is made of."""
        self._known[value] = found

    def _made(self, value: int) -> Any:
        node = self.graph.node(value)
        if node is None:
            return self.D.value(self.leaves[value], self.graph.types[value])
        if self.survey.heaviest[value] <= SLAB:
            return self.plainly(value)
        plan = self.survey.best(value)
        if plan is None or plan.step >= plan.width:
            if plan is not None or len(self.graph) > MOST_NODES:
                return self.plainly(value)
            x = [self.value(argument) for argument in node.arguments]
            with np.errstate(all="ignore"):
                return self.D.apply(node.primitive, *x, **node.given)
        return _joined(self.each(plan, lambda slab, begin, end: slab), plan.axis)

    def each(self, plan: Plan, use: Callable[[Any, int, int], Any]) -> list[Any]:
        """What is made of each slab, in order; of several at the same time, where that helps."""
        return in_slabs([(self, plan)], lambda slabs, begin, end: use(slabs[0], begin, end))

    def prepare(self, plan: Plan, sizes: Iterable[int]) -> None:
        """Make what all slabs read, before they are made at the same time."""
        for source, axis in plan.sources:
            if axis is None or source >= len(self.graph.leaves):
                self.value(source)
        for size in sizes:
            self.survey.slab(plan, size)

    def slab(self, plan: Plan, begin: int, end: int) -> Any:
        """One slab."""
        survey = self.survey.slab(plan, end - begin)
        found = Slabs(survey, self.D, self.sources(plan, begin, end), alone=False)
        output = survey.graph.outputs[0]
        return found.plainly(output) if plan.multiplies else found.value(output)

    def sources(self, plan: Plan, begin: int, end: int) -> list[Any]:
        """What a slab is made of."""
        return [self._source(source, axis, begin, end) for source, axis in plan.sources]

    def _source(self, value: int, axis: int | None, begin: int, end: int) -> Any:
        if axis is None:
            return self.value(value)
        given = self.leaves[value] if value < len(self.graph.leaves) and value not in self._known else self.value(value)
        return part_of(given, axis, begin, end)

    def plainly(self, value: int) -> Any:
        """With all that it is made of at once."""
        found: dict[int, Any] = {}
        with np.errstate(all="ignore"):
            for made, run, node, reads in self._order(value):
                if run is not None:
                    found[made] = run.run([self._seen(a, found) for a in reads])
                else:
                    found[made] = self.D.apply(node.primitive, *(self._had(a, found) for a in reads), **node.given)
        return self._had(value, found)

    def _order(self, value: int) -> list[Made]:
        """What is made on the way to a value, and of what; as a run of operations, or by a node."""
        runs = self._runs()
        if self._known or runs is None:
            return self._ordered(value, runs)
        D, exact = runs
        if (value, D.name, exact) not in self.survey.orders:
            self.survey.orders[value, D.name, exact] = self._ordered(value, runs)
        return self.survey.orders[value, D.name, exact]

    def _ordered(self, value: int, runs: tuple[Bounded, tuple[bool, ...]] | None) -> list[Made]:
        needed: dict[int, Made] = {}
        todo = [value]
        for at in todo:
            node = self.graph.node(at)
            if node is None or at in needed or at in self._known:
                continue
            run = None if runs is None else self.survey.run(at, *runs)
            reads = node.arguments if run is None else run.reads
            needed[at] = at, run, node, reads
            todo += reads
        return [needed[at] for at in sorted(needed)]

    def _had(self, value: int, found: dict[int, Any]) -> Any:
        """A value of the domain that is there."""
        had = found.get(value)
        return self.value(value) if had is None else had

    def _seen(self, value: int, found: dict[int, Any]) -> Any:
        """A value that is there, as it was given."""
        if self.graph.node(value) is None and value not in self._known:
            given = self.leaves[value]
            fits = isinstance(given, np.ndarray) and KIND_OF_DTYPE.get(given.dtype.kind) == self.graph.types[value].kind
            if isinstance(given, Bound) or fits:
                return given
        return self._had(value, found)

    def _runs(self) -> tuple[Bounded, tuple[bool, ...]] | None:
        """The domain in which runs of operations are evaluated at once, and which leaves are exact; None where they are not."""
        if not (isinstance(self.D, Bounded) and self.D.brief and library() is not None):
            return None
        return self.D, tuple(not (isinstance(given, Bound) and given.likely is not None) for given in self.leaves)


def in_slabs(cuts: Sequence[tuple[Slabs, Plan]], use: Callable[[list[Any], int, int], Any]) -> list[Any]:
    """What is made of each slab of several values of one shape, cut alike."""
    width, step = cuts[0][1].width, min(plan.step for _, plan in cuts)
    alone = all(evaluation.alone for evaluation, _ in cuts)
    pool = threads("slab") if alone else None
    multiplies = any(plan.multiplies for _, plan in cuts)
    count = -(-width // step)
    if pool is not None and (count > 1 or multiplies):
        step = -(-width // (count + -count % allowed()))  # as many for each thread
    places = [(begin, min(begin + step, width)) for begin in range(0, width, step)]
    for evaluation, plan in cuts:
        evaluation.prepare(plan, {end - begin for begin, end in places})

    def work(place: tuple[int, int]) -> Any:
        return use([evaluation.slab(plan, *place) for evaluation, plan in cuts], *place)

    if pool is None or len(places) == 1:
        return list(map(work, places))
    with one_for_each_product():
        return list(pool.map(work, places))


def part_of(given: Any, axis: int, begin: int, end: int) -> Any:
    """A slab of a value, with its bounds if it has any."""
    place = (slice(None),) * axis + (slice(begin, end),)
    if isinstance(given, Bound):
        value, certain, likely = (None if a is None else a[place] for a in (given.value, given.certain, given.likely))
        return Bound(value, certain, certain if given.likely is given.certain else likely)
    return np.asarray(given)[place]


def _joined(parts: Sequence[Any], axis: int) -> Any:
    """Slabs as one value."""
    if not isinstance(parts[0], Bound):
        return np.concatenate(parts, axis=axis)
    value = np.concatenate([part.value for part in parts], axis=axis)
    certain = _errors([part.certain for part in parts], parts, axis)
    same = all(part.likely is part.certain for part in parts)
    return Bound(value, certain, certain if same else _errors([part.likely for part in parts], parts, axis))


def _errors(errors: Sequence[Any], parts: Sequence[Bound], axis: int) -> Any:
    if all(error is None for error in errors):
        return None
    known = [
        np.zeros(part.shape, dtype=np.float64 if part.value.dtype.kind == "f" else np.bool_) if error is None else error
        for error, part in zip(errors, parts, strict=True)
    ]
    return np.concatenate([np.broadcast_to(e, part.shape) for e, part in zip(known, parts, strict=True)], axis=axis)

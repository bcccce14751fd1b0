"""The `graph` domain: its values are references to nodes, and every operation adds one.

A formula that runs here becomes a graph. Run a vjp here and the derivative is a graph, so it has derivatives too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.graph import Graph, Leaf, Node, ordered, type_of
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.tensor import Tensor
from backproof.ir.types import Shape, Type


class Builder:
    """A graph being made. All leaves come before the first node."""

    def __init__(self) -> None:
        self._leaves: list[Leaf] = []
        self._nodes: list[Node] = []
        self._types: list[Type] = []
        self._constants: dict[tuple[str, Any, Shape], int] = {}
        self._closed = ""

    def __len__(self) -> int:
        return len(self._types)

    def __getattr__(self, name: str) -> Callable[..., Ref]:
        if name not in PRIMITIVES:
            raise AttributeError(f"there is no primitive {name!r}; there are {', '.join(PRIMITIVES)}")
        return partial(self.apply, name)

    def leaf(self, kind: Type, name: str = "") -> Ref:
        """A value that will be given from outside."""
        if self._nodes:
            raise GraphError(
                f"leaf {name or kind} comes after {len(self._nodes)} nodes; all leaves come before the first node"
            )
        self._leaves.append(Leaf(kind, name))
        self._types.append(kind)
        return Ref(self, len(self._types) - 1)

    def apply(self, op: str, *x: Ref, name: str = "", **params: Any) -> Ref:
        """The primitive `op`, applied to values of this graph."""
        if self._closed:
            raise GraphError(self._closed)
        if op not in PRIMITIVES:
            raise GraphError(f"there is no primitive {op!r}; there are {', '.join(PRIMITIVES)}")
        given = ordered(PRIMITIVES[op], params)
        key = _constant_key(*(value for _, value in given)) if op == "constant" else None
        if key is not None and key in self._constants:
            return Ref(self, self._constants[key])
        node = Node(op, tuple(self.own(ref).id for ref in x), given, name)
        self._types.append(type_of(node, self._types))
        self._nodes.append(node)
        if key is not None:
            self._constants[key] = len(self._types) - 1
        return Ref(self, len(self._types) - 1)

    def close(self, why: str) -> None:
        """Add nothing from now on, and say why."""
        self._closed = why

    def own(self, ref: Ref) -> Ref:
        """The reference, if it is to a value of this graph."""
        if not isinstance(ref, Ref):
            raise GraphError(f"expected a value of the graph, got {type(ref).__name__} {str(ref)[:60]}")
        if ref.builder is not self or ref.id >= len(self._types):
            raise GraphError(f"%{ref.id} is a value of another graph")
        return ref

    def type_of(self, value: int) -> Type:
        """The type of one value."""
        return self._types[value]

    def nodes(self, first: int) -> list[Node]:
        """The nodes from this value on."""
        return self._nodes[first - len(self._leaves) :]

    def graph(self, *outputs: Ref) -> Graph:
        """The graph so far, with these outputs."""
        return Graph(tuple(self._leaves), tuple(self._nodes), tuple(self.own(ref).id for ref in outputs))

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """All that is added inside is added, or, on an error, nothing."""
        nodes, leaves = len(self._nodes), len(self._leaves)
        try:
            yield
        except BaseException:
            del self._nodes[nodes:], self._leaves[leaves:], self._types[nodes + leaves :]
            while self._constants and next(reversed(self._constants.values())) >= nodes + leaves:
                self._constants.popitem()
            raise

    def include(self, graph: Graph, inputs: Sequence[Ref]) -> list[Ref]:
        """Every value of another graph, its leaves replaced by these values."""
        if len(inputs) != len(graph.leaves):
            raise GraphError(f"the graph has {len(graph.leaves)} leaves, and got {len(inputs)} values")
        values = list(inputs)
        for node in graph.nodes:
            values.append(self.apply(node.op, *(values[i] for i in node.arguments), name=node.name, **node.given))
        return values


def _constant_key(value: Any, shape: Shape) -> tuple[str, Any, Shape]:
    """What makes two constants one: 1, 1.0 and True are equal and not the same, and neither are 0.0 and −0.0."""
    kind = type(value).__name__ + ("−" if isinstance(value, float) and math.copysign(1.0, value) < 0 else "")
    return kind, value, shape


class Ref:
    """A value of a graph that is being made. Operators broadcast like NumPy's, in nodes of their own."""

    __slots__ = ("builder", "id")
    __array_ufunc__ = None  # array @ ref must come here, not be taken apart by NumPy

    def __init__(self, builder: Builder, value: int) -> None:
        self.builder = builder
        self.id = value

    @property
    def type(self) -> Type:
        """Kind and shape."""
        return self.builder.type_of(self.id)

    @property
    def shape(self) -> Shape:
        """The static shape."""
        return self.type.shape

    def __repr__(self) -> str:
        return f"%{self.id}: {self.type}"

    def constant(self, value: Any, shape: Shape | None = None) -> Ref:
        """A constant beside this value, in its shape unless another is given."""
        if isinstance(value, (bool, int, float)):
            if isinstance(value, int) and abs(value) >= 2**1023:
                raise GraphError(f"a constant of {value.bit_length()} bits is too large")
            number = value if self.type.kind != "real" or isinstance(value, bool) else float(value)
            return self.builder.apply("constant", value=number, shape=self.shape if shape is None else shape)
        tensor = Tensor.of(value)
        if self.type.kind == "real" and tensor.kind == "int":
            tensor = Tensor.of(tensor.array.astype(float))
        return self.builder.apply("constant", value=tensor, shape=tensor.shape)

    def broadcast_to(self, shape: Sequence[int]) -> Ref:
        """NumPy's broadcasting: new axes in front, axes of size 1 repeated."""
        wanted = tuple(shape)
        if self.shape == wanted:
            return self
        lead = len(wanted) - len(self.shape)
        kept = [axis for axis, size in enumerate(self.shape) if size == wanted[lead + axis]] if lead >= 0 else []
        if lead < 0 or any(size not in (1, wanted[lead + axis]) for axis, size in enumerate(self.shape)):
            raise GraphError(f"cannot broadcast {list(self.shape)} to {list(wanted)}")
        sizes = tuple(self.shape[axis] for axis in kept)
        flat = self if sizes == self.shape else self.builder.apply("reshape", self, shape=sizes)
        return self.builder.apply("broadcast", flat, shape=wanted, axes=tuple(lead + axis for axis in kept))

    def _binary(self, op: str, other: Any, *, swap: bool = False) -> Ref:
        a, b = meet(self, other)
        return self.builder.apply(op, b, a) if swap else self.builder.apply(op, a, b)

    def __add__(self, other: Any) -> Ref:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> Ref:
        return self._binary("add", other, swap=True)

    def __sub__(self, other: Any) -> Ref:
        return self._binary("sub", other)

    def __rsub__(self, other: Any) -> Ref:
        return self._binary("sub", other, swap=True)

    def __mul__(self, other: Any) -> Ref:
        return self._binary("mul", other)

    def __rmul__(self, other: Any) -> Ref:
        return self._binary("mul", other, swap=True)

    def __truediv__(self, other: Any) -> Ref:
        return self._binary("div", other)

    def __rtruediv__(self, other: Any) -> Ref:
        return self._binary("div", other, swap=True)

    def __pow__(self, other: Any) -> Ref:
        return self._binary("pow", other)

    def __rpow__(self, other: Any) -> Ref:
        return self._binary("pow", other, swap=True)

    def __neg__(self) -> Ref:
        return self.builder.apply("neg", self)

    def __pos__(self) -> Ref:
        return self

    def __abs__(self) -> Ref:
        return self.builder.apply("abs", self)

    def __eq__(self, other: object) -> Any:
        return self._binary("eq", other) if isinstance(other, _COMPARABLE) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return self._binary("ne", other) if isinstance(other, _COMPARABLE) else NotImplemented

    __hash__ = object.__hash__

    def __lt__(self, other: Any) -> Ref:
        return self._binary("lt", other)

    def __le__(self, other: Any) -> Ref:
        return self._binary("le", other)

    def __gt__(self, other: Any) -> Ref:
        return self._binary("gt", other)

    def __ge__(self, other: Any) -> Ref:
        return self._binary("ge", other)

    def __matmul__(self, other: Ref) -> Ref:
        return matmul(self, other)

    def __getitem__(self, key: Any) -> Ref:
        return index(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise GraphError(f"{self!r} has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Ref]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise GraphError(
            f"{self!r} is no truth value while it is recorded: `where` chooses by it, a session's `value` reads it"
        )

    def __array__(self, *given: Any, **params: Any) -> Any:
        raise GraphError(f"{self!r} is no array while it is recorded; a session's `value` reads it")


_COMPARABLE = (Ref, bool, int, float, list, np.ndarray, np.generic)


def meet(a: Any, b: Any) -> tuple[Ref, Ref]:
    """Two values, or a value and a number, broadcast to one shape."""
    first = a if isinstance(a, Ref) else b
    a, b = (x if isinstance(x, Ref) else first.constant(x) for x in (a, b))
    if a.shape == b.shape:
        return a, b
    shape = broadcast_shapes(a.shape, b.shape)
    return a.broadcast_to(shape), b.broadcast_to(shape)


def broadcast_shapes(a: Shape, b: Shape) -> Shape:
    """The shape that both broadcast to."""
    rank = max(len(a), len(b))
    long_a, long_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(m != n and 1 not in (m, n) for m, n in zip(long_a, long_b, strict=True)):
        raise GraphError(f"shapes {list(a)} and {list(b)} do not broadcast")
    return tuple(n if m == 1 else m for m, n in zip(long_a, long_b, strict=True))


def matmul(a: Ref, b: Ref) -> Ref:
    """NumPy's `a @ b`: the last axis of a with the one before last of b, the axes before them batched."""
    ra, rb = len(a.shape), len(b.shape)
    if ra == 0 or rb == 0:
        raise GraphError(f"@ needs at least one axis on each side, not {a.type} and {b.type}")
    contract = ((ra - 1,), (max(rb - 2, 0),))
    if ra <= 2 or rb <= 2:
        product = a.builder.apply("dot_general", a, b, contract=contract, batch=((), ()))
        if ra <= 2 < rb:  # the axes of b stand last: bring its batch axes in front of a's rows
            free, lead = ra - 1, rb - 2
            order = (*range(free, free + lead), *range(free), free + lead)
            return a.builder.apply("transpose", product, axes=order)
        return product
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.broadcast_to((*batch, *a.shape[-2:])), b.broadcast_to((*batch, *b.shape[-2:]))
    n = len(batch)
    axes = tuple(range(n))
    return a.builder.apply("dot_general", a, b, contract=((n + 1,), (n,)), batch=(axes, axes))


def index(x: Ref, key: Any) -> Ref:
    """Basic indexing: whole numbers, slices with positive steps, `...`; or one integer value, along axis 0."""
    if isinstance(key, Ref):
        return x.builder.apply("gather", x, key, axis=0)
    keys = key if isinstance(key, tuple) else (key,)
    dots = [position for position, item in enumerate(keys) if item is Ellipsis]
    if dots:
        at = dots[0]
        keys = (*keys[:at], *(slice(None),) * (len(x.shape) - len(keys) + 1), *keys[at + 1 :])
    if len(keys) > len(x.shape):
        raise GraphError(f"{len(keys)} indices for {x.type}")
    start, stop, step, dropped = [], [], [], []
    for axis, size in enumerate(x.shape):
        item = keys[axis] if axis < len(keys) else slice(None)
        if isinstance(item, slice):
            a, b, s = item.indices(size)
            if s < 1:
                raise GraphError(f"a slice with step {s}; only positive steps, flip is an operation of its own")
        else:
            if isinstance(item, bool) or not hasattr(item, "__index__"):
                raise GraphError(
                    f"cannot index {x.type} by {type(item).__name__}; only by whole numbers, slices and `...`"
                )
            a = operator.index(item)
            if not -size <= a < size:
                raise GraphError(f"index {a} of axis {axis} of {x.type}")
            a, b, s = a % size, a % size + 1, 1
            dropped.append(axis)
        start.append(a)
        stop.append(max(a, b))
        step.append(s)
    found = x.builder.apply("slice", x, start=tuple(start), stop=tuple(stop), step=tuple(step))
    if not dropped:
        return found
    return x.builder.apply(
        "reshape", found, shape=tuple(n for axis, n in enumerate(found.shape) if axis not in dropped)
    )

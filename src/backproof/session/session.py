"""The session: an imperative autograd session whose recorded graph is compiled to a tape.

s = Session()
w = s.param(np.zeros((3, 2)), name="w")
x, y = s.input(data), s.input(labels)          # leaves first ...
loss = s.mse_loss(x @ s.use(w), y)             # (s.use(w) is a leaf too: take it before the first node)
grads = s.backward_scalar_dense_all(loss)
s.sgd_step_all(0.1, grads)
s.reset_tape()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat
from weakref import WeakSet

import numpy as np

from backproof.engine.domain import Domain, domain_named
from backproof.engine.evaluate import pushforward
from backproof.errors import DomainError, GraphError, SessionError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph
from backproof.ir.primitive import Value
from backproof.ir.types import Type
from backproof.session.leaves import Nat, Parameter, nat_type, natural, naturals
from backproof.session.operations import OPERATIONS, Operation
from backproof.session.tape import Gradients, Tape, backward, compile_tape, expect_gradients, wanted_values

if TYPE_CHECKING:
    from backproof.session.certify import Certificate

_OF_WHAT_WAS_GIVEN = (GraphError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError, MemoryError)


class Session:
    """Record operations one by one, then differentiate what was recorded.

    Leaves (`use`, `input`, `input_nat`, and `const` before any operation) come before the first operation; `reset_tape` starts anew.
    Operations are methods (`s.tanh(x)`, listed by `dir(s)`), and operators on references. `domain` is a name or a Domain.
    """

    def __init__(self, domain: str | Domain = "float64") -> None:
        self.domain = domain_named(domain) if isinstance(domain, str) else domain
        if not isinstance(self.domain, Domain):
            raise SessionError(f"domain is a Domain or the name of one, not {type(domain).__name__}")
        self._past: WeakSet[Builder] = WeakSet()
        self._start()

    def __repr__(self) -> str:
        return f"Session({self.domain.name}: {len(self._leaves)} leaves, {len(self._builder) - len(self._leaves)} operations)"

    def _start(self) -> None:
        self._builder = Builder()
        self._leaves: list[Value] = []
        self._values: list[Value] = []
        self._graph: Graph | None = None
        self._frozen: set[int] = set()
        self._constants: set[int] = set()
        self._parameters: dict[int, Parameter] = {}
        self._nats: list[tuple[Nat, int | None]] = []

    # ── leaves ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def param(self, init: Any, name: str = "", *, requires_grad: bool = True) -> Parameter:
        """A mutable parameter. It is no part of the graph until it is used."""
        value = self._real(init, name or "the parameter")
        return Parameter(value, name, requires_grad=requires_grad, domain=self.domain.name)

    def use(self, parameter: Parameter) -> Ref:
        """The parameter's present value, as a leaf. Used twice, it is two leaves."""
        if not isinstance(parameter, Parameter):
            raise SessionError(f"use takes what param made, not {type(parameter).__name__}")
        if parameter.domain != self.domain.name:
            raise SessionError(
                f"{parameter!r} is of {parameter.domain}, and this session computes in {self.domain.name}"
            )
        parameter.value = self._real(parameter.value, parameter.name or "the parameter", copied=False)
        ref = self._leaf(parameter.value, "real", parameter.name)
        self._parameters[ref.id] = parameter
        if not parameter.requires_grad:
            self._frozen.add(ref.id)
        return ref

    def input(self, value: Any, name: str = "", *, requires_grad: bool = True) -> Ref:
        """A leaf of reals. With requires_grad=False no gradient is computed for it, and asking for one is an error."""
        ref = self._leaf(self._real(value, name or "the input"), "real", name)
        if not requires_grad:
            self._frozen.add(ref.id)
        return ref

    def const(self, value: Any, name: str = "") -> Ref:
        """A constant: a leaf before the first operation, a node after it."""
        if not self._recording:
            ref = self._leaf(self._real(value, name or "the constant"), "real", name)
            self._frozen.add(ref.id)
            self._constants.add(ref.id)
            return ref
        if np.ndim(value) == 0:
            return self._builder.apply("constant", value=float(value), shape=(), name=name)
        from backproof.ir.tensor import Tensor

        tensor = Tensor.of(np.asarray(value, dtype=np.float64))
        return self._builder.apply("constant", value=tensor, shape=tensor.shape, name=name)

    def input_nat(self, value: int, name: str = "") -> Nat:
        """A natural number to index with. It may be changed at any time with `set_nat`, also after operations."""
        return self._nat(natural(value), None, name)

    def input_nat_vec(self, values: Sequence[int], name: str = "") -> Nat:
        """A vector of natural numbers to index with; `set_nat_vec` changes it at any time."""
        numbers = naturals(values)
        return self._nat(numbers, len(numbers), name)

    def _nat(self, value: Any, length: int | None, name: str) -> Nat:
        start = sum(1 if nat.length is None else nat.length for nat, _ in self._nats)
        ref = self._leaf(self.domain.value(value, nat_type(length)), "int", name)
        self._frozen.add(ref.id)
        found = Nat(start, length, ref)
        self._nats.append((found, length))
        return found

    def get_nat(self, nat: Nat) -> int:
        """The number at this place."""
        return int(self.domain.array(self._leaves[self._own_nat(nat, vector=False)]))

    def get_nat_vec(self, nat: Nat) -> list[int]:
        """The numbers at this place."""
        return [int(number) for number in self.domain.array(self._leaves[self._own_nat(nat, vector=True)])]

    def set_nat(self, nat: Nat, value: int) -> None:
        """Put another number there: the recorded operations then speak of it."""
        self._replace(self._own_nat(nat, vector=False), natural(value), nat_type(None))

    def set_nat_vec(self, nat: Nat, values: Sequence[int]) -> None:
        """Put other numbers there, as many as before."""
        leaf = self._own_nat(nat, vector=True)
        numbers = naturals(values)
        if len(numbers) != nat.length:
            raise SessionError(f"the place holds {nat.length} numbers, and got {len(numbers)}")
        self._replace(leaf, numbers, nat_type(nat.length))

    def _own_nat(self, nat: Nat, *, vector: bool) -> int:
        if not isinstance(nat, Nat) or (nat.length is not None) != vector:
            raise SessionError(f"expected what {'input_nat_vec' if vector else 'input_nat'} gave, got {nat!r}")
        return self._own(nat.ref).id

    def _replace(self, leaf: int, value: Any, kind: Type) -> None:
        self._leaves[leaf] = self.domain.value(value, kind)
        self._values.clear()

    def _real(self, value: Any, what: str, *, copied: bool = True) -> Value:
        if copied and isinstance(value, np.ndarray):
            value = value.copy()  # what the user does to it later is no part of the session
        try:
            shape = tuple(int(size) for size in (value.shape if hasattr(value, "shape") else np.shape(value)))
            return self.domain.value(value, Type("real", shape))
        except (DomainError, TypeError, ValueError) as error:
            raise SessionError(f"{what}: {error}") from None

    def _leaf(self, value: Value, kind: str, name: str) -> Ref:
        if self._recording:
            raise SessionError(
                f"the leaf {name or 'asked for'} comes after {len(self._builder) - len(self._leaves)} operations. Leaves come "
                "first: take it before the first operation, or call reset_tape() and record anew"
            )
        ref = self._builder.leaf(Type(kind, tuple(value.shape)), name)  # type: ignore[arg-type] # real or int, from the callers above
        self._leaves.append(value)
        return ref

    @property
    def _recording(self) -> bool:
        return len(self._builder) > len(self._leaves)

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────

    def __getattr__(self, name: str) -> Callable[..., Ref]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in OPERATIONS:
            raise AttributeError(f"a session has no operation {name!r}; dir(session) lists them")
        return OPERATIONS[name].method(self._record)

    def _record(self, operation: Operation, /, *given: Any, **params: Any) -> Ref:
        """An operation, recorded whole or, on an error, not at all."""
        taken = [self._given(value) for value in given]
        named = {key: self._given(value) for key, value in params.items()}
        if taken and not isinstance(taken[0], Ref):
            raise SessionError(f"{operation.name} takes references of this session, and got {type(given[0]).__name__}")
        try:
            with self._builder.atomic():
                return operation.function(*taken, **named)
        except _OF_WHAT_WAS_GIVEN as error:
            misuse = operation.misuse(taken, named)
            if misuse or not isinstance(error, GraphError):
                raise SessionError(f"{operation.name}: {misuse or error or type(error).__name__}") from error
            if operation.name in str(error):
                raise
            raise GraphError(f"{operation.name}: {error}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *OPERATIONS})

    def _given(self, value: Any) -> Any:
        if isinstance(value, Nat):
            return self._own(value.ref)
        return self._own(value) if isinstance(value, Ref) else value

    def _own(self, ref: Ref) -> Ref:
        if not isinstance(ref, Ref):
            raise SessionError(f"expected a reference of this session, got {type(ref).__name__}")
        if ref.builder is self._builder:
            return ref
        if ref.builder in self._past:
            raise SessionError(f"%{ref.id} is stale: it was recorded before reset_tape()")
        raise SessionError(f"%{ref.id} is foreign: it belongs to another session")

    # ── values and gradients ────────────────────────────────────────────────────────────────────────────────────────

    def graph(self, *outputs: Ref) -> Graph:
        """What has been recorded, as frozen data."""
        if outputs or self._graph is None or len(self._graph) != len(self._builder):
            graph = self._builder.graph(*(self._own(ref) for ref in outputs))
            if outputs:
                return graph
            self._graph = graph
        return self._graph

    @property
    def leaf_values(self) -> tuple[Value, ...]:
        """The values of the leaves, in order."""
        return tuple(self._leaves)

    @property
    def parameters(self) -> dict[int, Parameter]:
        """The parameters in use, by the leaf that each is."""
        return dict(self._parameters)

    def value(self, ref: Ref) -> Any:
        """The value of a reference, as an array."""
        return self.domain.array(self._evaluated(self._own(ref).id)[ref.id])

    def _evaluated(self, last: int) -> list[Value]:
        """All values up to this one: what is new since the last time is computed now."""
        if not self._values:
            self._values = list(self._leaves)
        if last >= len(self._values):
            nodes = self._builder.nodes(len(self._values))
            for node in nodes[: last + 1 - len(self._values)]:
                x = [self._values[a] for a in node.arguments]
                self._values.append(getattr(self.domain, node.op)(*x, **node.given))
        return self._values

    def compile_tape(self) -> Tape:
        """The tape of what has been recorded, at the present values."""
        graph = self.graph()
        return compile_tape(graph, self.domain, list(self._evaluated(len(graph) - 1)), self._frozen)

    def backward_dense_all(self, out: Ref, seed: Any) -> Gradients:
        """The gradients of all values, of leaves and operations alike, from a seed at `out`."""
        kind = self._own(out).type
        given = seed if seed.__class__.__name__ == "Bound" else self._real(seed, "the seed")
        if tuple(given.shape) != kind.shape:
            raise SessionError(
                f"the seed must have the shape of the output, {list(kind.shape)}, and has {list(given.shape)}"
            )
        return backward(self.compile_tape(), out.id, given)

    def backward_scalar_dense_all(self, loss: Ref) -> Gradients:
        """The gradients of all values from a scalar, seeded with 1."""
        if self._own(loss).shape != ():
            raise SessionError(
                f"the loss must be a scalar, and has shape {list(loss.shape)}; give a seed to backward_dense_all"
            )
        return self.backward_dense_all(loss, 1.0)

    def grad(self, gradients: Gradients, ref: Ref) -> Any:
        """One entry of the dense array, as an array."""
        return self.domain.array(self._entry(gradients, self._own(ref).id))

    def _entry(self, gradients: Gradients, value: int) -> Value:
        expect_gradients(gradients)
        if value >= len(gradients):
            raise SessionError(
                f"%{value} is outside of the gradients, which have {len(gradients)} entries; it was recorded later"
            )
        if value in self._constants:
            raise SessionError(f"{self.graph().name(value)} is a constant; it has no gradient")
        if value in self._frozen:
            raise SessionError(
                f"{self.graph().name(value)} was declared requires_grad=False; its gradient was not computed"
            )
        found, shape = gradients[value], self._builder.type_of(value).shape
        if found is None:
            if not wanted_values(self.graph(), self._frozen)[value]:
                raise SessionError(
                    f"{self.graph().name(value)} depends on nothing that has a gradient; its own was not computed"
                )
            found = self.domain.zeros(shape)
        if tuple(found.shape) != shape:
            raise SessionError(f"the entry of %{value} has shape {list(found.shape)}, and the value has {list(shape)}")
        return found

    def bounds(self, ref: Ref, gradients: Gradients | None = None) -> tuple[Any, Any]:
        """How far rounding may move a value, or its gradient: (certainly, likely) at most. Only `bounded` sessions know."""
        from backproof.engine.bounded import Bounded

        value = self._own(ref).id
        if not isinstance(self.domain, Bounded):
            raise SessionError(f"a session in {self.domain.name} carries no bounds; Session('bounded') does")
        found = self._evaluated(value)[value] if gradients is None else self._entry(gradients, value)
        certain, likely = (np.zeros(ref.shape) if part is None else part for part in (found.certain, found.likely))
        return certain, likely

    # ── forward mode ────────────────────────────────────────────────────────────────────────────────────────────────

    def jvp_dense_all(self, out: Ref, tangents: Sequence[Any]) -> Any:
        """The tangent of `out`, given one tangent per leaf of reals."""
        graph = self.graph()
        if not isinstance(tangents, Sequence | np.ndarray):
            raise SessionError(f"expected one tangent for each leaf of reals, got {type(tangents).__name__}")
        if len(tangents) != len(graph.real_leaves):
            raise SessionError(f"there are {len(graph.real_leaves)} leaves of reals, and got {len(tangents)} tangents")
        given = {}
        for position, (leaf, tangent) in enumerate(zip(graph.real_leaves, tangents, strict=True)):
            value = self._real(tangent, f"tangent {position}")
            if tuple(value.shape) != graph.types[leaf].shape:
                raise SessionError(
                    f"tangent {position} has shape {list(value.shape)}, and its leaf {graph.name(leaf)} has {list(graph.types[leaf].shape)}"
                )
            given[leaf] = value
        return self._tangent(out, given)

    def jvp_leaf(self, out: Ref, leaf: Ref, tangent: Any) -> Any:
        """The tangent of `out` when only this leaf moves."""
        place = self._own(leaf).id
        if place >= len(self._leaves) or leaf.type.kind != "real":
            raise SessionError(f"%{place} is no leaf of reals; a tangent starts at one")
        value = self._real(tangent, "the tangent")
        if tuple(value.shape) != leaf.shape:
            raise SessionError(f"the tangent has shape {list(value.shape)}, and the leaf has {list(leaf.shape)}")
        return self._tangent(out, {place: value})

    def jvp_scalar_leaf(self, out: Ref, leaf: Ref, tangent: float) -> float:
        """The derivative of a scalar in the direction of one scalar leaf, times `tangent`."""
        if self._own(out).shape != () or self._own(leaf).shape != ():
            raise SessionError(
                f"jvp_scalar_leaf takes scalars, and got shapes {list(out.shape)} and {list(leaf.shape)}"
            )
        return float(self.jvp_leaf(out, leaf, tangent))

    def _tangent(self, out: Ref, tangents: dict[int, Value]) -> Any:
        graph, place = self.graph(), self._own(out).id
        if graph.types[place].kind != "real":
            raise SessionError(f"%{place} is {graph.types[place]}; only reals have tangents")
        found = pushforward(graph, self.domain, self._evaluated(len(graph) - 1), tangents)[place]
        return self.domain.array(self.domain.zeros(out.shape) if found is None else found)

    # ── training ────────────────────────────────────────────────────────────────────────────────────────────────────

    def sgd_step_all(self, learning_rate: float, gradients: Gradients) -> None:
        """p ← p − learning_rate·gradient for every parameter in use. A frozen one stays; one used twice moves twice."""
        D = self.domain
        expect_gradients(gradients)
        if not isinstance(learning_rate, SupportsFloat) or not math.isfinite(float(learning_rate)):
            raise SessionError(f"a learning rate is a finite number, not {learning_rate!r}")
        for leaf, parameter in self._parameters.items():
            if not parameter.requires_grad:
                continue
            if leaf >= len(gradients):
                raise SessionError(f"{parameter!r} is leaf %{leaf}, and there are {len(gradients)} gradients")
            gradient = gradients[leaf]
            if gradient is None:
                continue
            if tuple(gradient.shape) != tuple(parameter.value.shape):
                raise SessionError(f"{parameter!r} got a gradient of shape {list(gradient.shape)}")
            rate = D.constant(value=float(learning_rate), shape=tuple(gradient.shape))
            parameter.value = D.sub(parameter.value, D.mul(rate, gradient))

    def reset_tape(self) -> None:
        """Forget all that was recorded. Parameters keep their values; old references become stale."""
        self._past.add(self._builder)
        self._builder.close("its references are stale: they were recorded before reset_tape()")
        self._start()

    # ── evidence ────────────────────────────────────────────────────────────────────────────────────────────────────

    def certify(self, out: Ref | None = None, *, trials: int = 4, seed: int | None = None) -> Certificate:
        """Test, on random elements of a prime field, that the tape of what was recorded computes its gradient."""
        from backproof.session.certify import certify

        if not len(self._builder):
            raise SessionError("nothing was recorded, so there is nothing to certify")
        last = Ref(self._builder, len(self._builder) - 1) if out is None else self._own(out)
        graph, array = self.graph(last), self.domain.array
        given = {i: array(self._leaves[i]) for i, leaf in enumerate(graph.leaves) if leaf.type.kind != "real"}
        return certify(graph, integers=given, frozen=self._frozen, trials=trials, seed=seed)

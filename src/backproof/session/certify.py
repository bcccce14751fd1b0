"""Identity testing: is the tape's backward pass *this graph's* backpropagation, and is that the adjoint of its forward mode?

On random elements of GF(2⁶¹ − 1), with every function that is not rational as a keyed random symbol and every decision random,
three evaluations must agree:

    A  the tape loop                      (what a session runs)
    B  backpropagation as a definition    (`ir.backprop`, which shares no code with the loop)
    C  forward mode                       ⟨jvp(dx), seed⟩ = ⟨dx, vjp(seed)⟩

Beside it, where the numbers stay small enough: leaves in {−1, 0, 1} make float64 exact in any order of summation, so the real
float64 kernels are compared by equality with integers.

What this shows is said in TRUST.md, and what it does not: that a derivative rule is the derivative (a jvp and a vjp that are wrong
together pass), how floats round, and any other graph.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from backproof.engine import degree
from backproof.engine.domain import ArrayDomain, Domain
from backproof.engine.evaluate import evaluate, pushforward
from backproof.engine.exact import WholeKernels
from backproof.engine.field import FieldKernels, P, multiply, total_of
from backproof.engine.room import require_room
from backproof.errors import SessionError
from backproof.ir.backprop import backprop, differentiable
from backproof.ir.graph import Graph
from backproof.ir.primitive import Value
from backproof.ir.text import digest
from backproof.session.tape import Gradients, Tape, compile_tape, run_backward

Loop = Callable[[Tape, Gradients], Gradients]
_BYTES = 4 * 8  # for each number: its value, its gradient twice, its tangent


@dataclass(frozen=True)
class Refusal:
    """Something that did not agree."""

    check: str
    """tape = definition, adjoint, or float64 = integers."""
    place: str
    """The value, by number, operation and name."""
    said: str
    found: str
    because: str


@dataclass(frozen=True)
class Certificate:
    """What identity testing found."""

    graph: str
    """The digest of the graph."""
    holds: bool
    refusals: tuple[Refusal, ...]
    values: int
    numbers: int
    """How many gradient entries were compared in each trial."""
    trials: int
    seed: int
    degree: int
    """The largest total degree of an identity that was tested."""
    symbols: int
    """How many times a symbol was applied."""
    error: float
    """The chance that a false identity passed all trials."""
    integers: str
    """What became of the exact-integer check of the float64 kernels."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def __str__(self) -> str:
        head = "holds" if self.holds else "DOES NOT HOLD"
        lines = [
            f"{head}: the tape's backward pass of {self.graph[:19]}…, {self.values} values, {self.numbers} gradient entries",
            f"  identity testing   {self.trials} trials over GF(2^61 − 1), seed {self.seed}",
            f"  chance of error    {self.error:.1e} (degree {self.degree}, {self.symbols} applications of symbols)",
            f"  float64 kernels    {self.integers}",
        ]
        for refusal in self.refusals:
            lines += [
                f"  ✗ {refusal.check} at {refusal.place}",
                f"      said {refusal.said}, found {refusal.found}",
                f"      {refusal.because}",
            ]
        return "\n".join(lines)


def certify(
    graph: Graph,
    *,
    integers: Mapping[int, Any] | None = None,
    frozen: Collection[int] = (),
    trials: int = 4,
    seed: int | None = None,
    loop: Loop = run_backward,
) -> Certificate:
    """Test the backward pass of a graph from its first output.

    `integers` gives the values of leaves that are not real; `frozen` are the leaves that the tape computes no gradient for.
    """
    if not graph.outputs:
        raise SessionError("the graph has no output to differentiate")
    out = graph.outputs[0]
    if graph.types[out].kind != "real":
        raise SessionError(f"the output {graph.name(out)} is {graph.types[out]}; only reals have gradients")
    if not _is_whole(trials) or trials < 1:
        raise SessionError(f"{trials!r} trials show nothing; a whole number from 1 on")
    if seed is not None and (not _is_whole(seed) or seed < 0):
        raise SessionError(f"seed {seed!r}: a whole number from 0 on")
    require_room(graph, _BYTES)
    seed = secrets.randbits(63) if seed is None else seed
    # What is compared is for the graph to say, and not for the tape, which is judged.
    compared = sorted((value for value in differentiable(graph, frozen) if value <= out), reverse=True)
    test = _Subject(graph, out, integers or {}, frozen, compared, loop)
    refusals: list[Refusal] = []
    symbols = 0
    for trial in range(trials):
        found, applied = _trial(test, np.random.default_rng([seed, trial]))
        refusals += found
        symbols = max(symbols, applied)
        if found:
            break
    said, exactness = _integers(test, np.random.default_rng([seed, trials]))
    refusals += exactness
    highest = degree.of_backward(graph, out)
    # Schwartz–Zippel for the identity, and the chance that two different arguments of a symbol happened to be equal.
    per_trial = min(Fraction(1), Fraction(highest * (2 + symbols * symbols), 2 * P))
    return Certificate(
        graph=digest(graph),
        holds=not refusals,
        refusals=tuple(refusals),
        values=len(graph),
        numbers=sum(graph.types[value].size for value in compared),
        trials=trials,
        seed=seed,
        degree=highest,
        symbols=symbols,
        error=float(per_trial**trials),
        integers=said,
    )


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


# ── identity testing ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Subject:
    """What is tested: a tape of this graph, from this output, run by this loop."""

    graph: Graph
    out: int
    integers: Mapping[int, Any]
    frozen: Collection[int]
    compared: Sequence[int]
    loop: Loop

    def run(self, D: Domain, values: Sequence[Value], seed: Value) -> Gradients:
        """The gradients that the tape computes."""
        tape = compile_tape(self.graph, D, values, self.frozen)
        gradients: Gradients = [None] * len(tape)
        gradients[self.out] = seed
        return self.loop(tape, gradients)


def _trial(test: _Subject, rng: np.random.Generator) -> tuple[list[Refusal], int]:
    graph, out = test.graph, test.out
    kernels = FieldKernels(int(rng.integers(1 << 62)))
    D = ArrayDomain("field", kernels)

    def elements(shape: Sequence[int]) -> Value:
        return rng.integers(0, P, tuple(shape), dtype=np.uint64)

    values = evaluate(graph, D, leaves_of(graph, test.integers, rng, elements))
    seed = elements(graph.types[out].shape)
    tangents = {leaf: elements(graph.types[leaf].shape) for leaf in graph.real_leaves}

    by_tape = test.run(D, values, seed)
    by_definition = backprop(graph, D, values, {out: seed})
    refusals = _differences(graph, by_tape, by_definition, "tape = definition", test.compared)

    tangent = pushforward(graph, D, values, tangents)[out]
    forward = _inner(tangent, seed)
    reverse = sum(_inner(dx, by_definition[leaf]) for leaf, dx in tangents.items()) % P
    if forward != reverse:
        refusals += _not_adjoint(graph, D, values, elements) or [
            Refusal(
                "adjoint",
                _place(graph, out),
                f"{int(forward)}",
                f"{int(reverse)}",
                "⟨jvp(dx), seed⟩ ≠ ⟨dx, vjp(seed)⟩",
            )
        ]
    return refusals, kernels.symbols_used


def _inner(a: Value | None, b: Value | None) -> int:
    """⟨a, b⟩ in the field; None is 0."""
    return 0 if a is None or b is None else int(total_of(multiply(a, b), None))


def leaves_of(
    graph: Graph,
    integers: Mapping[int, Any],
    rng: np.random.Generator,
    reals: Callable[[Sequence[int]], Value],
) -> list[Value]:
    """Values for the leaves: reals at random, the others as given, or at random within what they index."""
    found: list[Value] = []
    for i, leaf in enumerate(graph.leaves):
        if i in integers:
            found.append(np.asarray(integers[i]))
        elif leaf.type.kind == "real":
            found.append(reals(leaf.type.shape))
        elif leaf.type.kind == "bool":
            found.append(rng.integers(0, 2, leaf.type.shape).astype(np.bool_))
        else:
            found.append(rng.integers(0, max(1, _reach(graph, i)), leaf.type.shape))
    return found


def _reach(graph: Graph, value: int) -> int:
    """The size of the axis that an integer indexes, directly or after being moved; 16 when it indexes nothing."""
    for user, position in graph.consumers[value]:
        node = graph.node(user)
        assert node is not None  # only nodes use values
        if node.op.startswith("gather") and position == 1:
            return graph.types[node.arguments[0]].shape[int(node.given["axis"])]
        if node.op.startswith("scatter") and position == 0:
            return int(node.given["size"])
        if graph.types[user].kind == "int" and node.op in (
            "reshape",
            "broadcast",
            "transpose",
            "slice",
            "concat",
        ):
            return _reach(graph, user)
    return 16


def _differences(
    graph: Graph,
    tape: Sequence[Value | None],
    definition: Sequence[Value | None],
    check: str,
    order: Iterable[int],
) -> list[Refusal]:
    """Where two runs of one graph part: the first value in the order of computation, since all others may follow from it."""
    for value in order:
        a, b = tape[value], definition[value]
        zero = np.zeros(graph.types[value].shape, dtype=np.uint64)  # what no contribution has reached
        left, right = zero if a is None else np.asarray(a), zero if b is None else np.asarray(b)
        if left.shape != right.shape:
            return [
                Refusal(
                    check,
                    _place(graph, value),
                    f"shape {list(left.shape)}",
                    f"shape {list(right.shape)}",
                    "shapes differ",
                )
            ]
        wrong = np.atleast_1d(left != right)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0]) if left.ndim else ()
            because = f"{int(wrong.sum())} of {wrong.size} entries differ, the first at {list(at)}"
            return [Refusal(check, _place(graph, value), f"{left[at]}", f"{right[at]}", because)]
    return []


def _not_adjoint(
    graph: Graph, D: ArrayDomain, values: Sequence[Value], elements: Callable[[Sequence[int]], Value]
) -> list[Refusal]:
    """The nodes whose own jvp and vjp are not adjoint, input by input."""
    refusals = []
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        if graph.types[value].kind != "real":
            continue
        x = tuple(values[a] for a in node.arguments)
        for i, a in enumerate(node.arguments):
            if graph.types[a].kind != "real":
                continue
            push, pull = node.primitive.push(i), node.primitive.pull(i)
            dx, gy = elements(graph.types[a].shape), elements(graph.types[value].shape)
            dy = None if push is None else push(D, x, values[value], dx, **node.given)
            gx = None if pull is None else pull(D, x, values[value], gy, **node.given)
            forward, reverse = _inner(dy, gy), _inner(dx, gx)
            if forward != reverse:
                because = f"the jvp and the vjp of input {i} are not adjoint: ⟨jvp(dx), gy⟩ ≠ ⟨dx, vjp(gy)⟩"
                refusals.append(Refusal("adjoint", _place(graph, value), f"{forward}", f"{reverse}", because))
    return refusals


def _place(graph: Graph, value: int) -> str:
    node = graph.node(value)
    label = f"%{value} {'leaf' if node is None else node.op}"
    name = graph.name(value)
    return label if name.startswith("%") else f"{label} ({name})"


# ── exact integers ──────────────────────────────────────────────────────────────────────────────────────────────────


def _integers(test: _Subject, rng: np.random.Generator) -> tuple[str, list[Refusal]]:
    """float64 against integers, on leaves in {−1, 0, 1}, where nothing can be rounded.

    A constant that is not whole is another number here, the same on both sides: what is compared are the kernels and the order of
    the loop, which are the same for any constant, and not what a constant should be.
    """
    graph, out = test.graph, test.out
    from backproof.engine.exactfloat import LIMIT, largest, small_integers

    leaves = leaves_of(graph, test.integers, rng, lambda shape: rng.integers(-1, 2, tuple(shape)))
    bound = largest(graph, out, leaves)
    if bound > LIMIT:
        return f"not run: numbers may reach {bound:.2g}, beyond 2^53, where float64 is no longer exact", []
    kernels = WholeKernels()
    D, E = small_integers(), ArrayDomain("whole numbers", kernels)
    one = np.ones(graph.types[out].shape)
    values, expected = evaluate(graph, D, leaves), evaluate(graph, E, leaves)
    by_floats = test.run(D, values, one)
    by_integers = backprop(graph, E, expected, {out: E.value(one, graph.types[out])})
    refusals = _differences(graph, values, expected, "float64 = integers, forward", range(len(graph)))
    refusals += _differences(graph, by_floats, by_integers, "float64 = integers, backward", test.compared)
    if refusals:
        return "differs from integers", refusals
    return f"equal to integers in every entry (no number exceeds {bound:.3g}{_stood_in(sorted(kernels.noted))})", []


def _stood_in(noted: Sequence[str]) -> str:
    """What was replaced by whole numbers, as far as there is room."""
    if not noted:
        return ""
    return f"; stood in for: {', '.join(noted[:3])}{f' and {len(noted) - 3} more' if len(noted) > 3 else ''}"

"""A recorded graph, given to the proof kernel: does the proved backpropagation compute the numbers that the tape computed?

Leaves get small integers. The tape runs in the exact domain, where functions that leave the integers are polynomials that stand in
for them. The same graph is written as a program of the theory in `proofs/`, whose index tables come from its own index arithmetic; then
Coq's kernel, or the oracle extracted from the theory, computes every value and every gradient, and accepts or rejects the record.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backproof.engine.domain import ArrayDomain
from backproof.engine.exact import SURROGATES, WholeKernels
from backproof.engine.room import require_room
from backproof.errors import BackproofError, DomainError, SessionError
from backproof.ir.graph import Graph
from backproof.ir.text import digest
from backproof.session import theory
from backproof.session.certify import leaves_of
from backproof.session.proof_program import Program, coq_lists, numeral
from backproof.session.proof_translation import Writer, given, integers, translate
from backproof.session.tape import compile_tape, run_backward

By = Literal["kernel", "oracle"]
Numbers = list[tuple[int, ...]]
KERNEL_WORK = 150_000
"""About how many products and numbers the kernel is asked for before the oracle is taken instead."""
_BYTES = (
    400  # for each number: Python objects of its value and gradient, the words that say them, and those that come back
)
LARGEST_BITS = 1 << 15


@dataclass(frozen=True)
class Record:
    """What Python computed, as it is handed to be checked."""

    program: Program
    values: Numbers
    gradients: Numbers
    valued: tuple[int, ...]
    """The graph's value of each entry of `values`."""
    graded: tuple[int, ...]
    """The graph's value of each entry of `gradients`."""
    places: tuple[int, ...]
    """Where each of the graph's values is among the program's."""
    frozen: dict[str, int]
    stand_ins: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """The first number that was not confirmed."""

    what: str
    """value or gradient."""
    place: str
    position: int
    recorded: int | None
    proved: int | None


@dataclass(frozen=True)
class Proof:
    """What the kernel or the oracle said."""

    graph: str
    holds: bool
    by: By
    numbers: int
    seed: int
    seconds: float
    difference: Difference | None
    stand_ins: tuple[str, ...]
    """Functions and constants that were replaced by whole numbers and polynomials."""
    frozen: dict[str, int]
    """operation → how many decisions were taken from the record."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    def __str__(self) -> str:
        who = "Coq's kernel" if self.by == "kernel" else "the oracle extracted from the theory"
        verb = "holds" if self.holds else "DOES NOT HOLD"
        lines = [
            f"{verb}: {self.numbers} numbers of {self.graph[:19]}…, computed again by {who} in {self.seconds:.2f} s"
        ]
        if self.difference is not None:
            d = self.difference
            lines += [
                f"  ✗ {d.what} of {d.place}, entry {d.position}: recorded {_said(d.recorded)}; proved: {_said(d.proved)}"
            ]
        lines.append(f"  leaves         small whole numbers, seed {self.seed}")
        if self.stand_ins:
            lines.append(f"  stood in for   {', '.join(self.stand_ins)}")
        if self.frozen:
            taken = ", ".join(f"{op} ({count})" for op, count in sorted(self.frozen.items()))
            lines.append(f"  decided before {taken}: taken from the record, not decided by the theory")
        return "\n".join(lines)


def _said(value: int | None) -> str:
    return "no number, or one too long to show" if value is None else numeral(value)


def record(graph: Graph, seed: int) -> Record:
    """Values and gradients of a graph's first output, by the tape, in whole numbers."""
    if not graph.outputs:
        raise SessionError("the graph has no output to differentiate")
    out = graph.outputs[0]
    if graph.types[out].kind != "real":
        raise SessionError(f"the output {graph.name(out)} is {graph.types[out]}; only reals have gradients")
    rng = np.random.default_rng(seed)
    kernels = WholeKernels()
    D = ArrayDomain("whole numbers", kernels)
    leaves = leaves_of(graph, {}, rng, lambda shape: rng.integers(-2, 3, tuple(shape)))
    values = _evaluated(graph, D, leaves)
    cotangent = kernels.leaf(rng.integers(1, 4, graph.types[out].shape), "real")
    tape = compile_tape(graph, D, values)
    start: list[Any] = [None] * len(graph)
    start[out] = cotangent
    gradients = run_backward(tape, start)
    translated = translate(graph, values)
    graded = tuple(value for value in range(len(graph)) if tape.wanted[value])
    return Record(
        program=_program(translated, out, cotangent),
        values=[integers(value) for value in values],
        gradients=[_written_out(gradients[value], graph.types[value].size) for value in graded],
        valued=tuple(range(len(graph))),
        graded=graded,
        places=tuple(translated.place),
        frozen=translated.frozen,
        stand_ins=(*_functions(graph), *sorted(kernels.noted)),
    )


def _written_out(gradient: Any, size: int) -> tuple[int, ...]:
    """A gradient's numbers; None is the zero tensor."""
    return (0,) * size if gradient is None else integers(gradient)


def _evaluated(graph: Graph, D: ArrayDomain, leaves: Sequence[Any]) -> list[Any]:
    """Every value; numbers that grow without end are refused as soon as they do."""
    values = [D.value(given, leaf.type) for given, leaf in zip(leaves, graph.leaves, strict=True)]
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        values.append(D.apply(node.primitive, *(values[a] for a in node.arguments), **node.given))
        largest = max((abs(int(x)) for x in np.ravel(values[value]).tolist()), default=0)
        if largest.bit_length() > LARGEST_BITS:
            raise DomainError(
                f"{_place(graph, value)} has numbers of {largest.bit_length()} bits: the graph is too deep for exact "
                "arithmetic; 'bp certify' has no such limit"
            )
    return values


def _program(translated: Writer, out: int, cotangent: Any) -> Program:
    count = len(translated.graph.leaves)
    return Program(
        leaves=tuple(given(value) for value in translated.values[:count]),
        instructions=tuple(translated.instructions),
        out=translated.place[out],
        seed=integers(cotangent),
    )


def _functions(graph: Graph) -> list[str]:
    """The functions that were replaced by polynomials."""
    used = {node.op for node in graph.nodes}
    found = sorted(used & (set(SURROGATES) | {"logsumexp"}))
    return [*found, *(["1/x"] if "div" in used else [])]


# ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def prove(graph: Graph, *, seed: int = 0, by: By | None = None, keep: Path | None = None) -> Proof:
    """Record a graph's numbers and have them computed again. Without `by`, the kernel, or the oracle for large graphs."""
    theory.require("coqc", "coq")
    require_room(graph, _BYTES)
    return check(graph, record(graph, seed), seed=seed, by=by, keep=keep)


def check(graph: Graph, found: Record, *, seed: int, by: By | None = None, keep: Path | None = None) -> Proof:
    """Have recorded numbers computed again, and compared entry by entry."""
    by = by or ("kernel" if _work(graph) * _width(found) ** 2 <= KERNEL_WORK else "oracle")
    if keep is not None:
        partial = keep.with_name(f".{keep.name}.{os.getpid()}")  # whole or not at all
        partial.write_text(certificate(found), encoding="utf-8")
        partial.replace(keep)
    ask: Callable[[Graph, Record], Difference | None] = _by_kernel if by == "kernel" else _by_oracle
    (theory.checked_theory if by == "kernel" else theory.oracle)()  # outside the time that is reported
    start = time.perf_counter()
    difference = ask(graph, found)
    return Proof(
        graph=digest(graph),
        holds=difference is None,
        by=by,
        numbers=sum(map(len, found.values)) + sum(map(len, found.gradients)),
        seed=seed,
        seconds=time.perf_counter() - start,
        difference=difference,
        stand_ins=found.stand_ins,
        frozen=found.frozen,
    )


def _width(found: Record) -> float:
    """How many words of 64 bits the largest number takes; the kernel's products take the square of it."""
    largest = max((abs(x) for numbers in (*found.values, *found.gradients) for x in numbers), default=0)
    return max(1.0, largest.bit_length() / 64)


def _work(graph: Graph) -> int:
    """About how many products and numbers the graph takes."""
    work = sum(kind.size for kind in graph.types)
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        a = graph.types[node.arguments[0]] if node.arguments else None
        if node.op == "dot_general" and a is not None:
            contracted = [a.shape[axis] for axis in node.given["contract"][0]]
            work += 3 * graph.types[value].size * int(np.prod(contracted, dtype=np.int64))
        elif node.op == "conv":
            work += 3 * graph.types[value].size * int(np.prod(graph.types[node.arguments[1]].shape[1:], dtype=np.int64))
        elif a is not None:
            work += a.size
    return work


def _wanted(found: Record) -> tuple[str, str]:
    """Of the program's values, those that the graph has, and of its gradients, those that the tape keeps."""
    count = len(found.program.leaves) + len(found.program.instructions)
    lists = []
    for chosen in (found.valued, found.graded):
        places = {found.places[value] for value in chosen}
        lists.append("[" + ";".join("true" if place in places else "false" for place in range(count)) + "]")
    return lists[0], lists[1]


def certificate(found: Record) -> str:
    """The file that the kernel is asked to accept."""
    valued, graded = _wanted(found)
    return (
        f"{_definitions(found)}"
        "(** The kernel runs the proved backpropagation, and accepts this line only if every number agrees. *)\n"
        f"Theorem certificate :\n  outcome ({valued}, {graded}) (run_Z leaves program {found.program.out}%nat seed)"
        " = Some (values, gradients).\n"
        "Proof. vm_cast_no_check (eq_refl (Some (values, gradients))). Qed.\n"
        "Definition meaning := certificate_sound _ _ _ _ _ certificate.\n"
        "Print Assumptions meaning.\n"
    )


def _definitions(found: Record) -> str:
    return (
        "(** Recorded by backproof. Check with: coqc -Q <proofs> Backproof <this file> *)\n"
        "Require Import List NArith ZArith.\nImport ListNotations.\n"
        "From Backproof Require Import Tensor Table Index Program.\nOpen Scope Z_scope.\n"
        f"{found.program.coq()}"
        f"Definition values : list (list Z) := {coq_lists(found.values)}.\n"
        f"Definition gradients : list (list Z) := {coq_lists(found.gradients)}.\n"
    )


def _by_kernel(graph: Graph, found: Record) -> Difference | None:
    checked = theory.checked_theory()
    with tempfile.TemporaryDirectory(prefix="backproof-") as folder:
        place = Path(folder)
        (place / "Certificate.v").write_text(certificate(found), encoding="utf-8")
        done = theory.run((*theory.coqc_flags(checked), "Certificate.v"), place)
        if done.returncode == 0 and "Closed under the global context" in done.stdout:
            return None
        valued, graded = _wanted(found)
        where = (
            f"{_definitions(found)}Eval vm_compute in difference ({valued}, {graded})"
            f" (run_Z leaves program {found.program.out}%nat seed) (values, gradients).\n"
        )
        (place / "Where.v").write_text(where, encoding="utf-8")
        said = theory.run((*theory.coqc_flags(checked), "Where.v"), place)
    difference = _read_difference(graph, found, said.stdout)
    if difference is None:
        raise BackproofError(
            f"the kernel neither accepted the record nor found a difference:\n{(done.stderr + done.stdout + said.stderr)[-2000:]}"
        )
    return difference


_FOUND = re.compile(r"Some \((\d+), \((\d+), (None|Some \(?-?\d+\)?), (None|Some \(?-?\d+\)?)\)\)")


def _read_difference(graph: Graph, found: Record, said: str) -> Difference | None:
    """What the kernel printed: (first difference of values, first difference of gradients)."""
    text = " ".join(said.replace("%Z", "").replace("%nat", "").split())
    match = re.search(r"= Some \((.*)\) : option", text)
    if match is None:
        return None
    halves = match[1]
    in_values = not halves.startswith("None")
    numbers = _FOUND.search(halves)
    if numbers is None:
        return None
    index, position = int(numbers[1]), int(numbers[2])
    proved, recorded = (_shown(part) for part in numbers.group(3, 4))
    value = (found.valued if in_values else found.graded)[index]
    return Difference("value" if in_values else "gradient", _place(graph, value), position, recorded, proved)


def _shown(printed: str) -> int | None:
    """A number as the kernel prints an option of one; Python reads no decimal of more than 4300 digits."""
    return None if printed == "None" or len(printed) > 4000 else int(printed[5:].strip("()"))


def _by_oracle(graph: Graph, found: Record) -> Difference | None:
    done = theory.run((str(theory.oracle()),), Path(tempfile.gettempdir()), found.program.words())
    if done.returncode != 0:
        raise BackproofError(f"the oracle stopped: {done.stderr[-2000:]}")
    lines = done.stdout.split("\n")
    count = len(found.program.leaves) + len(found.program.instructions)
    for what, chosen, said, offset in (
        ("value", found.valued, found.values, 0),
        ("gradient", found.graded, found.gradients, count),
    ):
        for value, numbers in zip(chosen, said, strict=True):
            proved = tuple(int(word, 0) for word in lines[offset + found.places[value]].split())
            if proved != numbers:
                return _first_difference(what, _place(graph, value), numbers, proved)
    return None


def _first_difference(what: str, place: str, recorded: tuple[int, ...], proved: tuple[int, ...]) -> Difference:
    for position in range(max(len(recorded), len(proved))):
        a = recorded[position] if position < len(recorded) else None
        b = proved[position] if position < len(proved) else None
        if a != b:
            return Difference(what, place, position, a, b)
    raise AssertionError("equal numbers were said to differ")


def _place(graph: Graph, value: int) -> str:
    node, name = graph.node(value), graph.name(value)
    label = f"%{value} {'leaf' if node is None else node.op}"
    return label if name.startswith("%") else f"{label} ({name})"

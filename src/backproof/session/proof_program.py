"""Recorded graphs as the theory takes them (proofs/Program.v): data, written as Coq terms or as the oracle's words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]

# ── functions of single elements ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Expr:
    """A function of an element's arguments, and, in a slope, of the result after them."""

    head: str
    """Var, Num, Add, Mul, Opp, Pow or Poly: the constructor's name in the theory."""
    parts: tuple[Expr, ...] = ()
    numbers: tuple[int, ...] = ()

    def __add__(self, other: Expr) -> Expr:
        return Expr("Add", (self, other))

    def __mul__(self, other: Expr) -> Expr:
        return Expr("Mul", (self, other))

    def __neg__(self) -> Expr:
        return Expr("Opp", (self,))

    def __sub__(self, other: Expr) -> Expr:
        return self + -other

    def __pow__(self, other: Expr) -> Expr:
        return Expr("Pow", (self, other))

    def coq(self) -> str:
        """As a Coq term."""
        parts = " ".join(part.coq() for part in self.parts)
        if self.head == "Var":
            return f"(Var {self.numbers[0]}%nat)"
        if self.head == "Num":
            return f"(Num {_integer(self.numbers[0])})"
        return f"({self.head} {_integers(self.numbers)} {parts})" if self.numbers else f"({self.head} {parts})"

    def words(self) -> str:
        """As the oracle reads it."""
        sign = {"Var": "v", "Num": "n", "Add": "+", "Mul": "*", "Opp": "-", "Pow": "^", "Poly": "p"}[self.head]
        own = _counted(self.numbers) if self.head == "Poly" else " ".join(map(str, self.numbers))
        return " ".join(filter(None, (sign, own, *(part.words() for part in self.parts))))


def var(i: int) -> Expr:
    """Argument i."""
    return Expr("Var", (), (i,))


def num(value: int) -> Expr:
    """A constant."""
    return Expr("Num", (), (value,))


def poly(coefficients: Sequence[int], x: Expr) -> Expr:
    """A polynomial, its constant first."""
    return Expr("Poly", (x,), tuple(coefficients))


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Table:
    """An index table of proofs/Index.v by its name, with its static parameters: the theory does the index arithmetic."""

    name: str
    parameters: tuple[tuple[int, ...] | int | bool, ...]

    SIGNED = ("gather", "scatter_add", "gather_along", "scatter_along", "conv")
    """Tables with a list of integers, which may be negative; every other number is a natural one."""

    def coq(self) -> str:
        """As a Coq term."""
        return f"({self.name}_table {' '.join(self._coq(i, p) for i, p in enumerate(self.parameters))})"

    def _coq(self, position: int, given: tuple[int, ...] | int | bool) -> str:
        if isinstance(given, bool):
            return "true" if given else "false"
        if isinstance(given, int):
            return f"{given}%N"
        last_list = max(i for i, p in enumerate(self.parameters) if isinstance(p, tuple))
        if self.name in self.SIGNED and position == last_list:
            return _integers(given)
        return f"[{';'.join(map(str, given))}]%N"

    def words(self) -> str:
        """As the oracle reads it."""
        own = (_counted(p) if isinstance(p, tuple) else str(int(p)) for p in self.parameters)
        return " ".join((self.name, *own))


# ── instructions ────────────────────────────────────────────────────────────────────────────────────────────────────

Entries = tuple[tuple[int, int, int], ...]
"""(i, c, k): y_k += c·x_i."""


@dataclass(frozen=True, slots=True)
class Given:
    """A constant, or a decision that was recorded."""

    shape: Shape
    numbers: tuple[int, ...]

    def coq(self) -> str:
        return f"Given {_shape(self.shape)} {_integers(self.numbers)}"

    def words(self) -> str:
        return f"given {_counted(self.shape)} {_counted(self.numbers)}"


@dataclass(frozen=True, slots=True)
class Elementwise:
    """f of some values of one shape; a slope of None says that the argument has no derivative."""

    f: Expr
    slopes: tuple[Expr | None, ...]
    arguments: tuple[int, ...]

    def coq(self) -> str:
        slopes = ";".join("None" if slope is None else f"Some {slope.coq()}" for slope in self.slopes)
        return f"Elementwise {self.f.coq()} [{slopes}] {_places(self.arguments)}"

    def words(self) -> str:
        slopes = " ".join("none" if slope is None else f"some {slope.words()}" for slope in self.slopes)
        return f"elementwise {self.f.words()} {len(self.slopes)} {slopes} {_counted(self.arguments)}"


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum of the arguments' images under their tables."""

    shape: Shape
    sources: tuple[tuple[int, Table], ...]

    def coq(self) -> str:
        return f"Linear {_shape(self.shape)} [{';'.join(f'({a}%nat,{table.coq()})' for a, table in self.sources)}]"

    def words(self) -> str:
        sources = " ".join(f"{a} {table.words()}" for a, table in self.sources)
        return f"linear {_counted(self.shape)} {len(self.sources)} {sources}"


@dataclass(frozen=True, slots=True)
class Bilinear:
    """The products that a table names, added up."""

    shape: Shape
    table: Table
    left: int
    right: int

    def coq(self) -> str:
        return f"Bilinear {_shape(self.shape)} {self.table.coq()} {self.left}%nat {self.right}%nat"

    def words(self) -> str:
        return f"bilinear {_counted(self.shape)} {self.table.words()} {self.left} {self.right}"


@dataclass(frozen=True, slots=True)
class Selected:
    """An extreme, as it was decided: which element is the value, and how the derivative is shared."""

    shape: Shape
    argument: int
    forward: Entries
    jacobian: Entries

    def coq(self) -> str:
        return f"Selected {_shape(self.shape)} {self.argument}%nat {_entries(self.forward)} {_entries(self.jacobian)}"

    def words(self) -> str:
        entries = " ".join(
            f"{len(table)} {' '.join(f'{i} {c} {k}' for i, c, k in table)}" for table in (self.forward, self.jacobian)
        )
        return f"selected {_counted(self.shape)} {self.argument} {entries}"


@dataclass(frozen=True, slots=True)
class Product:
    """The products of what a table brings together."""

    shape: Shape
    table: Table
    argument: int

    def coq(self) -> str:
        return f"Product {_shape(self.shape)} {self.argument}%nat {self.table.coq()}"

    def words(self) -> str:
        return f"product {_counted(self.shape)} {self.table.words()} {self.argument}"


@dataclass(frozen=True, slots=True)
class Pooled:
    """after(Σ before(xᵢ)), with the slope weight(xᵢ, y)."""

    shape: Shape
    table: Table
    argument: int
    before: Expr
    after: Expr
    weight: Expr

    def coq(self) -> str:
        rest = " ".join(e.coq() for e in (self.before, self.after, self.weight))
        return f"Pooled {_shape(self.shape)} {self.argument}%nat {self.table.coq()} {rest}"

    def words(self) -> str:
        rest = " ".join(e.words() for e in (self.before, self.after, self.weight))
        return f"pooled {_counted(self.shape)} {self.table.words()} {self.argument} {rest}"


@dataclass(frozen=True, slots=True)
class Stop:
    """The argument, without derivative."""

    argument: int

    def coq(self) -> str:
        return f"Stop {self.argument}%nat"

    def words(self) -> str:
        return f"stop {self.argument}"


Instruction = Given | Elementwise | Linear | Bilinear | Selected | Product | Pooled | Stop


@dataclass(frozen=True, slots=True)
class Program:
    """A whole recorded graph."""

    leaves: tuple[Given, ...]
    instructions: tuple[Instruction, ...]
    out: int
    seed: tuple[int, ...]

    def coq(self) -> str:
        """As definitions of `leaves`, `program` and `seed`."""
        leaves = ";\n  ".join(f"({_shape(leaf.shape)}, {_integers(leaf.numbers)})" for leaf in self.leaves)
        program = ";\n  ".join(instruction.coq() for instruction in self.instructions)
        return (
            f"Definition leaves : list (shape * list Z) := [\n  {leaves}].\n"
            f"Definition program : list (instr Z) := [\n  {program}].\n"
            f"Definition seed : list Z := {_integers(self.seed)}.\n"
        )

    def words(self) -> str:
        """As the oracle reads it."""
        leaves = (f"{_counted(leaf.shape)} {_counted(leaf.numbers)}" for leaf in self.leaves)
        body = (instruction.words() for instruction in self.instructions)
        lines = (len(self.leaves), *leaves, len(self.instructions), *body, f"{self.out} {_counted(self.seed)}")
        return "\n".join(map(str, lines)) + "\n"


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def numeral(value: int) -> str:
    """A whole number as text; long ones in base 16, which takes no longer than it is long."""
    return str(value) if value.bit_length() <= 1024 else hex(value)


def _integer(value: int) -> str:
    return numeral(value) if value >= 0 else f"({numeral(value)})"


def _integers(values: Iterable[int]) -> str:
    return f"[{';'.join(map(numeral, values))}]%Z"


def coq_lists(lists: Iterable[Sequence[int]]) -> str:
    """Lists of integers, as a Coq term."""
    return "[" + ";\n  ".join(_integers(one) for one in lists) + "]"


def _places(values: Iterable[int]) -> str:
    return f"[{';'.join(map(str, values))}]%nat"


def _shape(shape: Shape) -> str:
    return f"(shape_of [{';'.join(map(str, shape))}]%N)"


def _entries(entries: Entries) -> str:
    return "[" + ";".join(f"({i}%N,{_integer(c)},{k}%N)" for i, c, k in entries) + "]"


def _counted(values: Sequence[int]) -> str:
    return " ".join(map(numeral, (len(values), *values)))

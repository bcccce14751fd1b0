"""What a rule is: a number, a statement, and functions that *derive* claims. `verify` alone compares.

A claim says where, what is said there, and what it should be. There are three: an equation between numbers, for all
records of a block at once; a label, judged once for all records of a shape; the keys of an object or list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backproof.engine.scalar_domain import Positions
from backproof.receipt.columns import Columns, Path
from backproof.rules.ball import FLOAT32, FLOAT64, Ball, Reals, nine_digit_radius, radius_by_exponent
from backproof.rules.layout import Layout


class Equation(NamedTuple):
    """`said` columns, each of which should lie in the ball `found`, for every record.

    `given` are the columns from which `found` was derived. Where one of them is missing there is no equation: the
    missing column has its own claim.
    """

    said: Positions
    found: Ball
    because: str
    given: tuple[Positions, ...] = ()
    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # places to report, where the columns do not say them
    rows: Positions | None = None  # the records that it speaks of; all, if none are named
    earlier: bool = False  # whether the given columns are those of the records before


class Label(NamedTuple):
    """A text or flag that should be another."""

    path: Path
    said: Any
    expected: Any
    because: str
    id: str = ""


class Keys(NamedTuple):
    """The keys of an object, or the ids of a list, that should be exactly these, each once."""

    path: Path
    said: tuple[str, ...]
    expected: tuple[str, ...]
    because: str


class Wrong(NamedTuple):
    """Something that cannot be right whatever it is compared with."""

    path: str
    message: str
    said: Any = None
    expected: Any = None
    id: str = ""


class Read(NamedTuple):
    """Places that a rule judges other than by one label or equation: they count as checked."""

    paths: tuple[Path, ...]


class Violation(NamedTuple):
    """Something wrong in one record of a block that is no equation: a digest, a chain."""

    row: int
    path: str
    message: str
    said: Any = None
    expected: Any = None
    id: str = ""
    column: int = -1  # of the number that is wrong, where it is one: what is computed from it follows from it


class Ledger:
    """The numbers of a block with their radii, and where they stand."""

    def __init__(self, columns: Columns, layout: Layout, previous: Ledger | None = None) -> None:
        self.columns = columns
        self.layout = layout
        self.previous = previous  # the block before this one in the bundle
        self.first: Layout = previous.first if previous is not None else layout  # of the bundle

    def forget(self) -> None:
        """Let go of what no later block asks for, so that memory does not grow with the bundle."""
        self.previous = None

    @cached_property
    def radii(self) -> Reals:
        """What nine digits hide of every number; nothing, where all digits are written."""
        if self.layout.is_lossless:
            return np.where(np.isnan(self.columns.numbers), np.nan, 0.0)
        return nine_digit_radius(self.columns.numbers)

    @cached_property
    def unit(self) -> float:
        """The unit roundoff of the format in which the step was computed.

        The file's word is not taken for it: a framework computed in float32 exactly if every parameter is a float32
        number, which no nine digits are by chance. Everything but an import was computed in float64.
        """
        singles = self.singles
        return FLOAT32 if singles.size and bool(singles.all()) else FLOAT64

    @cached_property
    def singles(self) -> NDArray[np.bool_]:
        """Which records were computed in float32. A block is judged with one unit, so the two kinds are kept apart."""
        layout, none = self.layout, np.zeros(self.columns.size, dtype=np.bool_)
        if not layout.imported:
            return none
        held = np.concatenate([self._parameters("parameters_before"), self._parameters("parameters_after")])
        held = held[held >= 0]
        if not held.size:
            return none
        values = self.columns.numbers[:, held]
        hidden = 0.0 if layout.is_lossless else self.radius(held)
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite there, and no float32 number
            return np.asarray((np.abs(values - values.astype(np.float32)) <= hidden).all(axis=1))

    def _parameters(self, root: str) -> Positions:
        return self.layout.named(root, names=self.layout.parameters)

    def radius(self, columns: Positions | int) -> Reals:
        """The radii of some columns."""
        exponents = self.columns.exponents
        if exponents is None:
            return self.radii[:, columns]
        return radius_by_exponent()[exponents[:, columns].astype(np.intp) + 128]

    def ball(self, columns: Positions | int) -> Ball:
        """The numbers of some columns as balls, one row a record."""
        return Ball(self.columns.numbers[:, columns], self.radius(columns), self.unit)

    def values(self, columns: Positions | int) -> Reals:
        """The numbers of some columns."""
        return self.columns.numbers[:, columns]

    def setting(self, key: str, otherwise: float = 0.0) -> Ball:
        """An optimizer's setting as a column, or a constant where the receipt has none."""
        column = self.layout.setting(key)
        if column >= 0:
            return self.ball(np.array([column]))
        rows = np.full((self.columns.size, 1), otherwise)
        return Ball(rows, np.zeros_like(rows), self.unit)

    def settings(self, *keys: str) -> tuple[Positions, ...]:
        """The columns of settings that the receipt has, as what an equation is given."""
        return tuple(np.array([self.layout.setting(key)]) for key in keys if self.layout.setting(key) >= 0)


def _no_labels(_: Layout) -> Iterator[Label | Keys | Wrong]:
    return iter(())


def _no_equations(_: Ledger) -> Iterator[Equation | Violation]:
    return iter(())


def always(_: Layout) -> bool:
    """Every receipt."""
    return True


class Mutation(NamedTuple):
    """A way to break a good receipt that its rule must catch: what is done at which place of which subject."""

    name: str
    subject: str
    path: str  # dotted; `*` is the first entry
    change: str  # negate, zero, double, nudge, drop, repeat, or `set:` and a JSON value


class Rule(NamedTuple):
    """One row of the table of rules."""

    number: int
    name: str
    states: str
    reason: str
    applies: Callable[[Layout], bool] = always
    labels: Callable[[Layout], Iterable[Label | Keys | Wrong | Read]] = _no_labels
    equations: Callable[[Ledger], Iterable[Equation | Violation]] = _no_equations
    across: bool = False  # whether it ties the records of a bundle
    mutations: tuple[Mutation, ...] = ()

"""The screen: records whose every traced equation clearly holds, found natively. The judge looks at the others.

It decides nothing that the judge would not: it asks for a deviation within a narrower bound, and the two evaluations of a
bound differ by rounding alone, which is below 1e-14 of the sizes that meet in an equation, while nine digits put at
least 5e-10 of them into its bound.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.receipt.native import address
from backproof.rules.ball import FUNCTION_SLACK, SLACK, Reals, radius_by_exponent
from backproof.rules.layout import Layout
from backproof.rules.rule import Equation, Ledger, Rule
from backproof.verify import native
from backproof.verify.compare import Coverage, spoken_of
from backproof.verify.tracing import CannotTraceError, TracedBall, TracedLedger, Tracer

WITHIN = 1.0 - 1e-4  # of the bound; 1e-14 / 5e-10 is 2e-5


class Program:
    """What was traced, and which slot each number should agree with, as the native screen takes it."""

    def __init__(self, tracer: Tracer, checks: Iterable[NDArray[np.intp]], unit: float) -> None:
        self._held = _arrays(tracer, checks)
        self.checked = len(self._held["checks"])  # numbers of a record
        self._struct = native.ProgramStruct(
            *map(address, self._held.values()),
            address(radius_by_exponent()),
            tracer.columns,
            tracer.size - tracer.columns,
            self.checked,
            unit,
            SLACK,
            FUNCTION_SLACK,
            WITHIN,
        )
        self._slots = np.empty((tracer.size, 2, native.LANES))

    def passes(self, numbers: Reals, exponents: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Which records clearly agree: every deviation is within the narrowed bound."""
        passed = np.zeros(len(numbers), dtype=np.bool_)
        library = native.library()
        if library is None:
            return passed
        numbers, exponents = np.ascontiguousarray(numbers), np.ascontiguousarray(exponents)
        library.backproof_screen(
            ctypes.byref(self._struct),
            address(numbers),
            address(exponents),
            numbers.shape[1],
            len(numbers),
            address(self._slots),
            address(passed),
        )
        return passed


class Screen:
    """The equations of one shape as a program, for records computed in one format."""

    def __init__(self, layout: Layout, unit: float, rules: Iterable[Rule], coverage: Coverage) -> None:
        ledger = TracedLedger(layout, unit)
        checks: list[NDArray[np.intp]] = []
        traced: set[int] = set()
        for rule in rules:
            made = _checks(rule, ledger, coverage)
            if made is not None:
                traced.add(rule.number)
                checks += made
        self.traced = frozenset(traced)  # the rules that it speaks for
        self._program = Program(ledger.tracer, checks, unit)
        self.claims = self._program.checked  # a record

    def passes(self, ledger: Ledger) -> NDArray[np.bool_]:
        """Which records clearly hold."""
        columns = ledger.columns
        if columns.exponents is None:
            return np.zeros(columns.size, dtype=np.bool_)
        return self._program.passes(columns.numbers, columns.exponents)


def _checks(rule: Rule, ledger: TracedLedger, coverage: Coverage) -> list[NDArray[np.intp]] | None:
    """Which slot each number of a rule's equations should agree with; None if it cannot be traced."""
    before, seen = ledger.tracer.mark(), Coverage()
    try:
        claims = list(rule.equations(ledger))  # a rule that asks for a number raises
    except CannotTraceError:
        ledger.tracer.back_to(before)
        return None
    checks = []
    for claim in claims:
        if not isinstance(claim, Equation) or claim.rows is not None:
            ledger.tracer.back_to(before)
            return None
        present, found = spoken_of(claim, seen), claim.found
        if present.any():
            ids = found.ids if isinstance(found, TracedBall) else ledger.tracer.constant(found.mid, found.rad)
            checks.append(np.stack([claim.said.ravel(), ids.reshape(claim.said.size)], axis=1)[present])
    coverage.columns |= seen.columns
    return checks


def _arrays(tracer: Tracer, checks: Iterable[NDArray[np.intp]]) -> dict[str, NDArray[Any]]:
    """The program, in the order of the struct."""
    none = np.zeros((0, 3), dtype=np.int32)
    return {
        "code": np.ascontiguousarray(np.concatenate([none, *tracer.code])),
        "lists": np.concatenate([none[:, 0], *tracer.lists]),
        "constants": np.array(tracer.constants, dtype=np.float64).reshape(-1, 2),
        "checks": np.concatenate([none[:, :2], *checks]).astype(np.int32),
    }

"""The main path: receipts in, a verdict out.

1 read and validated · 2 records of one shape as columns · 3 labels, once a shape · 4 equations, many records at a
time · 5 chains and digests across the bundle · 6 causes before consequences · 7 what was not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from backproof.receipt.columns import Columns, Shape, columns_of
from backproof.receipt.document import Receipt
from backproof.receipt.validation import Deviation
from backproof.rules import RULES, r16_subject_digest
from backproof.rules.ball import FLOAT32
from backproof.rules.layout import Layout
from backproof.rules.r17_bundle_digest import PATH, BundleDigest
from backproof.rules.rule import Ledger, Rule
from backproof.rules.weak import weak_settings
from backproof.verify import native
from backproof.verify.compare import Coverage, by_cause, fold, judge_equation, judge_label
from backproof.verify.coverage import unchecked_of
from backproof.verify.screen import Screen
from backproof.verify.verdict import MOST_FINDINGS, Finding, Unchecked, Verdict

ACROSS_RULES = frozenset(rule.number for rule in RULES if rule.across)
DEVIATES, FAILS = 1, 2  # marks of a record: from its format; in a rule that speaks of it alone
WORTH_A_SCREEN = 4  # records in a block, to trace the equations of their shape


@dataclass(eq=False)
class _Case:
    """A shape being verified: where everything stands in it, what is wrong with its labels, what was checked."""

    layout: Layout
    labels: list[Finding] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    screens: dict[float, Screen] = field(default_factory=dict)


class _Kept:
    """The findings of a block: those of its first records, up to a number, in the order of the rules."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.findings: list[Finding] = []
        self.more = 0
        self.wrong: set[int] = set()  # the records that do not hold by themselves

    def add(self, findings: Iterable[Finding]) -> None:
        """Keep some more."""
        for finding in findings:
            self.findings.append(finding)
            if finding.rule not in ACROSS_RULES:
                self.wrong.add(finding.record)
            if len(self.findings) >= 4 * self.most:
                self._cut()

    def _cut(self) -> None:
        self.findings.sort(key=lambda finding: finding.record)
        self.more += len(self.findings) - self.most
        del self.findings[self.most :]


class Verifier:
    """One verification in progress; blocks of a bundle go in one after the other."""

    def __init__(self, *, bundle: bool) -> None:
        self.bundle = bundle
        self.claims = 0
        self.evaluated: set[int] = set()
        self.findings: list[Finding] = []
        self.more = 0
        self.records = 0
        self.deviations: list[tuple[int, Deviation]] = []
        self.versions: dict[str, None] = {}
        self.single = False
        self.not_canonical: list[int] = []
        self.marks = bytearray()  # one a record
        self._digest = BundleDigest()
        self._previous: Ledger | None = None
        self._cases: dict[Shape, _Case] = {}

    def take(self, columns: Columns) -> None:
        """Judge one block (2 to 5); records computed in different formats apart."""
        case = self._case(columns.shape)
        ledger = Ledger(columns, case.layout, self._previous)
        seams = np.flatnonzero(ledger.singles[1:] != ledger.singles[:-1]) + 1
        if not seams.size:
            self._take(ledger, case)
            return
        for rows in np.split(np.arange(columns.size), seams):
            self._take(Ledger(columns.only(rows), case.layout, self._previous), case)

    def _take(self, ledger: Ledger, case: _Case) -> None:
        columns = ledger.columns
        self.single |= ledger.unit == FLOAT32
        self.records += columns.size
        self.versions.setdefault(columns.shape.text("schema_version"))
        self.marks += bytes(columns.size)
        self._note_deviations(columns)
        self._note_canonical(columns)
        found = _Kept(MOST_FINDINGS)
        for row in range(columns.size if case.labels else 0):
            found.add(_at(finding, columns.positions[row]) for finding in case.labels)
        screen = self._screen(ledger, case)
        doubtful = self._screened(ledger, case, screen)
        for rule in RULES:
            if rule.applies(case.layout) and (self.bundle or not rule.across):
                traced = screen is not None and rule.number in screen.traced
                found.add(_equations(rule, doubtful if traced else ledger, case.coverage))
                if not rule.across or ledger.previous is not None or columns.size > 1:
                    self.evaluated.add(rule.number)
        if self.bundle:
            found.add(
                finding
                for violation in self._digest.take(ledger)
                for finding in judge_equation(17, ledger, violation, case.coverage)
            )
        for record in found.wrong:
            self.marks[record - columns.positions[-1] - 1] |= FAILS
        self._add(found)
        self.claims += case.coverage.claims
        case.coverage.claims = 0
        case.coverage.end_block(weak_settings(ledger))
        if self._previous is not None:
            self._previous.forget()
        self._previous = ledger

    def _screen(self, ledger: Ledger, case: _Case) -> Screen | None:
        """The screen of a shape, where the block can go through one and is worth it."""
        if ledger.columns.exponents is None or native.library() is None:
            return None
        if ledger.unit not in case.screens:
            if ledger.columns.size < WORTH_A_SCREEN:
                return None
            rules = [rule for rule in RULES if not rule.across and rule.applies(case.layout)]
            case.screens[ledger.unit] = Screen(case.layout, ledger.unit, rules, case.coverage)
        return case.screens[ledger.unit]

    def _screened(self, ledger: Ledger, case: _Case, screen: Screen | None) -> Ledger | None:
        """The records of a block that do not clearly hold, for the judge; None if all do."""
        if screen is None:
            return ledger
        passed = screen.passes(ledger)
        case.coverage.claims += screen.claims * int(passed.sum())
        doubtful = np.flatnonzero(~passed)
        return Ledger(ledger.columns.only(doubtful), case.layout) if doubtful.size else None

    def _note_deviations(self, columns: Columns) -> None:
        for row, deviation in columns.deviations:
            self.marks[row - columns.size] |= DEVIATES
            if len(self.deviations) < MOST_FINDINGS:
                self.deviations.append((columns.positions[row], deviation))
            else:
                self.more += 1

    def _note_canonical(self, columns: Columns) -> None:
        if columns.canonical is not None and columns.canonical.all():
            return
        for row, position in enumerate(columns.positions):
            if len(self.not_canonical) < MOST_FINDINGS and not columns.is_canonical(row):
                self.not_canonical.append(position)

    def _case(self, shape: Shape) -> _Case:
        """Labels are judged once for all records of a shape (3)."""
        if shape not in self._cases:
            case = self._cases[shape] = _Case(Layout(shape))
            for rule in RULES:
                if rule.applies(case.layout):
                    for claim in rule.labels(case.layout):
                        case.labels += judge_label(rule.number, 0, claim, case.coverage)
        return self._cases[shape]

    def _add(self, found: _Kept) -> None:
        """The findings of the first records are kept, whichever block they came in."""
        found.findings.sort(key=lambda finding: finding.record)
        room = MOST_FINDINGS - len(self.findings)
        self.findings += found.findings[:room]
        self.more += found.more + max(len(found.findings) - room, 0)

    def _unchecked(self) -> Iterator[Unchecked]:
        seen: set[str] = set()
        for shape, case in self._cases.items():
            signed = shape.get(*r16_subject_digest.PATH) is not None and not self._fails(16)
            signed |= self.bundle and self._digest.binds and not self._fails(17)
            if self.bundle:
                case.coverage.paths |= {PATH, ("trace_id",)}
            for entry in unchecked_of(shape, case.coverage, signed=signed):
                if entry.path not in seen:
                    seen.add(entry.path)
                    yield entry

    def _fails(self, rule: int) -> bool:
        return any(finding.rule == rule for finding in self.findings)

    def close(self) -> Verdict:
        """The verdict, after the last block (5 to 7)."""
        self.evaluated.discard(17)
        if self.bundle and self.records:
            self.evaluated |= {17} if self._digest.binds else set()
            violation = self._digest.close()
            if violation is not None:
                found = _Kept(1)
                found.add([Finding(17, 0, violation.path, violation.message, violation.said, violation.expected)])
                self._add(found)
        self.findings.sort(key=by_cause)
        return Verdict(
            records=self.records,
            findings=tuple(fold(self.findings)),
            deviations=tuple(self.deviations),
            evaluated=tuple(sorted(self.evaluated)),
            gated_off=tuple(rule.number for rule in RULES if rule.number not in self.evaluated),
            checked=self.claims,
            unchecked=tuple(self._unchecked()),
            notes=tuple(self._notes()),
            warnings=tuple(self._warnings()),
            more=self.more,
            versions=tuple(self.versions),
            computed_in="float32" if self.single else "float64",
        )

    def _notes(self) -> Iterator[str]:
        if self.single:
            yield "every parameter is a float32 number, so the bounds are those of a float32 computation"
        if self.bundle and self.records and not self._digest.binds:
            yield "no digest binds this bundle: records cut off its end would leave no trace"
        signed = (shape.get(*r16_subject_digest.PATH) is not None for shape in self._cases)
        if not self.bundle and any(case.layout.imported for case in self._cases.values()) and not any(signed):
            yield "no digest binds this receipt: what is not checked could be changed without a trace"

    def _warnings(self) -> Iterator[str]:
        if self.not_canonical:
            shown = ", ".join(map(str, self.not_canonical[:5]))
            yield f"not the canonical bytes (order, spacing or spelling of numbers): record {shown}"


def verify_columns(blocks: Iterable[Columns], *, bundle: bool) -> Verdict:
    """The verdict over the records of a bundle, block by block."""
    verifier = Verifier(bundle=bundle)
    for columns in blocks:
        verifier.take(columns)
    return verifier.close()


def verify_receipts(receipts: Iterable[Receipt], *, bundle: bool) -> Verdict:
    """The verdict over some receipts; as a bundle, their chain is judged too."""
    return verify_columns(columns_of(receipts), bundle=bundle)


def verify_receipt(receipt: Receipt) -> Verdict:
    """The verdict over one receipt.

    >>> from backproof.receipt import read_receipt
    >>> verify_receipt(read_receipt("mazur.jsonl")).holds  # doctest: +SKIP
    True
    """
    return verify_receipts([receipt], bundle=False)


def _equations(rule: Rule, ledger: Ledger | None, coverage: Coverage) -> Iterator[Finding]:
    if ledger is None:
        return
    with np.errstate(all="ignore"):  # what overflows or divides by 0 has no bound, and so is never a pass
        for claim in rule.equations(ledger):
            yield from judge_equation(rule.number, ledger, claim, coverage)


def _at(finding: Finding, record: int) -> Finding:
    return replace(finding, record=record)

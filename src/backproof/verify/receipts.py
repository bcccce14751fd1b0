"""The main path: receipts in, a verdict out.

1 read and validated · 2 records of one shape as columns · 3 labels, once a shape · 4 equations, many records at a
time · 5 chains and digests across the bundle · 6 causes before consequences · 7 what was not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from backproof.receipt.columns import Columns, Shape, columns_of
from backproof.receipt.document import Receipt
from backproof.receipt.validation import Deviation
from backproof.rules import RULES, r16_subject_digest
from backproof.rules.ball import FLOAT32
from backproof.rules.layout import Layout
from backproof.rules.r17_bundle_digest import PATH, BundleDigest
from backproof.rules.rule import Ledger, Rule
from backproof.verify.compare import Coverage, by_cause, fold, judge_equation, judge_label
from backproof.verify.coverage import unchecked_of
from backproof.verify.verdict import MOST_FINDINGS, Finding, Unchecked, Verdict


class Verifier:
    """One verification in progress; blocks of a bundle go in one after the other."""

    def __init__(self, *, bundle: bool) -> None:
        self.bundle = bundle
        self.coverage = Coverage()
        self.evaluated: set[int] = set()
        self.findings: list[Finding] = []
        self.more = 0
        self.records = 0
        self.deviations: list[tuple[int, Deviation]] = []
        self.versions: dict[str, None] = {}
        self.unchecked: dict[str, Unchecked] = {}
        self.single = False
        self.not_canonical: list[int] = []
        self._digest = BundleDigest()
        self._previous: Ledger | None = None
        self._layouts: dict[Shape, tuple[Layout, list[Finding], Coverage, set[int]]] = {}

    def take(self, columns: Columns) -> None:
        """Judge one block (2 to 5)."""
        layout, labels, coverage, evaluated = self._shape(columns.shape)
        ledger = Ledger(columns, layout, self._previous)
        if ledger.unit == FLOAT32:
            self.single = True
        self.records += columns.size
        self.versions.setdefault(columns.shape.text("schema_version"))
        for row, receipt in enumerate(columns.receipts):
            self.deviations += [(columns.positions[row], deviation) for deviation in receipt.deviations]
        for row in range(columns.size if labels else 0):
            self._add(_at(finding, columns.positions[row]) for finding in labels)
        for rule in RULES:
            if rule.applies(layout) and (self.bundle or not rule.across):
                self._equations(rule, ledger, coverage, evaluated)
        if self.bundle:
            self._add(
                found
                for violation in self._digest.take(ledger)
                for found in judge_equation(17, ledger, violation, coverage)
            )
        self.coverage.claims += coverage.claims
        self.evaluated |= evaluated
        self._list_unchecked(columns.shape, coverage)
        coverage.claims = 0
        if self._previous is not None:
            self._previous.forget()
        self._previous = ledger

    def _shape(self, shape: Shape) -> tuple[Layout, list[Finding], Coverage, set[int]]:
        """Labels are judged once for all records of a shape (3)."""
        if shape not in self._layouts:
            layout, coverage = Layout(shape), Coverage()
            evaluated: set[int] = set()
            findings: list[Finding] = []
            for rule in RULES:
                if rule.applies(layout):
                    for claim in rule.labels(layout):
                        findings += judge_label(rule.number, 0, claim, coverage)
            self._layouts[shape] = (layout, findings, coverage, evaluated)
        return self._layouts[shape]

    def _equations(self, rule: Rule, ledger: Ledger, coverage: Coverage, evaluated: set[int]) -> None:
        with np.errstate(all="ignore"):  # what overflows or divides by 0 has no bound, and so is never a pass
            for claim in rule.equations(ledger):
                self._add(judge_equation(rule.number, ledger, claim, coverage))
        if not rule.across or ledger.previous is not None or ledger.columns.size > 1:
            evaluated.add(rule.number)

    def _add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            if len(self.findings) < MOST_FINDINGS:
                self.findings.append(finding)
            else:
                self.more += 1

    def _list_unchecked(self, shape: Shape, coverage: Coverage) -> None:
        signed = shape.get(*r16_subject_digest.PATH) is not None or (self.bundle and self._digest.binds)
        if self.bundle:
            coverage.paths.add(PATH)
            coverage.paths.add(("trace_id",))
        for entry in unchecked_of(shape, coverage, signed=signed):
            self.unchecked.setdefault(entry.path, entry)

    def close(self) -> Verdict:
        """The verdict, after the last block (5 to 7)."""
        self.evaluated.discard(17)
        if self.bundle and self.records:
            self.evaluated |= {17} if self._digest.binds else set()
            violation = self._digest.close()
            if violation is not None:
                self._add([Finding(17, 0, violation.path, violation.message, violation.said, violation.expected)])
        self.findings.sort(key=by_cause)
        return Verdict(
            records=self.records,
            findings=tuple(fold(self.findings)),
            deviations=tuple(self.deviations),
            evaluated=tuple(sorted(self.evaluated)),
            gated_off=tuple(rule.number for rule in RULES if rule.number not in self.evaluated),
            checked=self.coverage.claims,
            unchecked=tuple(self.unchecked.values()),
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

    def _warnings(self) -> Iterator[str]:
        if self.not_canonical:
            shown = ", ".join(map(str, self.not_canonical[:5]))
            yield f"not the canonical bytes (order, spacing or spelling of numbers): record {shown}"


def verify_receipts(receipts: Iterable[Receipt], *, bundle: bool) -> Verdict:
    """The verdict over some receipts; as a bundle, their chain is judged too."""
    verifier = Verifier(bundle=bundle)
    for columns in columns_of(_noting(receipts, verifier)):
        verifier.take(columns)
    return verifier.close()


def verify_receipt(receipt: Receipt) -> Verdict:
    """The verdict over one receipt.

    >>> from backproof.receipt import read_receipt
    >>> verify_receipt(read_receipt("mazur.jsonl")).holds  # doctest: +SKIP
    True
    """
    return verify_receipts([receipt], bundle=False)


def _noting(receipts: Iterable[Receipt], verifier: Verifier) -> Iterator[Receipt]:
    for position, receipt in enumerate(receipts):
        if receipt.source and len(verifier.not_canonical) < MOST_FINDINGS and not receipt.is_canonical:
            verifier.not_canonical.append(position)
        yield receipt


def _at(finding: Finding, record: int) -> Finding:
    return replace(finding, record=record)

"""Where claims are compared: the one place that decides whether said and found agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from backproof.engine.scalar_domain import Positions
from backproof.receipt.columns import Path, written
from backproof.rules.rule import Equation, Keys, Label, Ledger, Read, Violation, Wrong
from backproof.rules.weak import Weak
from backproof.verify.verdict import Finding


@dataclass
class Coverage:
    """What claims spoke of: columns of numbers, places of labels, and how many claims there were."""

    columns: set[int] = field(default_factory=set)
    paths: set[Path] = field(default_factory=set)
    weak: dict[Path, str] = field(default_factory=dict)  # in every block so far
    blocks: int = 0
    claims: int = 0

    def end_block(self, weak: Iterable[Weak]) -> None:
        """A number that any block depends on is checked: it is weak only if it is weak in every one."""
        if self.weak or not self.blocks:
            self.weak = {path: because for path, because in weak if not self.blocks or path in self.weak}
        self.blocks += 1


def judge_label(rule: int, record: int, claim: Label | Keys | Wrong | Read, coverage: Coverage) -> Iterator[Finding]:
    """A label that is not what it should be, keys that are missing, too many or there twice."""
    coverage.claims += 1
    match claim:
        case Wrong():
            yield Finding(rule, record, claim.path, claim.message, claim.said, claim.expected, id=claim.id)
        case Label():
            coverage.paths.add(claim.path)
            if claim.said != claim.expected or type(claim.said) is not type(claim.expected):
                place = written(claim.path)
                yield Finding(rule, record, place, claim.because, claim.said, claim.expected, id=claim.id)
        case Read():
            coverage.claims -= 1
            coverage.paths.update(claim.paths)
        case Keys():
            coverage.paths.add(claim.path)
            yield from _judge_keys(rule, record, claim)


def _judge_keys(rule: int, record: int, claim: Keys) -> Iterator[Finding]:
    place = written(claim.path)
    said, expected = Counter(claim.said), Counter(claim.expected)
    for key in claim.expected:
        if key not in said:
            yield Finding(rule, record, f"{place}.{key}", f"is missing: {claim.because}", None, key, id=key)
    for key in said:
        if key not in expected:
            yield Finding(rule, record, f"{place}.{key}", f"is not expected: {claim.because}", key, None, id=key)
        elif said[key] > expected[key]:
            yield Finding(rule, record, f"{place}.{key}", f"is there twice: {claim.because}", key, None, id=key)


def judge_equation(rule: int, ledger: Ledger, claim: Equation | Violation, coverage: Coverage) -> Iterator[Finding]:
    """The records in which a number does not lie in the ball that was derived for it.

    An infinite bound or a NaN decides nothing, so that it is never a pass.
    """
    if isinstance(claim, Violation):
        record = ledger.columns.positions[claim.row]
        said, expected, column = claim.said, claim.expected, claim.column
        yield Finding(rule, record, claim.path, claim.message, said, expected, id=claim.id, column=column)
        return
    present = spoken_of(claim, coverage)
    if not present.any():
        return
    coverage.claims += int(present.sum()) * len(claim.found.mid)
    said, given = claim.said.ravel(), () if claim.earlier else claim.given
    rows = claim.rows if claim.rows is not None else slice(None)
    stored, radius = ledger.columns.numbers[:, said][rows], ledger.radius(said)[rows]
    mid, rad = (
        claim.found.mid.reshape(stored.shape),
        np.broadcast_to(claim.found.rad.reshape(stored.shape), stored.shape),
    )
    with np.errstate(invalid="ignore", over="ignore"):
        deviation, bound = np.abs(stored - mid), radius + rad
        agrees = (deviation <= bound) & np.isfinite(bound)
    agrees |= ~present
    if agrees.all():
        return
    numbers = np.arange(ledger.columns.size) if claim.rows is None else claim.rows
    for row, k in zip(*(~agrees).nonzero(), strict=True):
        yield Finding(
            rule,
            ledger.columns.positions[int(numbers[row])],
            claim.names[k] if claim.names else written(ledger.layout.shape.paths[said[k]]),
            claim.because,
            float(stored[row, k]),
            float(mid[row, k]),
            float(deviation[row, k]),
            float(bound[row, k]),
            claim.ids[k] if claim.ids else "",
            column=int(said[k]),
            inputs=_inputs(given, claim.said, k),
        )


def spoken_of(claim: Equation, coverage: Coverage) -> NDArray[np.bool_]:
    """Which entries of an equation there are; they and what they were derived from count as checked."""
    said = claim.said.ravel()
    present: NDArray[np.bool_] = (said >= 0) & ~_missing(claim.given, claim.said)
    if present.any():
        for columns in (said[present], *(() if claim.earlier else claim.given)):
            coverage.columns.update(columns.ravel().tolist())
    return present


def _missing(given: Iterable[Positions], said: Positions) -> NDArray[np.bool_]:
    """Which entries of a claim were derived from a number that is not there."""
    missing = np.zeros(said.size, dtype=bool)
    for columns in given:
        absent = columns < 0
        if columns.shape == said.shape:
            missing |= absent.ravel()
        else:
            rows = absent.any(axis=tuple(range(1, absent.ndim)))  # each entry's own inputs
            missing |= rows if rows.size == said.size else bool(rows.any())
    return missing


def _inputs(given: Iterable[Positions], said: Positions, k: np.intp) -> frozenset[int]:
    """The columns from which one entry of a claim was derived."""
    held: set[int] = set()
    for columns in given:
        if columns.shape == said.shape:
            held.add(int(columns.ravel()[k]))
        elif columns.ndim > 1 and len(columns) == said.size:
            held.update(columns[k].ravel().tolist())
        else:
            held.update(columns.ravel().tolist())
    return frozenset(held)


def fold(findings: list[Finding]) -> list[Finding]:
    """Order findings by cause: one whose inputs are themselves found wrong cascades from that finding.

    Replays and labels of a record that has a local equation broken are explained by it, too.
    """
    by_record: dict[int, list[int]] = {}
    for i, finding in enumerate(findings):
        by_record.setdefault(finding.record, []).append(i)
    result = list(findings)
    for places in by_record.values():
        _fold_record(result, places)
    return result


def _fold_record(findings: list[Finding], places: list[int]) -> None:
    numbers = [i for i in places if findings[i].column >= 0]
    broken: dict[int, int] = {}
    for i in numbers:
        if findings[i].rule != REPLAY:
            broken.setdefault(findings[i].column, i)
    ends = [i for i in broken.values() if findings[i].rule not in LOSSES]
    first = min(ends or broken.values(), default=-1)
    parent: dict[int, int] = {}
    for i in numbers:
        finding = findings[i]
        if finding.rule == REPLAY:
            candidates = [broken.get(finding.column, first)] if broken else []
        elif not finding.is_equation:
            candidates = [broken[finding.column]]
        else:
            candidates = [broken[column] for column in sorted(finding.inputs) if column in broken]
        above = [j for j in candidates if j != i and not _is_below(parent, j, i)]
        if above:
            parent[i] = above[0]
    for i in parent:
        findings[i] = findings[i].cascading(_root(parent, i))


REPLAY = 14
LOSSES = (12, 29)  # nothing else is computed from a loss
# The order in which a step is computed, so that the first finding is the first cause; then labels, chains, digests.
CAUSAL = (0, 19, 20, 27, 28, 8, 11, 12, 13, 1, 2, 3, 32, 18, 4, 33, 21, 22, 23, 24, 5, 6, 7, 29, 14, 9, 25, 10, 36, 26)


# Digests, and what a file says of itself: they are wrong because something else is, in whichever record.
CONSEQUENT = frozenset({15, 16, 17, 34, 35})


def by_cause(finding: Finding) -> tuple[bool, int, int]:
    """Where a finding stands in a verdict: by record, then by the order of computation; labels come after numbers."""
    place = CAUSAL.index(finding.rule) if finding.rule in CAUSAL else len(CAUSAL)
    label = finding.rule > 0 and not finding.is_equation and finding.column < 0
    return finding.rule in CONSEQUENT, finding.record, place + (len(CAUSAL) + 1 if label else 0)


def _is_below(parent: Mapping[int, int], i: int, ancestor: int) -> bool:
    while i in parent:
        i = parent[i]
        if i == ancestor:
            return True
    return False


def _root(parent: Mapping[int, int], i: int) -> int:
    while i in parent:
        i = parent[i]
    return i

"""The named checks of `verify mazur`, `verify general` and `verify multi`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from backproof.errors import InputError
from backproof.receipt import formats
from backproof.receipt.authoring import author_mazur, author_step
from backproof.receipt.columns import Columns, Slot, TextSlot
from backproof.receipt.document import Receipt
from backproof.receipt.emission import emit
from backproof.receipt.validation import Deviation, deviations
from backproof.rules.r14_replay import RULE as REPLAY
from backproof.verify.receipts import ACROSS_RULES, DEVIATES, FAILS, Verifier, verify_receipts
from backproof.verify.verdict import Finding, Verdict

MAZUR_SHA256 = "e781a6d214acc29ec113f40664b2994fa3d50b4d60663115f7d7ac227954b71a"
ANCHOR = 0.291027924  # the loss after the update that is widely quoted for Mazur's example
ANCHOR_DRIFT = 1.5030640067e-7  # by which a double-precision computation misses it
ACROSS = "multi-step-rules-9-10"
NOT_LISTED = "does not hold; there are too many failures to list all"


class Check(NamedTuple):
    """One named check: pass, warn or fail, with what it has to say."""

    name: str
    status: str
    message: str = ""
    evidence: Any = None

    def as_json(self) -> dict[str, Any]:
        """The check in the JSON report."""
        said = {"message": self.message} if self.message else {}
        return {
            "name": self.name,
            "status": self.status,
            **said,
            **({"evidence": self.evidence} if self.evidence else {}),
        }


class RecordReport(NamedTuple):
    """The checks of one record of a bundle; the record itself is not kept."""

    version: str
    fixture: Any
    schema: Check
    rules: Check


class Records:
    """What was found of each record of a bundle. Of one that passes, a byte is kept."""

    def __init__(self, verdict: Verdict, heads: list[tuple[int, str, Any]], marks: bytes) -> None:
        self.verdict = verdict
        self.heads = heads  # how many records in a row have which version and fixture
        self.marks = marks
        self._findings: dict[int, list[Finding]] = {}
        self._deviations: dict[int, list[Deviation]] = {}
        for finding in verdict.findings:
            if finding.rule not in ACROSS_RULES:
                self._findings.setdefault(finding.record, []).append(finding)
        for record, deviation in verdict.deviations:
            self._deviations.setdefault(record, []).append(deviation)

    def __len__(self) -> int:
        return len(self.marks)

    def __iter__(self) -> Iterator[RecordReport]:
        i = 0
        for count, version, fixture in self.heads:
            for _ in range(count):
                yield RecordReport(version, fixture, self._schema(i), self._rules(i))
                i += 1

    def is_wrong(self, record: int) -> bool:
        """Whether a record alone, apart from the chain, does not hold."""
        return self.marks[record] != 0 or not self.verdict.checked

    @property
    def any_wrong(self) -> bool:
        """Whether a record alone does not hold."""
        return any(self.marks) or not self.verdict.checked

    def _schema(self, i: int) -> Check:
        if self.marks[i] & DEVIATES and i not in self._deviations:
            return Check(f"schema[{i}]", "fail", NOT_LISTED)
        return _schema(self._deviations.get(i, ()), f"[{i}]")

    def _rules(self, i: int) -> Check:
        if self.marks[i] & FAILS and i not in self._findings:
            return Check(f"reconcile[{i}]", "fail", NOT_LISTED)
        return _rules(self._findings.get(i, []), self.verdict, f"reconcile[{i}]")


class Report(NamedTuple):
    """All checks of a verb, and the verdict that they come from."""

    checks: tuple[Check, ...]
    verdict: Verdict | None = None
    per_record: Records | None = None

    def overall(self, *, strict: bool = False, warn_as_fail: bool = False) -> str:
        """pass, warn or fail."""
        statuses = {check.status for check in self.checks}
        wrong = self.per_record is not None and self.per_record.any_wrong
        if wrong or "fail" in statuses or ("warn" in statuses and (strict or warn_as_fail)):
            return "fail"
        return "warn" if "warn" in statuses else "pass"


def verify_general(receipt: Receipt) -> Report:
    """Format, rules and reproduction of one receipt of version 0.2.0 or later."""
    if receipt.version == "0.1.0":
        message = "a receipt 0.1.0 is Mazur's: 'bp verify mazur FILE' judges it"
        return Report((Check("schema-dispatch", "fail", message),))
    verdict = verify_receipts([receipt], bundle=False)
    schema = _schema(receipt.deviations)
    return Report((schema, *_judged(verdict), _reproduced(receipt, verdict), *_canonical(verdict)), verdict)


def verify_mazur(receipt: Receipt) -> Report:
    """Format, rules, reproduction and the published bytes of Mazur's receipt."""
    found = tuple(deviations(receipt.document, formats.of_version("0.1.0")))
    verdict = verify_receipts([receipt], bundle=False)
    engine = emit(author_mazur())
    same = hashlib.sha256(engine).hexdigest() == MAZUR_SHA256
    golden = Check(
        "byte-equal-vs-golden", "pass" if same else "fail", "" if same else "the engine's bytes are not the published"
    )
    checks = (
        _schema(found),
        *_judged(verdict),
        _reproduced(receipt, verdict),
        golden,
        _status(receipt),
        _anchor(receipt),
        *_canonical(verdict),
    )
    return Report(checks, verdict)


def verify_multi(blocks: Iterable[Columns]) -> Report:
    """Each record, and the chain between them."""
    verifier = Verifier(bundle=True)
    heads: list[tuple[int, str, Any]] = []
    for columns in blocks:
        verifier.take(columns)
        _note_heads(columns, heads)
    verdict = verifier.close()
    if not verdict.records:
        raise InputError("the bundle is empty; a receipt is one JSON object on one line")
    chain = [finding for finding in verdict.findings if finding.rule in ACROSS_RULES]
    checks = (_rules(chain, verdict, ACROSS), *_canonical(verdict))
    return Report(checks, verdict, Records(verdict, heads, bytes(verifier.marks)))


def _note_heads(columns: Columns, heads: list[tuple[int, str, Any]]) -> None:
    """Runs of records with one version and fixture: how many, and which."""
    version, fixture = columns.shape.text("schema_version"), columns.shape.get("fixture")
    varies = isinstance(fixture, Slot | TextSlot)
    for row in range(columns.size):
        if isinstance(fixture, TextSlot):
            said: Any = columns.texts[row][fixture.column]
        else:
            said = float(columns.numbers[row, fixture.column]) if varies else fixture
        if heads and heads[-1][1:] == (version, said):
            heads[-1] = (heads[-1][0] + 1, version, said)
        else:
            heads.append((1, version, said))


def _schema(found: Iterable[Any], suffix: str = "") -> Check:
    errors = [deviation.as_json() for deviation in found]
    if not errors:
        return Check(f"schema{suffix}", "pass")
    first = f"{errors[0]['instancePath'] or '(root)'}: {errors[0]['message']}"
    return Check(f"schema{suffix}", "fail", f"{len(errors)} deviation(s) from the format; {first}", errors)


def _judged(verdict: Verdict) -> tuple[Check, ...]:
    return (_rules([f for f in verdict.findings if f.rule != REPLAY.number], verdict, "reconcile"),)


def _rules(findings: list[Finding], verdict: Verdict, name: str) -> Check:
    if not findings:
        return Check(name, "pass" if verdict.checked else "fail", "" if verdict.checked else "nothing could be checked")
    return Check(name, "fail", f"{len(findings)} rule failure(s)", [_evidence(f) for f in findings])


def _evidence(finding: Finding) -> dict[str, Any]:
    named = {"parameter_id": finding.id} if finding.id else {}
    return {
        "rule": finding.rule,
        **named,
        "field_path": finding.path,
        "stored": finding.said,
        "recomputed": finding.found,
        "delta": finding.deviation,
        "tolerance": finding.bound,
        "message": finding.because,
    }


def _reproduced(receipt: Receipt, verdict: Verdict) -> Check:
    """The engine, run again, agrees within what nine digits hide; whether in every byte is said."""
    replay = [finding for finding in verdict.findings if finding.rule == REPLAY.number]
    if replay:
        return Check("engine-reproduce", "fail", f"{len(replay)} number(s) differ", [_evidence(f) for f in replay])
    exact = _reproduces_bytes(receipt)
    message = "byte for byte" if exact else "within the rounding of the numbers"
    return Check("engine-reproduce", "pass", message)


def _reproduces_bytes(receipt: Receipt) -> bool:
    document = receipt.document
    if document.get("batch") is not None or receipt.deviations:
        return False
    keys = ("topology", "numeric_policy", "bias_policy", "learning_rate", "inputs", "targets", "parameters_before")
    optional = ("fixture", "metadata", "trace_id", "step_index")
    try:
        if receipt.version == "0.1.0":
            return emit(author_mazur()) == emit(document)
        given = {key: document[key] for key in keys} | {key: document[key] for key in optional if key in document}
        states = {u["parameter_id"]: u["optimizer"].get("state_before") for u in document["updates"]}
        stateful = any(state is not None for state in states.values())
        config = document.get("optimizer_config")
        ours = author_step(given, optimizer_config=config, state_before=states if stateful else None)
        return emit(ours) == emit(document)
    except (InputError, KeyError):
        return False


def _status(receipt: Receipt) -> Check:
    status = receipt.document.get("fixture_status")
    states = [f"{d.path}: {d.message}" for d in receipt.deviations if d.path.startswith("/fixture_status")]
    if not isinstance(status, dict) or states:
        return Check("fixture-status", "fail", states[0] if states else "fixture_status is missing")
    return Check("fixture-status", "pass")


def _anchor(receipt: Receipt) -> Check:
    loss = receipt.document.get("post_update_loss")
    total = loss.get("total") if isinstance(loss, dict) else None
    if not isinstance(total, int | float):
        return Check("published-anchor-drift", "warn", "post_update_loss.total is missing")
    drift = abs(float(total) - ANCHOR)
    if drift <= 1.5 * ANCHOR_DRIFT:
        return Check("published-anchor-drift", "pass")
    message = f"post_update_loss.total is {drift:.3g} from the published {ANCHOR}"
    return Check("published-anchor-drift", "warn", message)


def _canonical(verdict: Verdict) -> tuple[Check, ...]:
    return tuple(Check("canonical-bytes", "pass", warning) for warning in verdict.warnings)

"""The named checks of `verify mazur`, `verify general` and `verify multi`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from backproof.errors import InputError
from backproof.receipt import formats
from backproof.receipt.authoring import author_mazur, author_step
from backproof.receipt.document import Receipt
from backproof.receipt.emission import emit
from backproof.receipt.validation import deviations
from backproof.rules.r14_replay import RULE as REPLAY
from backproof.verify.receipts import verify_receipts
from backproof.verify.verdict import Finding, Verdict

MAZUR_SHA256 = "e781a6d214acc29ec113f40664b2994fa3d50b4d60663115f7d7ac227954b71a"
ANCHOR = 0.291027924  # the loss after the update that is widely quoted for Mazur's example
ANCHOR_DRIFT = 1.5030640067e-7  # by which a double-precision computation misses it
ACROSS = "multi-step-rules-9-10"


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


class Report(NamedTuple):
    """All checks of a verb, and the verdict that they come from."""

    checks: tuple[Check, ...]
    verdict: Verdict | None = None
    per_record: tuple[RecordReport, ...] = ()

    def overall(self, *, strict: bool = False, warn_as_fail: bool = False) -> str:
        """pass, warn or fail."""
        records = [check for record in self.per_record for check in (record.schema, record.rules)]
        statuses = {check.status for check in (*self.checks, *records)}
        if "fail" in statuses or ("warn" in statuses and (strict or warn_as_fail)):
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


def verify_multi(receipts: Iterable[Receipt]) -> Report:
    """Each record, and the chain between them."""
    seen: list[tuple[str, Any, Check]] = []
    verdict = verify_receipts(_noted(receipts, seen), bundle=True)
    if not seen:
        raise InputError("the bundle is empty; a receipt is one JSON object on one line")
    across = {9, 10, 17, 25, 26, 36}
    by_record: dict[int, list[Finding]] = {}
    for finding in verdict.findings:
        if finding.rule not in across:
            by_record.setdefault(finding.record, []).append(finding)
    per_record = tuple(
        RecordReport(version, fixture, schema, _rules(by_record.get(i, []), verdict, f"reconcile[{i}]"))
        for i, (version, fixture, schema) in enumerate(seen)
    )
    chain = [finding for finding in verdict.findings if finding.rule in across]
    return Report((_rules(chain, verdict, ACROSS), *_canonical(verdict)), verdict, per_record)


def _noted(receipts: Iterable[Receipt], seen: list[tuple[str, Any, Check]]) -> Iterator[Receipt]:
    for i, receipt in enumerate(receipts):
        schema = _schema(receipt.deviations, f"[{i}]")
        seen.append((receipt.version, receipt.document.get("fixture"), schema))
        yield receipt


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
    if document.get("batch") is not None:
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
    except (InputError, KeyError, TypeError):
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

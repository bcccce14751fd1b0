"""A verdict on receipts: as the JSON of the classic verbs, and as a table that begins with the cause."""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from backproof.receipt.numbers import js_exponential, js_number
from backproof.rules import rule_of
from backproof.verify.verdict import Finding, Verdict

MOST_SHOWN = 12  # causes in the terminal


def failure(finding: Finding, verdict: Verdict) -> dict[str, Any]:
    """One failure record, its keys in the order of the classic verbs."""
    record: dict[str, Any] = {"rule": finding.rule}
    if finding.id:
        record["parameter_id"] = finding.id
    record["field_path"] = finding.path
    record["stored"] = finding.said
    record["recomputed"] = finding.found
    record["delta"] = finding.deviation if finding.deviation is not None else 0
    record["tolerance"] = finding.bound if finding.bound is not None else 0
    if not finding.is_equation:
        record["message"] = finding.because
    if finding.cascade_of is not None:
        record["cascade_of_rule"] = verdict.findings[finding.cascade_of].rule
    return record


def coverage(verdict: Verdict) -> dict[str, Any]:
    """Which rules spoke, which had nothing to say, and what no rule could judge."""
    return {
        "rules_evaluated": [number for number in verdict.evaluated if number],
        "gated_off": list(verdict.gated_off),
        "unchecked": [{"path": entry.path, "because": entry.because} for entry in verdict.unchecked],
        "notes": [*verdict.notes, *verdict.warnings],
    }


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The whole verdict of plain `bp verify FILE`."""
    return {
        "ok": verdict.holds,
        "records": verdict.records,
        "schema_versions": list(verdict.versions),
        "claims_checked": verdict.checked,
        "computed_in": verdict.computed_in,
        "deviations": [{"record": record, **found.as_json()} for record, found in verdict.deviations],
        "failures": [{"record": f.record, **failure(f, verdict)} for f in verdict.findings],
        "failures_not_listed": verdict.more,
        **coverage(verdict),
    }


def failure_text(verdict: Verdict) -> str:
    """The failures as the classic `reconcile receipt` prints them, cause before consequence."""
    lines = ["reconciliation failed", ""]
    for cause, folded in verdict.causes:
        lines += _block(cause)
        if folded:
            rules = ", ".join(map(str, sorted({f.rule for f in folded})))
            lines.append(f"  Note: {len(folded)} further failure(s) of rule {rules} follow from this one.")
    if verdict.more:
        lines.append(f"  and {verdict.more} more")
    return "\n".join(lines) + "\n"


def _block(finding: Finding) -> list[str]:
    rule = rule_of(finding.rule)
    rows = [("field_path", finding.path), ("stored value", _text(finding.said))]
    rows.append(("recomputed value", _text(finding.found)))
    if finding.deviation is not None and finding.bound is not None:
        rows.append(("delta", js_exponential(finding.deviation)))
        rows.append(("tolerance", js_exponential(finding.bound)))
    rows.append(("because", finding.because))
    head = f"Rule {finding.rule}: {rule.name} on {finding.id or '(no parameter)'}"
    return [head, *(f"  {label + ':':<21}{value}" for label, value in rows)]


def _text(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return js_number(value)
    return "(nothing)" if value is None else str(value)


def summary(verdict: Verdict) -> str:
    """The outcome in one line."""
    records = "1 record" if verdict.records == 1 else f"{verdict.records} records"
    if verdict.holds:
        return f"holds: {records}, {verdict.checked} claims checked, {len(verdict.unchecked)} places not checked"
    if not verdict.checked:
        return "does not hold: nothing could be checked"
    wrong = len(verdict.findings) + verdict.more
    return f"does not hold: {wrong} of {verdict.checked} claims fail, {len(verdict.causes)} of them first causes"


def print_verdict(verdict: Verdict, *, color: str | None, verbose: bool, file: TextIO | None = None) -> None:
    """The verdict as a table in the terminal. rich is loaded only if there is something to tabulate."""
    out = file or sys.stdout
    print(summary(verdict), file=out)
    for record, deviation in verdict.deviations[:MOST_SHOWN]:
        print(f"  record {record}: {deviation.describe()}", file=out)
    for text in (*verdict.warnings, *(verdict.notes if verbose or not verdict.holds else ())):
        print(f"  note: {text}", file=out)
    if verdict.findings:
        _print_table(verdict, out, color)
    if verbose:
        print(
            f"  rules evaluated: {_ranges(verdict.evaluated)} (nothing to say: {_ranges(verdict.gated_off)})", file=out
        )
        for entry in verdict.unchecked:
            print(f"  not checked: {entry.path} ({entry.because})", file=out)


def _print_table(verdict: Verdict, out: TextIO, color: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in ("rule", "where", "said", "derived", "off by", "bound", "because"):
        numeric = name in {"said", "derived", "off by", "bound"}
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
    for finding, folded in verdict.causes[:MOST_SHOWN]:
        place = finding.path if verdict.records == 1 else f"{finding.record}: {finding.path}"
        table.add_row(
            Text(str(finding.rule), "bold red"),
            place,
            Text(_number(finding.said), "red"),
            Text(_number(finding.found), "green"),
            _number(finding.deviation),
            _number(finding.bound),
            finding.because,
        )
        if folded:
            table.add_row("", Text(f"and {len(folded)} that follow: {_places(folded)}", "dim"))
    wide = out is not sys.stdout and out is not sys.stderr
    console = Console(
        file=out,
        force_terminal=True if color == "always" else None,
        no_color=color == "never" or (color is None and "NO_COLOR" in os.environ),
        width=160 if wide or not out.isatty() else None,
        highlight=False,
        markup=False,
    )
    console.print(table)
    left = len(verdict.causes) - MOST_SHOWN
    if left > 0:
        console.print(f"and {left} more causes (--json lists them)")
    number = verdict.causes[0][0].rule
    console.print(f"rule {number}: {rule_of(number).states}  ('bp explain {number}')")


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    return "" if value is None else str(value)


def _places(folded: list[Finding]) -> str:
    names = list(dict.fromkeys(finding.path for finding in folded))
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _ranges(numbers: tuple[int, ...]) -> str:
    """`1-3, 5` for 1, 2, 3, 5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts) or "none"

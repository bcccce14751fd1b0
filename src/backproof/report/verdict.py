"""A verdict on receipts: as the JSON of the classic verbs, and as a table that begins with the cause."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Any, TextIO

from backproof.errors import printable
from backproof.receipt.numbers import js_exponential, js_number
from backproof.rules import rule_of
from backproof.verify.verdict import Finding, Verdict

if TYPE_CHECKING:
    from rich.text import Text

MOST_SHOWN = 12  # causes in the terminal
WIDTH = 110  # of what is not a terminal
LONGEST = 32  # characters of a text that is said or derived
NUMBER, ROUGH = 17, 10  # the widths of columns


def failure(finding: Finding, verdict: Verdict, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One failure record, its keys in the order of the classic verbs; of a product, with its factors."""
    record: dict[str, Any] = {"rule": finding.rule}
    if finding.id:
        record["parameter_id"] = finding.id
    record["field_path"] = finding.path
    record["stored"] = finding.said
    record["recomputed"] = finding.found
    record["delta"] = finding.deviation if finding.deviation is not None else 0
    record["tolerance"] = finding.bound if finding.bound is not None else 0
    if document is not None and (factors := _factors(finding, document)):
        record |= {"factors": factors, "product_order": "left_to_right"}
    if not finding.is_equation:
        record["message"] = finding.because
    if finding.cascade_of is not None:
        record["cascade_of_rule"] = verdict.findings[finding.cascade_of].rule
    return record


_PRODUCTS = {1: ("factors",), 4: ("optimizer", "factors"), 13: ("factors",)}
_HIDDEN = 3
_KEY = re.compile(r"[^.\[\]]+")


def _factors(finding: Finding, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The factors of a number that should be their product, as the document has them."""
    if not finding.is_equation or finding.path.endswith("summed_value"):
        return []
    place = _KEY.findall(finding.path)[:-1]
    if finding.rule == _HIDDEN:
        names = ("backpropagated_sum", "activation_derivative")
        return [{"name": name, "value": _at(document, *place, name)} for name in names]
    held = _at(document, *place, *_PRODUCTS[finding.rule]) if finding.rule in _PRODUCTS else None
    entries = [entry for entry in held if isinstance(entry, Mapping)] if isinstance(held, list) else []
    return [{key: entry[key] for key in ("name", "from", "value") if key in entry} for entry in entries]


def _at(document: Any, *path: str) -> Any:
    """What stands at a place; nothing, where a name has dots in it and the place cannot be found by its text."""
    for key in path:
        if isinstance(document, list):
            document = document[int(key)] if key.isdigit() and int(key) < len(document) else None
        else:
            document = document.get(key) if isinstance(document, Mapping) else None
    return document


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
    rows = [("field_path", printable(finding.path)), ("stored value", _text(finding.said))]
    rows.append(("recomputed value", _text(finding.found)))
    if finding.deviation is not None and finding.bound is not None:
        rows.append(("delta", js_exponential(finding.deviation)))
        rows.append(("tolerance", js_exponential(finding.bound)))
    rows.append(("because", printable(finding.because)))
    head = f"Rule {finding.rule}: {rule.name} on {printable(finding.id) or '(no parameter)'}"
    return [head, *(f"  {label + ':':<21}{value}" for label, value in rows)]


def _text(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return js_number(value)
    return "(nothing)" if value is None else printable(str(value))


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
    """The verdict in the terminal: outcome, causes, what was checked and what was not.

    rich is loaded only if there is something to tabulate.
    """
    out = file or sys.stdout
    print(summary(verdict), file=out)
    for record, deviation in verdict.deviations[:MOST_SHOWN]:
        print(f"  record {record}: {printable(deviation.describe())}", file=out)
    for text in (*verdict.warnings, *(verdict.notes if verbose or not verdict.holds else ())):
        print(f"  note: {text}", file=out)
    if verdict.findings:
        _print_table(verdict, out, color)
    _print_coverage(verdict, out, verbose=verbose)


def _print_coverage(verdict: Verdict, out: TextIO, *, verbose: bool) -> None:
    """Which rules held, which did not, and what no rule could judge."""
    if not verdict.checked:
        return
    wrong = {finding.rule for finding in verdict.findings}
    held = [rule_of(number).name for number in verdict.evaluated if number not in wrong]
    rows = [("hold", ", ".join(held))] if held else []
    if wrong:
        rows.append(("fail", ", ".join(rule_of(number).name for number in sorted(wrong))))
    if verbose:
        rows.append(("rules", f"{_ranges(verdict.evaluated)} (nothing to say: {_ranges(verdict.gated_off)})"))
    elif verdict.unchecked:
        rows.append(("unchecked", _reasons(verdict)))
    wide = get_terminal_size((WIDTH, 0)).columns if out.isatty() else WIDTH
    for label, text in rows:
        print(
            fill(text, wide, break_on_hyphens=False, initial_indent=f"  {label:<10}", subsequent_indent=" " * 12),
            file=out,
        )
    for entry in verdict.unchecked if verbose else ():
        print(f"  not checked: {printable(entry.path)} ({entry.because})", file=out)


def _reasons(verdict: Verdict) -> str:
    """What was not checked, counted by the reason."""
    counted = Counter(entry.because.partition(":")[0] for entry in verdict.unchecked)
    return "; ".join(f"{because} ({count})" for because, count in counted.most_common())


def _print_table(verdict: Verdict, out: TextIO, color: str | None) -> None:
    """Each cause: where it is, what is said and derived and how far apart they are, why, and what follows from it."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    elsewhere = out is not sys.stdout and out is not sys.stderr
    console = Console(
        file=out,
        force_terminal=True if color == "always" else None,
        no_color=color == "never" or (color is None and "NO_COLOR" in os.environ),
        width=WIDTH if elsewhere or not out.isatty() else None,
        highlight=False,
        markup=False,
    )
    console.print(
        Text(f"\n  rule  {'said':<{NUMBER}}{'derived':<{NUMBER}}{'off by':<{ROUGH}}{'bound':<{ROUGH}}", "bold")
    )
    for finding, folded in verdict.causes[:MOST_SHOWN]:
        place = finding.path if verdict.records == 1 else f"record {finding.record}: {finding.path}"
        console.print(Text.assemble((f"{finding.rule:>6}  ", "bold red"), (printable(place), "bold")))
        console.print(Padding(_told(finding), (0, 0, 0, 8)))
        if folded:
            console.print(Padding(Text(f"{len(folded)} follow: {_places(folded)}", "dim"), (0, 0, 0, 8)))
    left = len(verdict.causes) - MOST_SHOWN
    if left > 0:
        console.print(f"  and {left} more causes (--json lists them)")
    number = verdict.causes[0][0].rule
    console.print(f"\n  Begin with rule {number}: {rule_of(number).states}", style="bold")
    console.print(f"  'bp explain {number}' says why it is a rule; 'bp show FILE' draws the step.\n")


def _told(finding: Finding) -> Text:
    """Numbers in their columns and the equation beside them; of a label, what it says and what it should."""
    from rich.text import Text

    if finding.is_equation:
        return Text.assemble(
            (f"{_short(finding.said):<{NUMBER}}", "red"),
            (f"{_short(finding.found):<{NUMBER}}", "green"),
            f"{finding.deviation:<{ROUGH}.3g}{finding.bound:<{ROUGH}.3g}",
            (finding.because, "dim"),
        )
    text = Text(printable(finding.because))
    if finding.said is not None:
        text = Text.assemble((_short(finding.said), "red"), ": ", text)
    return text if finding.found is None else Text.assemble(text, "; should be ", (_short(finding.found), "green"))


def _short(value: Any) -> str:
    """A number in nine digits; a text that fits its column, a digest by its ends."""
    text = f"{value:.9g}" if isinstance(value, float) else "" if value is None else printable(str(value))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 7]}…{text[-6:]}"


def _places(folded: list[Finding]) -> str:
    names = list(dict.fromkeys(finding.path for finding in folded))
    return printable(", ".join(names[:3])) + (", ..." if len(names) > 3 else "")


def _ranges(numbers: tuple[int, ...]) -> str:
    """`1-3, 5` for 1, 2, 3, 5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts) or "none"

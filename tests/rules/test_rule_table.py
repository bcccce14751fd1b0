from __future__ import annotations

from pathlib import Path

from backproof.rules import RULES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "receipts.md"


def test_the_page_on_receipts_has_the_table_of_rules():
    text = PAGE.read_text(encoding="utf-8")

    missing = [
        r.number for r in RULES if f"| {r.number} | {r.name} | {r.states.replace('|', chr(92) + '|')} |" not in text
    ]

    assert missing == []

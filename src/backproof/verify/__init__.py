"""Verification: a receipt or a bundle in, a verdict out. Here alone said and found are compared."""

from __future__ import annotations

from backproof.verify.receipts import Verifier, verify_columns, verify_receipt, verify_receipts
from backproof.verify.verdict import Finding, Unchecked, Verdict

__all__ = ["Finding", "Unchecked", "Verdict", "Verifier", "verify_columns", "verify_receipt", "verify_receipts"]

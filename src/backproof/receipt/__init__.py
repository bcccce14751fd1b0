"""Receipts: formats, strict reading, validation, canonical bytes, digests, columns. No arithmetic."""

from __future__ import annotations

from backproof.receipt.digests import bundle_digest, hash_receipt, source_digest, subject_digest
from backproof.receipt.document import (
    Receipt,
    read_receipt,
    read_receipts,
    read_sidecar,
    write_receipt,
    write_receipts,
)
from backproof.receipt.emission import EmissionError, emit
from backproof.receipt.json_schema import schema_of
from backproof.receipt.numbers import NumberRangeError, canonical_number, js_exponential, js_number
from backproof.receipt.validation import Deviation, receipt_deviations, sidecar_deviations

__all__ = [
    "Deviation",
    "EmissionError",
    "NumberRangeError",
    "Receipt",
    "bundle_digest",
    "canonical_number",
    "emit",
    "hash_receipt",
    "js_exponential",
    "js_number",
    "read_receipt",
    "read_receipts",
    "read_sidecar",
    "receipt_deviations",
    "schema_of",
    "sidecar_deviations",
    "source_digest",
    "subject_digest",
    "write_receipt",
    "write_receipts",
]

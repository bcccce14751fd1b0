"""Tensor receipts: a manifest of digests that binds recorded steps to their tensors and to each other, signed or not."""

from __future__ import annotations

from backproof.receipt.tensor.envelope import PREDICATE, Key, Signed, generate, load_key, sealed, unsealed
from backproof.receipt.tensor.manifest import FORMAT, canonical, digest, entry_of, manifest_of, read_manifest

__all__ = [
    "FORMAT",
    "PREDICATE",
    "Key",
    "Signed",
    "canonical",
    "digest",
    "entry_of",
    "generate",
    "load_key",
    "manifest_of",
    "read_manifest",
    "sealed",
    "unsealed",
]

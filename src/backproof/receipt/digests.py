"""Digests over canonical bytes: of a receipt (with or without its own digest), a bundle, a source file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from backproof.errors import InputError
from backproof.receipt.columns import Columns
from backproof.receipt.emission import emit

SHA256 = re.compile(r"^sha256:[0-9a-f]{64}\Z")


def hash_receipt(document: Mapping[str, Any], algorithm: Literal["sha256", "sha512"] = "sha256") -> str:
    """The lower-case hex digest of a receipt's canonical bytes, line feed included."""
    return hashlib.new(algorithm, emit(document)).hexdigest()


def subject_digest(document: Mapping[str, Any]) -> str:
    """What attestor.signed_subject_digest must say: the digest of the receipt without that key."""
    return "sha256:" + hash_receipt(without_attestor_key(document, "signed_subject_digest"))


def bundle_digest(documents: Iterable[Mapping[str, Any]]) -> str:
    """What attestor.bundle_root_digest must say in each record: the digest of all without that key."""
    digest = hashlib.sha256()
    for document in documents:
        digest.update(emit(without_attestor_key(document, "bundle_root_digest")))
    return "sha256:" + digest.hexdigest()


Pieces = tuple[bytes | memoryview, ...]


def canonical_without(columns: Columns, key: str) -> Iterator[Pieces | InputError]:
    """The canonical bytes of each record without one key of its attestor, in pieces; or why it has none."""
    spans, lines = columns.spans_without(key), columns.lines
    if spans is not None and lines is not None:
        for begin, before, after, end in spans:
            yield lines.data[begin:before], lines.data[after:end], b"\n"
        return
    for row in range(columns.size):
        try:
            yield (emit(without_attestor_key(columns.document(row), key)),)
        except InputError as error:
            yield error


def digest_of(pieces: Iterable[bytes | memoryview]) -> str:
    """The digest of some bytes that come in pieces."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return "sha256:" + digest.hexdigest()


def source_digest(content: bytes) -> str:
    """What import_provenance.source_hash says of a sidecar: over its text, invalid bytes as U+FFFD."""
    return "sha256:" + hashlib.sha256(content.decode("utf-8", "replace").encode()).hexdigest()


def without_attestor_key(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The receipt without one key of its attestor."""
    attestor = document.get("attestor")
    kept = {name: item for name, item in attestor.items() if name != key} if isinstance(attestor, Mapping) else attestor
    return {**document, "attestor": kept} if attestor is not None else dict(document)

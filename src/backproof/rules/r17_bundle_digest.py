"""The digest that every record carries of its bundle is the bundle's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from threading import Thread

from backproof.errors import InputError
from backproof.receipt.columns import TextSlot
from backproof.receipt.digests import SHA256, canonical_without
from backproof.rules.rule import Ledger, Mutation, Rule, Violation

PATH = ("attestor", "bundle_root_digest")
PLACE = ".".join(PATH)


class BundleDigest:
    """The digest of a bundle, block by block; nothing is computed for a bundle that carries none."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._said: str | None = None
        self._carried = False
        self._first = True
        self._pieces: list[bytes | memoryview] = []
        self._worker: Thread | None = None
        self._digest: str | None = None  # the last text that was seen to be one

    def take(self, ledger: Ledger) -> Iterator[Violation]:
        """The records of a block: each carries the first record's digest, or none does."""
        columns = ledger.columns
        carried = isinstance(ledger.layout.shape.get(*PATH), TextSlot)
        nothing = not carried and (self._first or not self._carried)
        self._first &= not nothing
        for row in range(0 if nothing else columns.size):
            said = columns.text(row, *PATH)
            if self._first:
                self._first, self._carried, self._said = False, carried, said
            if carried != self._carried:
                message = "some records carry the digest of the bundle and some do not"
                yield Violation(row, PLACE, message, said, self._said)
            elif carried and not self._is_digest(said):
                yield Violation(row, PLACE, "is no digest (sha256: and 64 hex digits)", said)
            elif said != self._said:
                yield Violation(row, PLACE, "is not what the first record says", said, self._said)
            if self._carried:
                self._add(ledger, row)
        self._begin()

    def _is_digest(self, said: str | None) -> bool:
        if said is not None and said is not self._digest and SHA256.match(said):
            self._digest = said
        return said is not None and said is self._digest

    def _add(self, ledger: Ledger, row: int) -> None:
        try:
            self._pieces += canonical_without(ledger.columns, row, PATH[1])
        except InputError:
            self._pieces.append(b"\0")  # a record without canonical bytes: no digest can be right

    def _begin(self) -> None:
        """Digest the pieces of a block while the next one is read; one core is enough for either."""
        self._wait()
        if self._pieces:
            self._worker = Thread(target=_update, args=(self._hash, self._pieces))
            self._worker.start()
            self._pieces = []

    def _wait(self) -> None:
        if self._worker is not None:
            self._worker.join()
            self._worker = None

    def close(self) -> Violation | None:
        """After the last record: the digest is the one of all records."""
        if not self._carried:
            return None
        self._wait()
        found = "sha256:" + self._hash.hexdigest()
        if found == self._said:
            return None
        message = "is not the digest of these records: one was changed, added, removed or moved"
        return Violation(0, PLACE, message, self._said, found)

    @property
    def binds(self) -> bool:
        """Whether the bundle carries a digest at all."""
        return self._carried


def _update(digest: hashlib._Hash, pieces: list[bytes | memoryview]) -> None:
    for piece in pieces:
        digest.update(piece)


RULE = Rule(
    17,
    "bundle-digest",
    "bundle_root_digest = sha256(canonical bytes of all records without it)",
    "It alone notices that records were cut off the end of a bundle.",
    across=True,
    mutations=(Mutation("a remark of a later record is changed", "signed-bundle", "1.metadata.source", 'set:"x"'),),
)

"""The digest that every record carries of its bundle is the bundle's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from threading import Thread

from backproof.errors import InputError
from backproof.receipt.columns import TextSlot
from backproof.receipt.digests import SHA256, Pieces, canonical_without
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
        self._worker: Thread | None = None

    def take(self, ledger: Ledger) -> Iterator[Violation]:
        """The records of a block: each carries the first record's digest, or none does."""
        columns = ledger.columns
        carried = isinstance(ledger.layout.shape.get(*PATH), TextSlot)
        nothing = not carried and (self._first or not self._carried)
        self._first &= not nothing
        if nothing:
            return
        said = columns.all_texts(*PATH)
        if self._first:
            self._first, self._carried, self._said = False, carried, said[0] if said else None
        # Most blocks say what the first record says, and that is a digest.
        alike = carried == self._carried and said.count(self._said or "") == len(said)
        if not alike or (carried and not SHA256.match(self._said or "")):
            for row in range(columns.size):
                yield from self._violation(row, said[row] if said else None)
        if self._carried:
            self._begin(list(canonical_without(columns, PATH[1])))

    def _violation(self, row: int, said: str | None) -> Iterator[Violation]:
        if (said is not None) != self._carried:
            message = "some records carry the digest of the bundle and some do not"
            yield Violation(row, PLACE, message, said, self._said)
        elif said is not None and not SHA256.match(said):
            yield Violation(row, PLACE, "is no digest (sha256: and 64 hex digits)", said)
        elif said != self._said:
            yield Violation(row, PLACE, "is not what the first record says", said, self._said)

    def _begin(self, records: list[Pieces | InputError]) -> None:
        """Digest a block while the next one is judged."""
        self._wait()
        self._worker = Thread(target=_update, args=(self._hash, records))
        self._worker.start()

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


def _update(digest: hashlib._Hash, records: list[Pieces | InputError]) -> None:
    # A record without canonical bytes has no right digest. All at once: an update gives the interpreter away, and waits.
    digest.update(
        b"".join(piece for pieces in records for piece in (pieces if isinstance(pieces, tuple) else (b"\0",)))
    )


RULE = Rule(
    17,
    "bundle-digest",
    "bundle_root_digest = sha256(canonical bytes of all records without it)",
    "It alone notices that records were cut off the end of a bundle.",
    across=True,
    mutations=(Mutation("a remark of a later record is changed", "signed-bundle", "1.metadata.source", 'set:"x"'),),
)

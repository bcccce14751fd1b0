"""Observer receipts of version 1.0.0: every digit of a sidecar, and every finite number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from backproof.adapters.classic.differential import Expected
from backproof.adapters.classic.observer import STEP_MARK, Origin, Written, receipt_document
from backproof.receipt.authoring import as_lossless
from backproof.receipt.columns import Slot
from backproof.receipt.emission import emit
from backproof.receipt.topology import LOSSLESS
from backproof.rules.ball import Reals

_BEGINS = b'{"attestor":{'  # the first key of a receipt whose keys are sorted


class LosslessWriter:
    """The receipts of one shape, record by record."""

    def __init__(self, expected: Expected, origin: Origin) -> None:
        self._expected = expected
        self._origin = origin
        self._derived_from = len(expected.plan.shape.paths) + 1  # the last column of a block is of what is missing
        self._index = self._derived_from + len(expected.places)

    def lines(self, numbers: Reals, derived: Reals, passed: list[bool], first_index: int) -> Iterator[Written]:
        """The canonical lines of a block."""
        templates = {ok: self._document(passed=ok) for ok in set(passed)}
        for row, ok in enumerate(passed):
            index = first_index + row
            held = np.concatenate([numbers[row], derived[row], [index, index + 1.0]]).tolist()
            line = emit(_filled(templates[ok], held, str(index)))
            yield Written(line, line, with_sorted_digest)

    def _document(self, *, passed: bool) -> dict[str, Any]:
        document = receipt_document(self._expected, self._origin, passed, self._derived_from, self._index)
        updates = [
            {**entry, "parameter_role": "bias"} if entry["kind"] == "bias" else entry for entry in document["updates"]
        ]
        return {**as_lossless(document), "schema_version": LOSSLESS, "updates": updates}


def _filled(value: Any, numbers: list[float], index: str) -> Any:
    if isinstance(value, Slot):
        return numbers[value.column]
    if isinstance(value, Mapping):
        return {key: _filled(item, numbers, index) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, numbers, index) for item in value]
    return value.replace(STEP_MARK, index) if isinstance(value, str) else value


def with_sorted_digest(line: bytes, digest: str) -> bytes:
    """A receipt with the digest of its bundle as the first key of its attestor."""
    said = f'"bundle_root_digest":"{digest}",'.encode()
    return _BEGINS + said + line.removeprefix(_BEGINS)

"""Observer receipts: a sidecar's own numbers under the receipt's names, with who computed them and who checked them.

A receipt's text is made once a shape, with holes for its numbers; each record then fills the holes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from backproof.adapters.classic.claims import Plan
from backproof.adapters.classic.differential import Expected, Tolerance
from backproof.adapters.classic.source import Buffer
from backproof.adapters.classic.templates import DIGEST_GOES, WriteTemplate, bound
from backproof.receipt.authoring.builtin import numeric_policy
from backproof.receipt.authoring.step import CONVENTION, schema_version
from backproof.receipt.columns import Path, Slot
from backproof.receipt.emission import EmissionError, emit
from backproof.receipt.numbers import NumberRangeError, canonical_number
from backproof.rules.ball import Reals

ENGINE = "backprop-trace-engine@0.6.0"
# Which importer speaks in a receipt: part of its bytes.
IDENTITIES = {
    ("pytorch", False): "bp-import-pytorch@0.6.0",
    ("jax", False): "bp-import-jax@0.6.1",
    ("tensorflow", False): "bp-import-tensorflow@0.7.0",
    ("pytorch", True): "bp-import-pytorch@0.8.0",
    ("jax", True): "bp-import-jax@0.8.0",
    ("tensorflow", True): "bp-import-tensorflow@0.8.0",
}
MATCHED = "engine_recompute_matched_within_tolerance"
DISAGREED = "engine_recompute_disagreed"
FIRST_HOLE = 1_000_000  # seven digits: a number that no other place of a receipt can have
STEP_MARK = "\0"  # where a stream's fixture has the number of its step
_WRITTEN_MARK = b"\\u0000"
_HOLE = re.compile(rb"(?<=[:,\[])([1-9]\d{6})(?:\.00)?(?=[,}\]])")


@dataclass(frozen=True)
class Origin:
    """Where a receipt comes from: framework, file digest, moment, label, and whether it is one of a stream."""

    framework: str
    source_hash: str
    timestamp: str
    tolerance: Tolerance
    fixture: str | None = None
    multi: bool = False
    trace_id: str | None = None

    @property
    def label(self) -> str:
        """The fixture's name; the steps of a stream are numbered behind it."""
        return self.fixture or f"{self.framework}-imported-{'multi-step' if self.multi else 'step'}"


class Written(NamedTuple):
    """Canonical lines without the digest of their bundle; what is kept of them, and how that becomes the lines with it."""

    lines: Buffer
    kept: Buffer
    bind: Callable[[bytes, str], Buffer]


class Writer:
    """The receipts of one shape: matched or disagreed, each with its own text."""

    def __init__(self, expected: Expected, origin: Origin) -> None:
        self.expected = expected
        self.origin = origin
        shape = expected.plan.shape
        self._derived_from = len(shape.paths) + 1  # the last column of a block is the NaN of what is missing
        self._index = self._derived_from + len(expected.places)
        self._templates: dict[bool, WriteTemplate] = {}

    def lines(self, numbers: Reals, derived: Reals, passed: list[bool], first_index: int) -> Iterator[Written]:
        """The canonical lines of a block, as many together as share a text."""
        index = np.arange(first_index, first_index + len(passed), dtype=np.float64)[:, None]
        held = np.concatenate([numbers, derived, index, index + 1.0], axis=1)
        row = 0
        for ok, run in groupby(passed):
            following = row + sum(1 for _ in run)
            yield self._together(self._template(ok), held[row:following])
            row = following

    def _together(self, template: WriteTemplate, rows: Reals) -> Written:
        """Lines are written twice where that is fast: their numbers are a tenth of them."""
        kept = np.ascontiguousarray(rows[:, template.columns])
        written = template.write(kept)
        if written is None:
            lines = b"".join(self._one(template, row.tolist()) for row in rows)
            return Written(lines, lines, with_bundle_digest)
        return Written(written[0], kept.data.cast("B"), partial(_written_again, template))

    def _one(self, template: WriteTemplate, numbers: list[float]) -> bytes:
        """One record in Python: the texts, and between them its numbers."""
        parts = [template.texts[0]]
        for text, hole, whole in zip(template.texts[1:], template.holes, template.whole, strict=True):
            try:
                parts.append((str(int(numbers[hole])) if whole else canonical_number(numbers[hole])).encode())
            except NumberRangeError as error:
                place = ".".join(map(str, self._paths[hole]))
                step = f"step {int(numbers[self._index])}: " if self.origin.multi else ""
                raise EmissionError(f"{step}{place}: {error}") from error
            parts.append(text)
        return b"".join(parts)

    @property
    def _paths(self) -> tuple[Path, ...]:
        own = (*self.expected.plan.shape.paths, ("missing",))
        return (*own, *self.expected.places, ("step_index",), ("step",))

    def _template(self, passed: bool) -> WriteTemplate:
        if passed not in self._templates:
            document = receipt_document(self.expected, self.origin, passed, self._derived_from, self._index)
            self._templates[passed] = _cut(document, self._index)
        return self._templates[passed]


def _written_again(template: WriteTemplate, kept: bytes, digest: str) -> Buffer:
    written = bound(template, digest).write(np.frombuffer(kept).reshape(-1, len(template.columns)))
    assert written is not None  # the numbers were written before
    return written[0]


def with_bundle_digest(lines: bytes, digest: str) -> bytes:
    """Receipts with the digest of their bundle as the last key of each attestor."""
    said = f',"bundle_root_digest":"{digest}"'.encode()
    parts: list[Buffer] = []
    view, begin = memoryview(lines), 0
    while begin < len(lines):
        goes = lines.index(DIGEST_GOES, begin)
        end = lines.index(b"\n", goes) + 1
        parts += (view[begin:goes], said, view[goes:end])
        begin = end
    return b"".join(parts)


def _cut(document: dict[str, Any], index: int) -> WriteTemplate:
    """Emit a receipt whose numbers are the names of their own columns, and cut it at them."""
    slots: list[int] = []
    text = emit(_filled(document, slots))
    parts = _HOLE.split(text)
    holes = tuple(int(part) - FIRST_HOLE for part in parts[1::2])
    whole = tuple(not found.group().endswith(b".00") for found in _HOLE.finditer(text))
    if not set(holes) <= set(slots):
        raise EmissionError("a label of the sidecar looks like a number of the receipt; change it")
    texts = tuple(parts[::2])
    before, mark, after = texts[0].rpartition(_WRITTEN_MARK)
    if not mark:
        return WriteTemplate(texts, holes, whole)
    return WriteTemplate((before, after, *texts[1:]), (index, *holes), (True, *whole))


def _filled(value: Any, slots: list[int]) -> Any:
    if isinstance(value, Slot):
        slots.append(value.column)
        return FIRST_HOLE + value.column
    if isinstance(value, Mapping):
        return {key: _filled(item, slots) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, slots) for item in value]
    return value


def receipt_document(expected: Expected, origin: Origin, passed: bool, derived_from: int, index: int) -> dict[str, Any]:
    """A receipt whose numbers are slots: the sidecar's columns, then derived ones, then step_index and step."""
    plan = expected.plan
    sidecar = plan.shape.template
    config = sidecar.get("optimizer")
    source = sidecar["source_framework"]
    identity = f"{source['name']}@{source['version']}"
    traced = {"trace_id": origin.trace_id, "step_index": Slot(index)} if origin.multi else {}
    return {
        "schema_version": _version(plan, config),
        "fixture": f"{origin.label}-step-{STEP_MARK}" if origin.multi else origin.label,
        "step": Slot(index + 1) if origin.multi else 1,
        "fixture_status": {
            "authoring_state": "external_imported",
            "verification_state": MATCHED if passed else DISAGREED,
            "canonical": True,
        },
        "source_framework": _framework(source, IDENTITIES[origin.framework, origin.multi]),
        "attestor": {
            "computed_by": {"kind": "framework", "identity": identity},
            "verified_by": {"kind": "engine", "identity": ENGINE},
            "differential_tolerance": {"atol": origin.tolerance.atol, "rtol": origin.tolerance.rtol},
            "import_provenance": {
                "source_format": sidecar["format"],
                "source_hash": origin.source_hash,
                "import_timestamp": origin.timestamp,
            },
        },
        "metadata": {
            "source": f"bp-import-{origin.framework}{' multi' * origin.multi} (sidecar from {identity})",
            "gradient_convention": CONVENTION,
        },
        "numeric_policy": sidecar.get("numeric_policy") or numeric_policy({"atol": 1e-6, "rtol": 1e-4}),
        "bias_policy": plan.bias_policy,
        "topology": sidecar["topology"],
        "learning_rate": sidecar["learning_rate"],
        **({"optimizer_config": config} if config is not None and _is_written(plan, config) else {}),
        **traced,
        **{key: sidecar[key] for key in _OWN if key in sidecar},
        **_after(expected, derived_from),
    }


_OWN = (
    "batch", "inputs", "targets", "parameters_before", "per_sample", "forward", "loss", "backward", "updates",
    "parameters_after",
)  # fmt: skip


def _version(plan: Plan, config: Mapping[str, Any] | None) -> str:
    said = {key: (1.0 if isinstance(value, Slot) else value) for key, value in (config or {}).items()}
    return schema_version(plan.topology, said, base="0.4.0")


def _is_written(plan: Plan, config: Mapping[str, Any]) -> bool:
    return plan.name != "sgd" or "weight_decay" in config


def _framework(source: Mapping[str, Any], identity: str) -> dict[str, Any]:
    name, _, version = identity.rpartition("@")
    extractor = {"name": name, "version": version} if name else {"name": identity, "version": "unversioned"}
    return {
        **{key: source[key] for key in ("name", "version", "information_uri") if key in source},
        "extractor": extractor,
    }


def _after(expected: Expected, derived_from: int) -> dict[str, Any]:
    """The blocks after the update: the sidecar's own, or the engine's."""
    sidecar = expected.plan.shape.template
    blocks: dict[str, Any] = {}
    for key in ("post_update_forward", "post_update_loss"):
        if key in sidecar:
            blocks[key] = sidecar[key]
            continue
        block: dict[str, Any] = {"status": "filled"}
        for k, path in enumerate(expected.places):
            if path[0] == key:
                held = block
                for part in path[1:-1]:
                    held = held.setdefault(str(part), {})
                held[str(path[-1])] = Slot(derived_from + k)
        blocks[key] = block
    return blocks

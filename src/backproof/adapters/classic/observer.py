"""Observer receipts: a sidecar's own numbers under the receipt's names, with who computed them and who checked them.

A receipt's text is made once a shape, with holes for its numbers; each record then fills the holes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backproof.adapters.classic.claims import Plan
from backproof.adapters.classic.differential import Expected, Tolerance
from backproof.receipt.authoring.builtin import numeric_policy
from backproof.receipt.authoring.step import CONVENTION, schema_version
from backproof.receipt.columns import Slot
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
STEP_MARK = "\\u0000"  # where a stream's fixture has the number of its step
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


@dataclass(frozen=True)
class Pieces:
    """A receipt's text in pieces; between two of them stands a number, of which column."""

    texts: tuple[str, ...]
    holes: tuple[int, ...]  # columns: the sidecar's own, then the derived ones, then the index
    whole: tuple[bool, ...]

    def line(self, numbers: list[float]) -> bytes:
        """One record: the texts, and between them its numbers."""
        parts = [self.texts[0]]
        for text, hole, whole in zip(self.texts[1:], self.holes, self.whole, strict=True):
            value = numbers[hole]
            parts.append(str(int(value)) if whole else canonical_number(value))
            parts.append(text)
        return "".join(parts).encode()


class Writer:
    """The receipts of one shape: matched or disagreed, each with its own text."""

    def __init__(self, expected: Expected, origin: Origin) -> None:
        self.expected = expected
        self.origin = origin
        shape = expected.plan.shape
        self._derived_from = len(shape.paths) + 1  # the last column of a block is the NaN of what is missing
        self._index = self._derived_from + len(expected.places)
        self._pieces: dict[bool, Pieces] = {}

    def lines(self, numbers: Reals, derived: Reals, passed: list[bool], first_index: int) -> list[bytes]:
        """The canonical lines of a block, without the digest of the bundle."""
        lines = []
        for row, ok in enumerate(passed):
            held = [
                *numbers[row].tolist(),
                *derived[row].tolist(),
                float(first_index + row),
                float(first_index + row + 1),
            ]
            try:
                lines.append(self._text(ok).line(held))
            except NumberRangeError as error:
                place = self._place_of(held)
                step = f"step {first_index + row}: " if self.origin.multi else ""
                raise EmissionError(f"{step}{place}: {error}; receipts up to 0.8.0 cannot carry it") from error
        return lines

    def _place_of(self, held: list[float]) -> str:
        paths = [*self.expected.plan.shape.paths, ("missing",), *self.expected.places, ("step_index",), ("step",)]
        for path, value in zip(paths, held, strict=True):
            try:
                canonical_number(value)
            except NumberRangeError:
                if path != ("missing",):
                    return ".".join(map(str, path))
        return "a number"

    def _text(self, passed: bool) -> Pieces:
        if passed not in self._pieces:
            document = receipt_document(self.expected, self.origin, passed, self._derived_from, self._index)
            self._pieces[passed] = _cut(document, self._index)
        return self._pieces[passed]


def _cut(document: dict[str, Any], index: int) -> Pieces:
    """Emit a receipt whose numbers are the names of their own columns, and cut it at them."""
    slots: list[int] = []
    text = emit(_filled(document, slots))
    parts = _HOLE.split(text)
    holes = tuple(int(part) - FIRST_HOLE for part in parts[1::2])
    whole = tuple(not found.group().endswith(b".00") for found in _HOLE.finditer(text))
    if not set(holes) <= set(slots):
        raise EmissionError("a label of the sidecar looks like a number of the receipt; change it")
    texts = tuple(part.decode() for part in parts[::2])
    before, mark, after = texts[0].rpartition(STEP_MARK)
    if not mark:
        return Pieces(texts, holes, whole)
    return Pieces((before, after, *texts[1:]), (index, *holes), (True, *whole))


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
        "fixture": f"{origin.label}-step-\0" if origin.multi else origin.label,
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

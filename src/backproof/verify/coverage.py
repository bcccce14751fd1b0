"""What no rule spoke of: every number and label of a file that is not checked is listed, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backproof.receipt import formats
from backproof.receipt.columns import Path, Shape, written
from backproof.receipt.kinds import Anything, Flag, Kind, Many, Map, Number, OneOf, Record, Text, Whole
from backproof.verify.compare import Coverage
from backproof.verify.verdict import Unchecked

# Why some claims of a file cannot be judged. The first pattern that is the beginning of a path gives the reason.
REASONS: tuple[tuple[Path, str], ...] = (
    (("fixture",), "a name that the file gives itself"),
    (("trace_id",), "a name that the file gives its run"),
    (("fixture_status",), "what the file says about its own making"),
    (("metadata",), "a remark"),
    (("bias_policy", "reason"), "a remark"),
    (("bias_policy", "reconciliation"), "a remark"),
    (("numeric_policy", "tolerance"), "asks for a tolerance; the bounds here are derived"),
    (("attestor", "differential_tolerance"), "asks for a tolerance; the bounds here are derived"),
    (("attestor", "import_provenance"), "speaks of the file that it was imported from, which is not at hand"),
    (("attestor", "bundle_root_digest"), "is over the whole bundle, which is not at hand"),
    (("attestor",), "who made and checked the file, by its own word"),
    (("source_framework",), "which framework ran, by the file's own word"),
)
BOUND = "bound by a digest, but not derived"
DIGESTS = frozenset({("attestor", "bundle_root_digest")})
DEFAULT_REASON = "no rule speaks of it"
_TOPOLOGY = ("topology", "batch")  # read by every rule; what is wrong with them is rules 0 and 19


def unchecked_of(shape: Shape, coverage: Coverage, *, signed: bool) -> Iterator[Unchecked]:
    """The leaves of a shape that no claim covers. What a digest binds is said to be bound, not true."""
    checked = coverage.paths | {shape.paths[column] for column in coverage.columns if column >= 0}
    checked -= set(coverage.weak)
    version = shape.get("schema_version")
    kind = formats.of_version(version) if version in formats.RECEIPT_VERSIONS else Record(())
    constants = set(_constants(kind, shape.template, ()))
    leaves: list[Path] = []
    _take_leaves(shape.template, (), leaves)
    for path in leaves:
        if path[0] in _TOPOLOGY or path in checked or path in constants:
            continue
        because = coverage.weak.get(path) or _reason(path)
        yield Unchecked(written(path), f"{BOUND}: {because}" if signed and path not in DIGESTS else because)


def _reason(path: Path) -> str:
    return next((because for start, because in REASONS if path[: len(start)] == start), DEFAULT_REASON)


def _take_leaves(value: Any, path: Path, leaves: list[Path]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _take_leaves(item, (*path, key), leaves)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            _take_leaves(item, (*path, i), leaves)
    else:
        leaves.append(path)


def _constants(kind: Kind, value: Any, path: Path) -> Iterator[Path]:  # noqa: C901 - one case a kind
    """The places where the format allows one value only, so that validation has judged them."""
    match kind:
        case Text() | Number() | Whole() | Flag():
            if kind.const is not None:
                yield path
        case Record():
            for field in kind.fields:
                if isinstance(value, dict) and field.name in value:
                    yield from _constants(field.kind, value[field.name], (*path, field.name))
        case Map():
            for key, item in value.items() if isinstance(value, dict) else ():
                yield from _constants(kind.values, item, (*path, key))
        case Many():
            for i, item in enumerate(value) if isinstance(value, list) else ():
                yield from _constants(kind.items, item, (*path, i))
        case OneOf() | Anything():
            return

"""The manifest: each step's record, graph, configuration and tensors by sha256, and the digest of the step before it.

Its bytes are those of RFC 8785, and `digest` is the sha256 of all the rest of it: one changed byte is a difference, and it has a name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from backproof.errors import InputError, once
from backproof.receipt.emission import sorted_compact

FORMAT = "backproof.tensor-receipt.v1"
PARTS = {"step", "framework", "record", "graph", "optimizers", "tensors", "previous"}


def canonical(value: Any) -> bytes:
    """The bytes of RFC 8785."""
    return sorted_compact(value, "manifest").encode("utf-8")


def digest(value: Any) -> str:
    """The sha256 of a value's canonical bytes."""
    return hashlib.sha256(canonical(value)).hexdigest()


def entry_of(record: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Any]], previous: Any) -> dict[str, Any]:
    """The manifest of one step, from its record as data and what is known of its tensors."""
    return {
        "step": record["index"],
        "framework": record["framework"],
        "record": digest(record),
        "graph": digest({"calls": record["calls"], "regions": record["regions"], "values": record["values"]}),
        "optimizers": [{"optimizer": u["optimizer"], "groups": u["groups"]} for u in record["updates"]],
        "tensors": dict(tensors),
        "previous": None if previous is None else digest(previous),
    }


def manifest_of(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The manifest of some steps."""
    found: dict[str, Any] = {"format": FORMAT, "steps": [dict(step) for step in steps]}
    return {**found, "digest": digest(found)}


def read_manifest(data: Any, place: str) -> dict[str, Any]:
    """A manifest whose parts are what they should be; whether they are true is for the verifier."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        said = data.get("format") if isinstance(data, dict) else type(data).__name__
        raise InputError(f"{place}: said {said!r}; a tensor receipt is {FORMAT!r}")
    steps = data.get("steps")
    if not isinstance(steps, list) or not steps:
        raise InputError(f"{place}: has no steps")
    for i, step in enumerate(steps):
        if not isinstance(step, dict) or set(step) != PARTS or not isinstance(step["step"], int):
            raise InputError(f"{place}: steps[{i}] does not have the parts {', '.join(sorted(PARTS))}")
        tensors = step["tensors"]
        if not isinstance(tensors, dict) or not all(_is_entry(entry) for entry in tensors.values()):
            raise InputError(f"{place}: steps[{i}].tensors is not a table of dtype, shape and sha256")
    return data


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and {"dtype", "shape", "sha256"} <= set(entry) and isinstance(entry["sha256"], str)


def parse(text: bytes, place: str) -> Any:
    """JSON, each key once."""
    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON: {error}") from None

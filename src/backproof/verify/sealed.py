"""A tensor receipt: 1 its own digest · 2 its signature · 3 the chain of its steps · 4 each tensor's digest · 5 every equation of each step.

4 and 5 need the tensors, in the folder beside it; without them that is said, and is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backproof.errors import InputError
from backproof.receipt.tensor import Key, Signed, canonical, digest, read_manifest, unsealed
from backproof.receipt.tensor.envelope import subjects_of
from backproof.receipt.tensor.manifest import parse
from backproof.trace.folder import folders, read
from backproof.trace.sealing import entry
from backproof.verify.equation import NotChecked, Result
from backproof.verify.outcome import StepVerdict

LARGEST = 1 << 30


@dataclass(frozen=True)
class Receipt:
    """A receipt as it was read."""

    path: Path
    manifest: Mapping[str, Any]
    signed: Signed | None
    plain: bool = True
    """Whether its bytes are the canonical ones."""
    tensors: dict[int, str] = field(default_factory=dict)
    """The step folders beside it, by their numbers."""


def open_receipt(path: Path) -> Receipt:
    """Read a receipt, signed or not."""
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path}: has {path.stat().st_size} bytes; more than {LARGEST} are not read")
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    data = parse(text, str(path))
    signed = unsealed(data, str(path)) if isinstance(data, dict) and "payload" in data else None
    manifest = read_manifest(data if signed is None else signed.manifest, str(path))
    beside = path.with_suffix("")
    steps = {int(step[-6:]): step for step in folders(beside)} if beside.is_dir() else {}
    return Receipt(path, manifest, signed, canonical(data) == text.rstrip(b"\n"), steps)


def check_receipt(receipt: Receipt, key: Key | None) -> StepVerdict:
    """1 and 2: what the receipt says of itself; as the verdict on its first step."""
    verdict = StepVerdict(receipt.manifest["steps"][0]["step"])
    manifest = receipt.manifest
    rest = {part: value for part, value in manifest.items() if part != "digest"}
    verdict.add(
        _exact("manifest", "digest", manifest.get("digest") == digest(rest), "its digest is not that of what it says")
    )
    if receipt.signed is None:
        verdict.add(_exact("manifest", "bytes", receipt.plain, "its bytes are not the canonical ones of RFC 8785"))
    else:
        same = receipt.signed.subjects == subjects_of(manifest)
        verdict.add(_exact("statement", "subject", same, "the statement speaks of other steps than the manifest"))
    _signature(receipt, key, verdict)
    return verdict


def _signature(receipt: Receipt, key: Key | None, verdict: StepVerdict) -> None:
    if receipt.signed is None:
        if key is not None:
            verdict.add(_exact("signature", key.id[:16], False, "the receipt is not signed"))
        else:
            verdict.notes.append("the receipt is not signed: it binds its parts to each other, and to nobody")
        return
    keys = ", ".join(name[:16] for name, _ in receipt.signed.signatures) or "nobody"
    if key is None:
        verdict.add(NotChecked(f"signature by {keys}", "no key was given to check it with (--key)"))
        return
    verdict.add(
        _exact("signature", key.id[:16], receipt.signed.signed_by(key), f"no signature of this key; signed by {keys}")
    )


def _chain(before: Any, after: Any) -> Iterator[Result]:
    """A step names the one before, and its parameters are what that one left."""
    because = f"the digest of the step before is not that of step {before['step']}"
    yield _exact(f"step {after['step']}", "previous", after["previous"] == digest(before), because)
    if after["step"] != before["step"] + 1:
        return
    left = {name.rsplit(":", 1)[1]: found for name, found in before["tensors"].items() if ":after:parameter:" in name}
    first: dict[str, Any] = {}
    for found in after["tensors"].values():
        first.setdefault(found.get("parameter", ""), found)
    for name in sorted(left.keys() & first.keys()):
        same = left[name]["sha256"] == first[name]["sha256"]
        yield _exact(name, "chain", same, "it is not what the step before left")


def check_tensors(receipt: Receipt, at: int) -> StepVerdict:
    """3 and 4: one step's link to the one before, and the digests of its record and tensors."""
    steps = receipt.manifest["steps"]
    said = steps[at]
    verdict = StepVerdict(said["step"], list(_chain(steps[at - 1], said)) if at else [])
    folder = receipt.tensors.get(said["step"])
    if folder is None:
        missing = f"its tensors are not in {receipt.path.with_suffix('')}"
        verdict.add(NotChecked(f"step {said['step']}: {len(said['tensors'])} tensors and every equation", missing))
        return verdict
    found = entry(read(folder), None)
    place = f"step {said['step']}"
    for part in ("framework", "record", "graph", "optimizers"):
        verdict.add(_exact(place, part, said[part] == found[part], f"the {part} is not the one that the receipt has"))
    for name in sorted(said["tensors"].keys() | found["tensors"].keys()):
        here, there = found["tensors"].get(name), said["tensors"].get(name)
        because = (
            "it is not there"
            if here is None
            else "the receipt does not have it"
            if there is None
            else "its sha256 is another"
        )
        verdict.add(_exact(place, name, here == there, because))
    return verdict


def _exact(place: str, probe: str, holds: bool, because: str) -> Result:
    ratio, said = (0.0, "holds") if holds else (np.inf, "broken")
    why = "" if holds else f"{probe}: {because}"
    return Result("receipt", place, probe, said, ratio, ratio, 0.0, 0.0, 0.0, 0.0, because=why)

"""A recorded run sealed: its manifest of digests, and its tensors beside it as a folder that is a run itself."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backproof.errors import InputError
from backproof.receipt.tensor import entry_of, manifest_of
from backproof.trace.folder import Recorded, read
from backproof.trace.recording import Writer


def seal(steps: Sequence[str], beside: Path | None) -> dict[str, Any]:
    """The manifest of some steps; with a folder to write, their tensors too."""
    if beside is not None and beside.exists():
        raise InputError(f"{beside}: is there already; a receipt's tensors are not overwritten")
    entries: list[dict[str, Any]] = []
    try:
        writer = None if beside is None else Writer(beside)
        if beside is not None:
            beside.mkdir(parents=True)
        for step in steps:
            recorded = read(step)
            entries.append(entry(recorded, entries[-1] if entries else None))
            if writer is not None:
                _copy(recorded, writer)
    except BaseException:
        if beside is not None:
            shutil.rmtree(beside, ignore_errors=True)
        raise
    return manifest_of(entries)


def entry(recorded: Recorded, previous: Any) -> dict[str, Any]:
    """The manifest of one step."""
    tensors = recorded.tensors
    names = {f"v{value.id}": value.name for value in recorded.step.values.values() if value.name}
    described = {
        name: {
            "dtype": tensors.dtype(name),
            "shape": list(tensors.shape(name)),
            "sha256": hashlib.sha256(tensors.raw(name)).hexdigest(),
            **({"parameter": names[name]} if name in names else {}),
        }
        for name in tensors
    }
    return entry_of(recorded.step.to_json(), described, previous)


def _copy(recorded: Recorded, writer: Writer) -> None:
    tensors = recorded.tensors
    lasting = {name for name in tensors if name.startswith("u")}
    lasting |= {f"v{value.id}" for value in recorded.step.values.values() if value.name}
    stored = {name: (tensors.dtype(name), tensors.shape(name), tensors.raw(name)) for name in tensors}
    writer.write(recorded.step.index, recorded.step, stored, lasting)

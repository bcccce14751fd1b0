"""Writing a recorded run: whole steps or none, and every number once. What an earlier step wrote is referred to by its digest."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backproof.trace.folder import SHARED, STEP, TENSORS
from backproof.trace.safetensors import write
from backproof.trace.step import Step

Stored = tuple[str, tuple[int, ...], memoryview | bytes]
SMALLEST = 256  # bytes; a smaller tensor is written again sooner than looked for


@dataclass
class Writer:
    """Writes the steps of one run, in order."""

    out: Path
    known: dict[tuple[str, tuple[int, ...], str], tuple[str, str]] = field(default_factory=dict)
    """(dtype, shape, digest) of what lasts from step to step → the step that wrote it, and its name there."""

    def write(self, number: int, step: Step, tensors: Mapping[str, Stored], lasting: Collection[str]) -> None:
        """One step, as a folder that appears whole or not at all. `lasting` names what may be the same in the next step."""
        folder = self.out / f"step{number:06d}"
        partial = folder.with_name(folder.name + ".part")
        try:
            partial.mkdir()
            own, shared, known = self._split(folder.name, tensors, lasting)
            write(partial / TENSORS, own)
            if shared:
                (partial / SHARED).write_text(json.dumps(shared), encoding="utf-8")
            (partial / STEP).write_text(json.dumps(step.to_json(), ensure_ascii=False), encoding="utf-8")
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        self.known = known

    def _split(self, step: str, tensors: Mapping[str, Stored], lasting: Collection[str]) -> tuple[Any, Any, Any]:
        """What is new; where the rest is; and what the next step may refer to."""
        own: dict[str, Stored] = {}
        shared: dict[str, tuple[Any, ...]] = {}
        known: dict[tuple[str, tuple[int, ...], str], tuple[str, str]] = {}
        alias: dict[Any, str] = {}
        for name, stored in tensors.items():
            dtype, shape, data = stored
            if len(data) < SMALLEST:
                own[name] = stored
                continue
            memory = _memory(stored)
            same = alias.get(memory)
            if name in lasting:
                key = (dtype, shape, hashlib.sha256(data).hexdigest())
                home = known.get(key) or self.known.get(key)
                there = same if same is not None and own[same][1] == shape else None
                known[key] = home or (step, there or name)
                if home is not None:
                    shared[name] = (*home, key[2])
                    continue
                if same is not None and there is None:  # in another shape a later step cannot refer to it
                    own[name] = stored
                    continue
            if same is not None:
                shared[name] = (step, same, "", shape)
                continue
            alias[memory] = name
            own[name] = stored
        return own, shared, known


def _memory(stored: Stored) -> tuple[Any, ...]:
    """What tells that two tensors are the same numbers in the same memory, in whatever shape."""
    import numpy as np

    dtype, _, data = stored
    return dtype, len(data), np.frombuffer(data, dtype=np.uint8).ctypes.data

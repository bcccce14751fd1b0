"""A recorded run as a folder: a step is `step000007/`, with step.json, the tensors that are new in it, and `shared.json`.

That says where the others are: in an earlier step, under another name, with their digest. A weight that did not change is written once.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backproof.errors import InputError, once
from backproof.trace.place import Place
from backproof.trace.safetensors import Tensors
from backproof.trace.step import Step

STEP, TENSORS, SHARED = "step.json", "tensors.safetensors", "shared.json"
LARGEST = 1 << 30  # bytes of a step's own JSON


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step with its tensors at hand."""

    step: Step
    tensors: StepTensors


def folders(run: str | Path) -> list[str]:
    """The steps of a run, in order."""
    place = Place(str(run))
    found = [place.child(name) for name in place.names() if _is_step(name)]
    whole = [str(step) if step.local else _url(run, step) for step in found if step.child(STEP).exists()]
    if not whole:
        raise InputError(f"{run}: no recorded step in this folder")
    return whole


def rank_folders(run: str | Path) -> list[str]:
    """Of a data-parallel run the folders of its ranks, `rank0`, `rank1` …, in order; none of any other run."""
    ranks = sorted(
        int(name[4:]) for name in Place(str(run)).names() if name.startswith("rank") and name[4:].isdecimal()
    )
    return [f"{str(run).rstrip('/')}/rank{rank}" for rank in ranks]


def unfinished(run: str | Path) -> list[str]:
    """Steps that are not whole: their writer was killed, or is at work."""
    place = Place(str(run))
    names = [name for name in place.names() if name.startswith("step")]
    return [name for name in names if not _is_step(name) or not place.child(name, STEP).exists()]


def _is_step(name: str) -> bool:
    return name.startswith("step") and name[4:].isdecimal()


def _url(run: str | Path, step: Place) -> str:
    return f"{str(run).rstrip('/')}/{step.name}"


def read(folder: str | Path, digested: float = 1.0) -> Recorded:
    """One step of a run. Of what it refers to in earlier steps, this share is compared with the digest that it had, drawn at random."""
    step, around = Place(str(folder)), Place(str(folder).rstrip("/").rsplit("/", 1)[0] if "/" in str(folder) else ".")
    data = _json(step.child(STEP))
    return Recorded(Step.from_json(data, str(step.child(STEP))), StepTensors(around, step.name, digested))


def _json(place: Place) -> Any:
    try:
        return json.loads(place.read(most=LARGEST), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON: {error}") from None


class StepTensors(Mapping[str, np.ndarray[Any, Any]]):
    """All tensors of a step, wherever they were written."""

    def __init__(self, run: Place, step: str, digested: float = 1.0) -> None:
        self.run, self.step, self.digested = run, step, digested
        self.own = Tensors(run.child(step, TENSORS))
        shared = run.child(step, SHARED)
        self.shared: dict[str, tuple[str, str, str, tuple[int, ...] | None]] = (
            _shared(shared) if shared.exists() else {}
        )
        self._others: dict[str, Tensors] = {step: self.own}
        self._known: set[str] = set()
        self.changed: dict[str, str] = {}
        """What is no longer what this step referred to, as far as it was looked at."""

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.shared

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self.shared

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def dtype(self, name: str) -> str:
        """The format in which a tensor is stored."""
        if name in self.own or name not in self.shared:
            return self.own.dtype(name)
        step, at, *_ = self.shared[name]
        return self._file(step).dtype(at)

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape, without reading it."""
        if name in self.own or name not in self.shared:
            return self.own.shape(name)
        step, at, _, shape = self.shared[name]
        return self._file(step).shape(at) if shape is None else shape

    def raw(self, name: str) -> memoryview:
        """A tensor's bytes."""
        home, at = self._home(name)
        return home.raw(at)

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        home, at = self._home(name)
        found = home[at]
        shape = self.shape(name)
        if found.shape != shape:
            if found.size != math.prod(shape):
                raise InputError(
                    f"{self.run}: {name} is said to be {at} in the shape {list(shape)}, which has {found.size} numbers"
                )
            found = found.reshape(shape)
        return found

    def home(self, name: str) -> tuple[str, str, str]:
        """Where a tensor was written: the run, the step, and its name there."""
        step, at = self.shared[name][:2] if name not in self.own and name in self.shared else (self.step, name)
        return str(self.run), step, at

    def _file(self, step: str) -> Tensors:
        if step not in self._others:
            self._others[step] = Tensors(self.run.child(step, TENSORS))
        return self._others[step]

    def _home(self, name: str) -> tuple[Tensors, str]:
        """The file that a tensor is in, and its name there."""
        if name in self.own or name not in self.shared:
            return self.own, name
        step, at, digest, _ = self.shared[name]
        home = self._file(step)
        if step != self.step and name not in self._known:
            self._known.add(name)
            if random.random() >= self.digested:
                return home, at
            found = hashlib.sha256(home.raw(at)).hexdigest()
            if found != digest:
                self.changed[name] = f"it was written in {step} as {at}, which has changed since: its sha256 is another"
        return home, at


def _shared(place: Place) -> dict[str, tuple[str, str, str, tuple[int, ...] | None]]:
    data = _json(place)
    if not isinstance(data, dict) or not all(_is_home(entry) for entry in data.values()):
        raise InputError(f"{place}: is not a table of name: [step, name, sha256] or [step, name, sha256, shape]")
    return {
        name: (entry[0], entry[1], entry[2], tuple(entry[3]) if len(entry) == 4 else None)
        for name, entry in data.items()
    }


def _is_home(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) not in (3, 4) or not all(isinstance(item, str) for item in entry[:3]):
        return False
    shape = entry[3] if len(entry) == 4 else []
    return _is_step(entry[0]) and isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)

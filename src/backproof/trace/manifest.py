"""`trace.json`: what a trace is of. The network's probes in order with their parents and mathematics, and how its numbers are scaled."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backproof.errors import InputError, once
from backproof.numerics import FORMATS
from backproof.trace.event import encoded
from backproof.trace.phases import INPUT, LABEL, PHASES
from backproof.trace.place import Place

FORMAT = "backproof.trace.v1"
NAME = "trace.json"
STORES = ("npy", "safetensors")
LARGEST = 1 << 28
MOST = 1 << 31  # samples of a batch, or what a quantised number can be


@dataclass(frozen=True)
class Probe:
    """A place of the network: what it reads, and, where it is told, its mathematics."""

    name: str
    parents: tuple[str, ...] = ()
    """The probes it reads, in the order of its arguments; `input` and `label` are the network's."""
    kind: str = ""
    """The layer's kind, a name of docs/traces.md; empty where it is not told."""
    hyper: Mapping[str, Any] = field(default_factory=dict)
    """Its hyper-parameters."""
    parameters: tuple[str, ...] = ()
    """Its trainable parameters, in the order of the network."""


@dataclass(frozen=True)
class Stored:
    """What is said of a tensor beside its file: needed where a file cannot say it."""

    dtype: str
    shape: tuple[int, ...]
    scale: float = 1.0
    zero_point: int = 0


@dataclass(frozen=True)
class Manifest:
    """All that is told of a trace."""

    probes: tuple[Probe, ...] = ()
    framework: str = ""
    store: str = "npy"
    batch: int | None = None
    """How many samples the step's batch has."""
    samples: tuple[int, ...] | None = None
    """Which of them were recorded one by one; None where tensors are of the whole batch."""
    dtype: str = ""
    """The format that was computed in, where tensors are stored in another."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """phase → what its numbers are to be multiplied by, so that gradients are of each sample's own loss, and grad_raw their sum."""
    handled: bool = False
    """Whether something else than a scale lies between grad_raw and grad_scaled: gradients were clipped, or the scale is not known."""
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    """{"name": a name of docs/optimizers.md or a class's path, and its settings}; {} where it is not told."""
    graph: str = ""
    """A digest of the network, if there is one."""
    order: tuple[str, ...] = ()
    """`<probe>.<phase>` in the order in which things happened, where that is known."""
    phases: tuple[str, ...] = ()
    steps: Mapping[int, Mapping[str, Stored]] = field(default_factory=dict)
    """step → key → what is stored there."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Remarks of the recorder: seeds, versions, what could not be seen. Nothing is concluded from them."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "format": FORMAT,
            "framework": self.framework,
            "store": self.store,
            "batch": self.batch,
            "samples": None if self.samples is None else list(self.samples),
            "dtype": self.dtype,
            "scale": dict(self.scale),
            **({"handled": True} if self.handled else {}),
            "optimizer": dict(self.optimizer),
            "graph": self.graph,
            "probes": [_probe_json(probe) for probe in self.probes],
            "phases": list(self.phases),
            "order": list(self.order),
            "steps": [
                {"index": index, "tensors": {key: _stored_json(found) for key, found in tensors.items()}}
                for index, tensors in self.steps.items()
            ],
            "notes": dict(self.notes),
        }

    def write(self, folder: Path) -> None:
        """Write `trace.json`; it appears whole or not at all."""
        partial = folder / (NAME + ".part")
        partial.write_text(_lines(self.to_json()), encoding="utf-8")
        partial.replace(folder / NAME)

    @property
    def by_name(self) -> dict[str, Probe]:
        """The probes by name."""
        return {probe.name: probe for probe in self.probes}


def _lines(data: dict[str, Any]) -> str:
    """An object as JSON with a line for each key, and one for each item of a list of objects."""

    def one(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    def lines(value: Any) -> str:
        many = isinstance(value, list) and value and isinstance(value[0], dict)
        return "[\n  " + ",\n  ".join(map(one, value)) + "\n ]" if many else one(value)

    return "{\n" + ",\n".join(f" {one(key)}: {lines(value)}" for key, value in data.items()) + "\n}\n"


def _probe_json(probe: Probe) -> dict[str, Any]:
    found: dict[str, Any] = {"name": probe.name, "parents": list(probe.parents)}
    if encoded(probe.name) != probe.name:
        found["key"] = encoded(probe.name)
    if probe.kind:
        found.update(kind=probe.kind, hyper=dict(probe.hyper))
    if probe.parameters:
        found["parameters"] = list(probe.parameters)
    return found


def _stored_json(stored: Stored) -> dict[str, Any]:
    found: dict[str, Any] = {"dtype": stored.dtype, "shape": list(stored.shape)}
    if stored.scale != 1.0 or stored.zero_point:
        found.update(scale=stored.scale, zero_point=stored.zero_point)
    return found


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where there is none."""
    path = folder / NAME
    if not os.path.lexists(path):
        return None
    text = Place(str(folder)).child(NAME).read(most=LARGEST)
    try:
        data = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    return from_json(data, str(path))


def from_json(data: Any, place: str) -> Manifest:
    """What `to_json` gave; what is not of the format is refused, with its place."""
    given = _Given(data, place)
    said = given.take("format", str, "")
    if said != FORMAT:
        raise InputError(f"{place}: format: said {said!r}; this version reads {FORMAT!r}")
    samples = given.take("samples", list, None)
    found = Manifest(
        probes=read_probes(given.take("probes", list, []), f"{place}: probes"),
        framework=given.take("framework", str, ""),
        store=given.take("store", str, "npy"),
        batch=given.take("batch", int, None),
        samples=None if samples is None else tuple(_wholes(samples, f"{place}: samples")),
        dtype=given.take("dtype", str, ""),
        scale=given.take("scale", dict, {}),
        handled=given.take("handled", bool, False),
        optimizer=given.take("optimizer", dict, {}),
        graph=given.take("graph", str, ""),
        order=_names(given.take("order", list, []), f"{place}: order"),
        phases=_names(given.take("phases", list, []), f"{place}: phases"),
        steps=_steps(given.take("steps", list, []), place),
        notes=given.take("notes", dict, {}),
    )
    given.nothing_left()
    return _checked(found, place)


def _checked(found: Manifest, place: str) -> Manifest:
    if found.store not in STORES:
        raise InputError(f"{place}: store: said {found.store!r}; there are {', '.join(STORES)}")
    if found.dtype and found.dtype not in FORMATS:
        raise InputError(f"{place}: dtype: said {found.dtype[:40]!r}; there are {', '.join(FORMATS)}")
    if found.batch is not None and not 1 <= found.batch <= MOST:
        raise InputError(
            f"{place}: batch: said {str(found.batch)[:40]}; a batch has at least one sample, and at most {MOST}"
        )
    groups = found.optimizer.get("groups", [])
    if not isinstance(groups, list) or not all(
        isinstance(group, dict) and isinstance(group.get("parameters", []), list) for group in groups
    ):
        raise InputError(f"{place}: optimizer: groups: a list of objects, each with a list of `parameters`")
    for phase, factor in found.scale.items():
        if phase not in PHASES:
            raise InputError(f"{place}: scale: there is no phase {phase!r}; there are {', '.join(PHASES)}")
        if not _is_number(factor) or factor == 0:
            raise InputError(
                f"{place}: scale of {phase}: said {str(factor)[:40]}; it must be a finite number, and not 0"
            )
    return replace(found, scale={phase: float(factor) for phase, factor in found.scale.items()})


def _is_number(given: Any) -> bool:
    """Whether it is a finite number that float64 can hold."""
    try:
        return isinstance(given, (int, float)) and not isinstance(given, bool) and math.isfinite(given)
    except OverflowError:  # a whole number beyond float64
        return False


def read_probes(data: list[Any], place: str) -> tuple[Probe, ...]:
    """Probes as data; each reads only probes that come before it, and the network's input and label."""
    found: list[Probe] = []
    known, names = {INPUT, LABEL}, set[str]()
    for number, item in enumerate(data):
        given = _Given(item, f"{place}[{number}]")
        probe = Probe(
            name=given.take("name", str, ""),
            parents=_names(given.take("parents", list, []), f"{given.place}: parents"),
            kind=given.take("kind", str, ""),
            hyper=given.take("hyper", dict, {}),
            parameters=_names(given.take("parameters", list, []), f"{given.place}: parameters"),
        )
        key = given.take("key", str, None)
        given.nothing_left()
        if not probe.name:
            raise InputError(f"{given.place}: a probe needs a name")
        if key is not None and key != encoded(probe.name):
            raise InputError(f"{given.place}: key: said {key!r}; {probe.name!r} is written {encoded(probe.name)!r}")
        if probe.name in names:
            raise InputError(f"{given.place}: {probe.name!r} is there twice")
        for parent in probe.parents:
            if parent not in known:
                raise InputError(
                    f"{given.place}: {probe.name!r} reads {parent!r}, which is not before it; before it are {', '.join(sorted(known))}"
                )
        known.add(probe.name)
        names.add(probe.name)
        found.append(probe)
    return tuple(found)


def _steps(data: list[Any], place: str) -> dict[int, dict[str, Stored]]:
    found: dict[int, dict[str, Stored]] = {}
    for number, item in enumerate(data):
        given = _Given(item, f"{place}: steps[{number}]")
        index = given.take("index", int, None)
        if index is None or index < 0 or index in found:
            raise InputError(f"{given.place}: index: said {index!r}; it must be a whole number that no other step has")
        tensors = given.take("tensors", dict, {})
        given.nothing_left()
        found[index] = {key: _stored(value, f"{given.place}: {key[:80]!r}") for key, value in tensors.items()}
    return found


def _stored(data: Any, place: str) -> Stored:
    given = _Given(data, place)
    scale, zero = given.take("scale", (int, float), 1.0), given.take("zero_point", int, 0)
    if not _is_number(scale) or not abs(zero) <= MOST:
        raise InputError(f"{place}: a quantised tensor has a finite scale, and a zero_point of at most {MOST}")
    shape = tuple(_wholes(given.take("shape", list, []), f"{place}: shape"))
    found = Stored(given.take("dtype", str, ""), shape, float(scale), zero)
    given.nothing_left()
    return found


def _names(given: list[Any], place: str) -> tuple[str, ...]:
    for item in given:
        if not isinstance(item, str) or not item:
            raise InputError(f"{place}: said {str(item)[:60]!r}, and it is made of names")
    return tuple(given)


def _wholes(given: list[Any], place: str) -> list[int]:
    for item in given:
        if isinstance(item, bool) or not isinstance(item, int) or item < 0:
            raise InputError(f"{place}: said {str(item)[:60]!r}, and it is made of whole numbers from 0 on")
    return given


class _Given:
    """An object of JSON whose keys are taken one by one; what is left at the end is refused."""

    def __init__(self, data: Any, place: str) -> None:
        if not isinstance(data, dict):
            raise InputError(f"{place}: must be an object, not {str(data)[:60]!r}")
        self.data, self.place, self.left = data, place, set(data)

    def take(self, name: str, kind: Any, default: Any) -> Any:
        self.left.discard(name)
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InputError(
                f"{self.place}: {name}: said {str(value)[:60]!r}, which is not of the kind that belongs there"
            )
        return value

    def nothing_left(self) -> None:
        if self.left:
            raise InputError(f"{self.place}: {', '.join(map(repr, sorted(self.left)))} is not a key of the format")

"""What every recorder does alike: tensors as events, names as places, and a folder that goes on with the next step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from backproof.errors import UsageError
from backproof.trace import Event, Manifest, Probe, Sink, TraceWriter
from backproof.trace.manifest import read_manifest
from backproof.trace.phases import INPUT, LABEL, LOSS
from backproof.trace.sink import same_bits
from backproof.trace.writer import StepSink


@dataclass(frozen=True, slots=True)
class Kept:
    """An array at a place; `rows` says that its first axis is the batch."""

    probe: str
    phase: str
    numbers: Any
    parameter: str = ""
    dtype: str = ""
    rows: bool = False

    def events(self, index: int = 0, *, again: bool = False) -> Iterator[Event]:
        """The array as an event; where samples are recorded one by one, as an event for each row."""
        rows = range(self.numbers.shape[0]) if self.rows else (None,)
        for s in rows:
            numbers = self.numbers if s is None else self.numbers[s : s + 1]
            yield Event(self.probe, self.phase, index, s, self.parameter, numbers, self.dtype, again=again)


class Keeper(Protocol):
    """Where a recorder puts arrays that may change right after."""

    def keep(self, found: Kept, *, again: bool = False) -> None:
        """Keep an array as it is now; `again`: in the place of what was kept of this place before."""

    def holds(self, found: Kept) -> bool:
        """Whether what was kept of this place are these very numbers, to the last bit."""


class Copies:
    """A keeper of copies, until all is known that events tell: for sinks."""

    def __init__(self) -> None:
        self.kept: list[Kept] = []
        self._at: dict[tuple[str, str, str], int] = {}

    def keep(self, found: Kept, *, again: bool = False) -> None:
        """Keep a copy."""
        at = self._at.setdefault((found.probe, found.phase, found.parameter), len(self.kept))
        copied = replace(found, numbers=np.array(found.numbers, order="C"))
        if again and at < len(self.kept):
            self.kept[at] = copied
        else:
            self.kept.append(copied)

    def holds(self, found: Kept) -> bool:
        """Whether the copy has the same bits."""
        return same_bits(self.kept[self._at[found.probe, found.phase, found.parameter]].numbers, found.numbers)


class Stored:
    """A keeper that stores arrays at once, in a folder, which does not say an event's place in the network's order.

    So memory is read while it is still near, and free again as early as without a recorder.
    """

    def __init__(self, sink: StepSink) -> None:
        self.sink = sink

    def keep(self, found: Kept, *, again: bool = False) -> None:
        """Store it."""
        for event in found.events(again=again):
            self.sink(event)

    def holds(self, found: Kept) -> bool:
        """Whether what is stored has the same bits."""
        return all(self.sink.holds(event) for event in found.events())


def kept(
    probe: str, phase: str, array: Any, parameter: str = "", *, samples: int | None = None, batch: int | None = None
) -> Kept:
    """An array of any framework that NumPy can read, as it is kept: the first samples of a batch, or all of it."""
    rows = samples is not None and not parameter and array.ndim > 0 and array.shape[0] == batch
    numbers, dtype = bits(array[:samples] if rows else array)
    return Kept(probe, phase, numbers, parameter, dtype, rows)


def bits(array: Any) -> tuple[Any, str]:
    """NumPy's array and its format; bfloat16, which NumPy does not know, as its bits."""
    numbers = np.asarray(array)
    if numbers.dtype.name == "bfloat16":
        return numbers.view(np.uint16), "bfloat16"
    return numbers, ""


def place_of(path: str, lone: str = "model") -> tuple[str, str]:
    """`h.0.attn.weight` is the parameter `weight` of `h.0.attn`; a name without a dot belongs to `lone`."""
    probe, _, parameter = path.rpartition(".")
    return probe or lone, parameter


def wanted_samples(samples: int | None) -> None:
    """Refuse what cannot be a number of samples."""
    if samples is not None and samples < 0:
        raise UsageError(f"trace: samples={samples}; it is how many of the batch are recorded one by one")


def which_samples(samples: int | None, batch: int | None) -> tuple[int, ...] | None:
    """The samples that a manifest names."""
    return None if samples is None or batch is None else tuple(range(min(samples, batch)))


def scaled(factor: float | str | None, batch: int | None, *, handled: bool = False) -> dict[str, float]:
    """What the numbers of a phase are to be multiplied by, from what makes a gradient that of each sample's own loss.

    That is a number, or `mean` for the batch's size. What the optimizer gets is the gradient as the program has it, and `grad_raw` / batch
    in a trace; where it was `handled` in between, nothing is said of it.
    """
    if factor is None:
        return {}
    if isinstance(factor, str):
        if factor != "mean" or not batch:
            raise UsageError(f"trace: scale={factor!r}; say 'mean' for a mean over the batch, or a number")
        factor = float(batch)
    found = dict.fromkeys(("lossgrad", "agrad", "grad_raw"), float(factor))
    if batch and factor != batch and not handled:
        found["grad_scaled"] = factor / batch
    return found


def untold_losses(probes: Sequence[Probe]) -> tuple[Probe, ...]:
    """The probes without the mathematics of losses: a gradient whose scale is not known is not derived from them."""
    return tuple(
        Probe(p.name, p.parents, parameters=p.parameters) if p.name.partition("#")[0] == LOSS else p for p in probes
    )


def writer_for(out: str | os.PathLike[str], manifest: Manifest, step: int) -> TraceWriter:
    """A writer for this step of a folder; what earlier steps said is kept."""
    folder = Path(out)
    writer = TraceWriter(folder, manifest)
    before = read_manifest(folder) if step > 0 and folder.is_dir() else None
    if before is not None:
        earlier = {index: said for index, said in before.steps.items() if index < step}
        writer.manifest = replace(writer.manifest, steps=earlier)
    return writer


def tell(keeps: Sequence[Kept], probes: Sequence[Probe], sink: Sink) -> None:
    """All that was kept, as events, each with its place in the network's order."""
    index = {name: i for i, name in enumerate([INPUT, LABEL, *(probe.name for probe in probes)])}
    for found in keeps:
        for event in found.events(index.get(found.probe, 0)):
            sink(event)

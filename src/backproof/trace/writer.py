"""Writing a trace: whole steps only, and a manifest that is always true of what is there.

writer = TraceWriter("runs/mine", Manifest(framework="mine 1.0", batch=32, probes=(...)))
with writer.step(0) as sink:
    sink(Event("conv1", "fwd", tensor=y, sample=0))
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from backproof.errors import InputError, UsageError
from backproof.trace.event import Event
from backproof.trace.manifest import Manifest, Probe, Stored
from backproof.trace.phases import PHASES
from backproof.trace.sink import NpySink, SafetensorsSink


class StepSink:
    """The sink of one step: its store, and the order in which things came."""

    def __init__(self, store: NpySink | SafetensorsSink) -> None:
        self.store = store
        self.order: dict[str, None] = {}

    def __call__(self, event: Event) -> None:
        """Store one tensor."""
        self.store(event)
        self.order.setdefault(f"{event.probe}.{event.phase}")

    def holds(self, event: Event) -> bool:
        """Whether these very numbers, to the last bit, are what is stored of their place."""
        return self.store.holds(event)


class TraceWriter:
    """A folder that becomes a trace, step by step. What another run left in it of the same steps is replaced."""

    def __init__(self, folder: Path | str, manifest: Manifest) -> None:
        self.folder = Path(folder)
        self.manifest = replace(manifest, steps={})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be written: {error.strerror or error}") from None

    @contextmanager
    def step(self, index: int) -> Iterator[StepSink]:
        """A sink for the events of one step. On an error nothing of the step is kept."""
        if index < 0 or index in self.manifest.steps:
            raise UsageError(f"step {index}: steps are numbered from 0, and written once")
        final = self._place(index)
        partial = final.with_name(final.name + ".part")
        _remove(partial)
        npy = self.manifest.store == "npy"
        sink = StepSink(NpySink(partial, together=True) if npy else SafetensorsSink(partial))
        try:
            yield sink
            sink.store.close()
        except BaseException:
            _remove(partial)
            raise
        _remove(final)
        partial.replace(final)
        self._tell(index, sink.store.stored, list(sink.order))

    def describe(self, **changes: object) -> None:
        """Say more, or otherwise: `describe(probes=...)` once the network is known."""
        self.manifest = replace(self.manifest, **changes)  # type: ignore[arg-type] # replace refuses what is not a field
        self.manifest.write(self.folder)

    def _place(self, index: int) -> Path:
        ending = "" if self.manifest.store == "npy" else ".safetensors"
        return self.folder / f"step{index:03d}{ending}"

    def _tell(self, index: int, stored: dict[str, Stored], order: list[str]) -> None:
        known = self.manifest
        told = {probe.name for probe in known.probes}
        names = dict.fromkeys(name.rsplit(".", 1)[0] for name in order if name.endswith(".fwd"))
        found = known.probes or tuple(Probe(name) for name in names if name not in ("input", "label"))
        phases = {name.rsplit(".", 1)[1] for name in (*known.order, *order)}
        self.manifest = replace(
            known,
            probes=found if not told else known.probes,
            order=known.order or tuple(order),
            phases=tuple(phase for phase in PHASES if phase in phases),
            steps={**known.steps, index: stored},
        )
        self.manifest.write(self.folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

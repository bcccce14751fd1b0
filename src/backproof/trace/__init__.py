"""What was recorded: tensors on disk, and the steps that they belong to."""

from __future__ import annotations

from backproof.trace.event import Event, Place
from backproof.trace.manifest import Manifest, Probe
from backproof.trace.sink import MemorySink, NpySink, SafetensorsSink, Sink, StatisticsSink, Tee
from backproof.trace.store import Trace, open_trace
from backproof.trace.writer import TraceWriter

__all__ = [
    "Event",
    "Manifest",
    "MemorySink",
    "NpySink",
    "Place",
    "Probe",
    "SafetensorsSink",
    "Sink",
    "StatisticsSink",
    "Tee",
    "Trace",
    "TraceWriter",
    "open_trace",
]

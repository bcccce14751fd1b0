"""One side of a comparison: a step's tensors, in the convention that gradients are of each sample's own loss and grad_raw is their sum."""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import cached_property
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.numerics import FORMATS, Format
from backproof.trace.event import Place
from backproof.trace.manifest import Manifest, Probe
from backproof.trace.phases import PHASES
from backproof.trace.store import TraceStep

KEPT = 1 << 27  # bytes of tensors that are kept at hand


class Side:
    """A step as it was recorded, and what is told of it."""

    def __init__(self, name: str, step: TraceStep, told: Manifest, computing: str = "") -> None:
        """`computing` is the format that the user says it was computed in, whatever is told."""
        self.name, self.step, self.told, self._computing = name, step, told, computing
        self._hidden: set[Place] = set()
        self._kept: OrderedDict[Place, np.ndarray[Any, Any]] = OrderedDict()
        self._size = 0

    @cached_property
    def probes(self) -> dict[str, Probe]:
        """The probes whose mathematics this side tells."""
        return self.told.by_name

    @cached_property
    def places(self) -> frozenset[Place]:
        """What was recorded."""
        return frozenset(self.step.places) - self._hidden

    @cached_property
    def sampled(self) -> frozenset[str]:
        """The columns of what was recorded sample by sample."""
        return frozenset(place.column for place in self.places if place.sample is not None)

    def hide(self, place: Place) -> None:
        """Forget a tensor that cannot be read."""
        self._hidden.add(place)
        for name in ("places", "sampled"):
            self.__dict__.pop(name, None)

    def source(self, place: Place) -> Place | None:
        """Where a place's numbers are: its own file, or that of the whole batch, of which a sample is a part."""
        if place in self.places:
            return place
        whole = Place(place.probe, place.phase, place.parameter)
        if place.sample is None or whole not in self.places:
            return None
        shape = self.step.raw(whole).shape
        return whole if shape and shape[0] == self.told.batch and place.sample < shape[0] else None

    def has(self, place: Place) -> bool:
        """Whether its numbers are at hand."""
        return self.source(place) is not None

    def stored(self, place: Place) -> np.ndarray[Any, Any]:
        """The numbers as they are stored, by memory map."""
        source = self.source(place)
        assert source is not None  # the caller asked `has`
        found = self.step.tensor(source)
        if source != place and place.sample is not None:
            return found[place.sample : place.sample + 1]
        return found

    def factor(self, phase: str) -> float:
        """By what this side's numbers of a phase are to be multiplied."""
        return self.told.scale.get(phase, 1.0)

    def tensor(self, place: Place) -> np.ndarray[Any, Any]:
        """The numbers as float64 in the common convention; whole numbers and truth values as they are."""
        if place in self._kept:
            self._kept.move_to_end(place)
            return self._kept[place]
        found = np.asarray(self.stored(place))
        if found.dtype.kind == "f":
            found = found.astype(np.float64) * self.factor(place.phase)
        self._kept[place] = found
        self._size += found.nbytes
        while self._size > KEPT and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1].nbytes
        return found

    def rounding(self, place: Place) -> float:
        """What the common convention rounds off, relative to each number: nothing but of float64, by a factor that is no power of two."""
        exact = abs(math.frexp(self.factor(place.phase))[0]) == 0.5 or self.format(place) is not FORMATS["float64"]
        return 0.0 if exact else FORMATS["float64"].unit

    def bound(self, place: Place) -> Bound:
        """The numbers as what something is derived from."""
        value, rounding = self.tensor(place).astype(np.float64), self.rounding(place)
        error = rounding * np.abs(value) if rounding else None
        return Bound(value, error, error)

    def format(self, place: Place) -> Format | None:
        """The floating format of a tensor; None of whole numbers."""
        source = self.source(place)
        return FORMATS.get(self.step.dtype(source)) if source is not None else None

    def computing(self, place: Place) -> str:
        """The format that each operation's result was rounded to, on the way to a tensor: the one that it is stored in.

        What is told may narrow the band of a tensor (it was computed in a wider format), and not widen it.
        """
        if self._computing:
            return self._computing
        stored, told = self.format(place) or FORMATS["float32"], FORMATS.get(self.told.dtype)
        return told.name if told is not None and told.precision > stored.precision else stored.name

    @cached_property
    def samples(self) -> tuple[int | None, ...]:
        """The samples that were recorded one by one; (None,) where activations are of the whole batch."""
        found = {place.sample for place in self.places if not PHASES[place.phase].of_parameter}
        numbers = sorted(sample for sample in found if sample is not None)
        return tuple(numbers) if numbers else (None,)

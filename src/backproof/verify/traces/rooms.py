"""What rounding may make of the difference of two tensors, where neither is derived: from the formats, and from what they are made from."""

from __future__ import annotations

import numpy as np

from backproof.numerics import FORMATS, likely
from backproof.trace.event import Place
from backproof.verify.traces.gap import Gap
from backproof.verify.traces.network import Network, Origins
from backproof.verify.traces.side import Side

GAIN = 64.0
"""How many times larger a layer that is not derived may make the differences that it reads, before it is blamed for them."""
LINEAR_GAIN = 4.0
"""The same of scalings and updates, which do not amplify."""


class Rooms:
    """Of each pair of tensors: what it was made from, of what was compared, and the room that rounding has in it."""

    def __init__(self, network: Network, a: Side, b: Side, gaps: dict[Place, Gap]) -> None:
        self.a, self.b, self.gaps = a, b, gaps
        self.there_of: dict[str, list[Place]] = {}
        """probe → what was compared of it."""
        for place in gaps:
            self.there_of.setdefault(place.probe, []).append(place)
        self._origins = Origins(network, self.there_of)
        self._made: dict[Place, list[Place]] = {}

    def reads(self, place: Place) -> list[Place]:
        """What a tensor was made from, of what was compared."""
        if place not in self._made:
            made = (self.there(one) for one in self._origins.of(place))
            self._made[place] = [one for one in dict.fromkeys(made) if one in self.gaps]
        return self._made[place]

    def there(self, place: Place) -> Place:
        """A place, or that of the whole batch where it is a part of it."""
        whole = Place(place.probe, place.phase, place.parameter)
        return place if place in self.gaps or whole not in self.gaps else whole

    def gain(self, place: Place) -> float:
        """How many times larger than what it is made from a difference may be."""
        return LINEAR_GAIN if place.phase in ("grad_scaled", "opt_after", "w_after") else GAIN

    def _units(self, place: Place) -> tuple[float, float]:
        """The coarser of the formats that the sides store in, and add up in: of halves that is float32."""
        stored = [(side.format(place) or FORMATS["float64"]).unit for side in (self.a, self.b)]
        adding = [min(FORMATS[side.computing(place)].unit, FORMATS["float32"].unit) for side in (self.a, self.b)]
        return max(stored), max(adding)

    def stored(self, place: Place) -> float:
        """What is the same number in two formats differs by one rounding."""
        return 0.0 if self.a.format(place) is self.b.format(place) is None else 2 * self._units(place)[0]

    def of(self, place: Place) -> float:
        """What rounding may make of a tensor, relative to its scale: λ·√n·u of as many terms as its inputs have numbers."""
        stored, computing = self._units(place)
        if place.phase in ("grad_scaled", "opt_after"):
            return float(2 * (stored + likely(8, computing)))
        if place.phase == "w_after":
            return self._update_room(place, stored)
        sizes = [self.gaps[one].size for one in self.reads(place) if one.phase in ("fwd", "agrad")]
        n = max([*sizes, self.gaps[place].size])
        if place.phase == "grad_raw":
            n *= max(self.a.told.batch or 1, 1)
        return float(2 * (stored + likely(n, computing)))

    def _update_room(self, place: Place, stored: float) -> float:
        """An update is a difference of stored parameters, each rounded to its format."""
        before = Place(place.probe, "w_before", place.parameter)
        scale, moved = self.gaps[place].scale, self.gaps.get(before)
        return float(4 * stored + (4 * stored * moved.scale / scale if moved and scale else 0.0))

    def normalised(self, place: Place) -> bool:
        """Whether updates by a rule that is not told differ only where what they are made from does, each element for itself.

        Some rules divide a gradient by its own size: what is nothing but rounding then moves a parameter as far as anything else.
        """
        before = Place(place.probe, "w_before", place.parameter)
        if self.a.told.optimizer or self.b.told.optimizer or before not in self.gaps:
            return False
        x, y = (side.tensor(place) - side.tensor(before) for side in (self.a, self.b))
        part = np.zeros(x.shape)
        for one in self.reads(place):
            g, h = (side.tensor(one) for side in (self.a, self.b))
            if one.phase in ("grad_scaled", "opt_before") and g.shape == h.shape == x.shape:
                with np.errstate(all="ignore"):
                    part = np.fmax(part, np.nan_to_num(np.abs(g - h) / np.maximum(np.abs(g), np.abs(h))))
        allowed = self._update_room(place, self._units(place)[0]) * self.gaps[place].scale
        return bool(np.all(np.abs(x - y) <= allowed + GAIN * part * np.maximum(np.abs(x), np.abs(y))))

    def leans(self, place: Place) -> bool:
        """Whether updates differ in size by more than the roundings of their elements add up to."""
        found, before = self.gaps[place], self.gaps.get(Place(place.probe, "w_before", place.parameter))
        if before is None or not found.scale or abs(found.slope) < 1e-3 or found.size < 2:
            return False
        spread = (
            9.0 * self._units(place)[0] * 2 * before.scale / (found.scale * np.sqrt(found.size)) * np.sqrt(found.size)
        )
        read = self.gaps.get(Place(place.probe, "grad_scaled", place.parameter))
        return bool(abs(found.slope) > spread + LINEAR_GAIN * (abs(read.slope) + read.relative if read else 0.0))

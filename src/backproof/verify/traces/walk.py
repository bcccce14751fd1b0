"""The walk: layer by layer from the last to the first, each side derived by itself, and the other side's decisions replayed.

A replay asks what side a would have computed with the decisions of side b: at every layer the gradient that a's own numbers give,
but for what was decided otherwise. It is carried as a difference to what a recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.numerics import FORMATS, Format
from backproof.trace.event import Place
from backproof.trace.manifest import Probe
from backproof.trace.phases import INPUT, LOSS
from backproof.verify.equation import Total
from backproof.verify.kernels import HALVES
from backproof.verify.traces.decisions import Turn, routed, turns
from backproof.verify.traces.gap import Gap, gap
from backproof.verify.traces.layers import DECISIONS
from backproof.verify.traces.local import Layer, Locals, Loss, as_read, batch_loss, judge, layer_of, loss_of
from backproof.verify.traces.network import Network, called
from backproof.verify.traces.shares import Back, Kept, Part, share
from backproof.verify.traces.side import Side

Array = np.ndarray[Any, Any]
Unit = tuple[str, int | None]  # a probe and a sample
MOST_TURNS = 200  # of one layer and sample that are listed; all are counted


@dataclass(frozen=True, slots=True)
class Turned:
    """The decisions of one layer at one sample that the sides took otherwise."""

    probe: str
    sample: int | None
    count: int
    turns: tuple[Turn, ...]
    scale: float
    """The largest number that it decided by."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left of a difference between parameter gradients once recorded flips are replayed, and what rounding may leave."""

    left: Gap
    allowed: float


@dataclass
class Walked:
    """All that a walk found."""

    locals: tuple[Locals, ...]
    turned: list[Turned] = field(default_factory=list)
    apart: set[Place] = field(default_factory=set)
    """What follows from its own side's mathematics, and not from that which the other side tells of the layer."""
    replayed: dict[Place, Gap] = field(default_factory=dict)
    """Of what a flip reaches: how far b is from a with b's decisions."""
    remainders: dict[Place, Remainder] = field(default_factory=dict)


class Walk:
    """One walk over a network. A side may be alone."""

    def __init__(self, network: Network, sides: Sequence[Side]) -> None:
        self.network, self.sides = network, tuple(sides)
        self.walked = Walked(tuple(Locals(side) for side in sides))
        self.units = _units(sides)
        self._given: list[dict[Unit, dict[str, Part]]] = [{} for _ in sides]
        self._open: list[dict[Unit, str]] = [{} for _ in sides]
        self._change: dict[Unit, Array] = {}
        self._kept: dict[str, Kept] = {}

    def run(self) -> Walked:
        """From the last probe to the first."""
        for probe in reversed(self.network.probes):
            if probe.name == LOSS:
                self._loss(probe)
                self._batch_loss(probe)
            else:
                self._layer(probe)
        for sample in self.units:  # the network's input is no probe of it, and has a gradient all the same
            for i in range(len(self.sides)):
                self._gradient(i, (INPUT, sample))
        return self.walked

    # ── the loss ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _loss(self, probe: Probe) -> None:
        for i, side in enumerate(self.sides):
            told = side.probes.get(probe.name, probe)
            for sample in self.units:
                found = loss_of(side, told, sample) if told.parents else "what the loss reads is not told"
                self._one_loss(i, told, sample, found)

    def _one_loss(self, i: int, probe: Probe, sample: int | None, found: Loss | str) -> None:
        side, local = self.sides[i], self.walked.locals[i]
        value, gradient = Place(LOSS, "fwd", sample=sample), Place(LOSS, "lossgrad", sample=sample)
        unit = (probe.parents[0] if probe.parents else "", sample)
        if isinstance(found, Loss):
            local.rules[LOSS] = found.rule
        for place in (value, gradient):
            if side.has(place) and isinstance(found, str) and (place is gradient or sample is not None):
                local.unchecked[place] = found
        if sample is not None and side.has(value) and not isinstance(found, str):
            shape = side.tensor(value).shape
            if np.size(found.value.value) == np.prod(shape):
                local.judge(value, _reshaped(found.value, shape), LOSS, found.remark)
        if side.has(gradient):
            if not isinstance(found, str):
                local.judge(gradient, found.gradient, LOSS, found.remark)
            self._give(i, unit, LOSS, Part(side.bound(gradient), ()))
        elif isinstance(found, str):
            self._open[i][unit] = f"the loss: {found}"
        else:
            self._give(i, unit, LOSS, Part(found.gradient, ()))

    def _batch_loss(self, probe: Probe) -> None:
        """The loss of the batch, where all of it was recorded: a mean, or else a sum, whichever the program takes."""
        place = Place(LOSS, "fwd")
        for i, side in enumerate(self.sides):
            told, local = side.probes.get(probe.name, probe), self.walked.locals[i]
            if not side.has(place):
                continue
            if side.tensor(place).shape != ():
                local.unchecked[place] = "it is no single number: the losses of samples are taken together elsewhere"
                continue
            if self.units != (None,) and len(self.units) != side.told.batch:
                local.unchecked[place] = "it is of the whole batch, and not every sample was recorded"
                continue
            found = batch_loss(side, told, self.units) if told.parents else "what the loss reads is not told"
            if isinstance(found, str):
                local.unchecked[place] = found
                continue
            mean, total = found
            summed = judge(side, place, total, LOSS).verdict != "broken"
            local.judge(place, total if summed else mean, LOSS)

    def _give(self, i: int, unit: Unit, child: str, part: Part) -> None:
        self._given[i].setdefault(unit, {})[child] = part

    # ── a layer ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _layer(self, probe: Probe) -> None:
        owner = called(probe.name)
        kept = self._kept.setdefault(owner, Kept([{} for _ in self.sides], [None for _ in self.sides]))
        kept.calls += 1
        for sample in self.units:
            layers = [layer_of(side, side.probes.get(probe.name, probe), sample) for side in self.sides]
            for i, layer in enumerate(layers):
                if isinstance(layer, Layer):
                    self.walked.locals[i].rules[probe.name] = layer.rule
                self._forward(i, probe, sample, layer)
                self._gradient(i, (probe.name, sample))
            self._exchange(probe, sample, layers)
            backs = [self._back(i, probe, sample, layer) for i, layer in enumerate(layers)]
            for i, (back, total) in enumerate(zip(backs, kept.sums, strict=True)):
                share(back, total)
                kept.layers[i] = back.layer if back is not None else kept.layers[i]
            if len(self.sides) == 2 and backs[0] is not None and backs[1] is not None:
                changed = self._replay(probe, sample, (backs[0], backs[1]))
                for name, part in changed.items():
                    kept.change[name] = kept.change[name] + part if name in kept.change else part
                self._noise(backs[0], backs[1], changed, kept.noise)
        if probe.name == owner:  # the first call, and so the last in backward
            self._parameters(probe, self._kept.pop(owner))
        for sample in self.units:
            self._change.pop((probe.name, sample), None)
            for i in range(len(self.sides)):
                self._given[i].pop((probe.name, sample), None)
                self._open[i].pop((probe.name, sample), None)

    def _forward(self, i: int, probe: Probe, sample: int | None, layer: Layer | str) -> None:
        place = Place(probe.name, "fwd", sample=sample)
        if not self.sides[i].has(place):
            return
        if isinstance(layer, str):
            self.walked.locals[i].unchecked[place] = layer
        else:
            derived = layer.values[layer.region.out]
            self.walked.locals[i].judge(place, derived, probe.name, origins=layer.origins())

    def _exchange(self, probe: Probe, sample: int | None, layers: list[Layer | str]) -> None:
        """Where the sides tell otherwise what a layer does: whether its output tells which was done."""
        made = [layer for layer in layers if isinstance(layer, Layer)]
        if len(made) < 2 or made[0].region.graph == made[1].region.graph:
            return
        place = Place(probe.name, "fwd", sample=sample)
        for side, other in zip(self.sides, reversed(made), strict=True):
            layer = layer_of(side, other.probe, sample) if side.has(place) else ""
            if isinstance(layer, Layer):
                origins = layer.origins()
                if judge(side, place, layer.values[layer.region.out], "", origins=origins).verdict == "broken":
                    self.walked.apart.add(place)

    def _gradient(self, i: int, unit: Unit) -> None:
        """A probe's gradient is the sum over those that read it."""
        place, local = Place(unit[0], "agrad", sample=unit[1]), self.walked.locals[i]
        if not self.sides[i].has(place) or place in local.found:
            return
        children = self.network.children.get(unit[0], ())
        given = self._given[i].get(unit, {})
        missing = [child for child in children if child not in given]
        if not children:
            local.unchecked[place] = "nothing that reads it, and leads to the loss, is told"
        elif missing:
            local.unchecked[place] = self._open[i].get(unit, f"the gradient of {missing[0]} is not known")
        else:
            total = Total()
            for part in given.values():
                total.add(part.bound)
            origins = [origin for part in given.values() for origin in part.origins]
            storage = self.sides[i].format(place) or FORMATS["float64"]
            known = tuple(origins) if all(part.origins for part in given.values()) else ()
            local.judge(place, total.bound(storage), ", ".join(children), origins=known)

    def _back(self, i: int, probe: Probe, sample: int | None, layer: Layer | str) -> Back | None:
        """What the layer adds to the gradients of what it reads, and of its parameters."""
        side, place = self.sides[i], Place(probe.name, "agrad", sample=sample)
        leads = bool(self.network.children.get(probe.name)) or side.has(place)
        why = layer if isinstance(layer, str) else "" if side.has(place) else f"not recorded: {place}"
        if not leads:
            return None
        if why or isinstance(layer, str):
            for parent in probe.parents:
                self._open[i].setdefault((parent, sample), f"{probe.name}: {why}")
            return None
        seed = as_read(side.bound(place), side.format(place), layer.domain)
        unfit = "has not the shape of its output" if seed.shape != layer.values[layer.region.out].shape else ""
        if not np.isfinite(seed.value).all():
            unfit = "is not finite"
        if unfit:
            for parent in probe.parents:
                self._open[i].setdefault((parent, sample), f"{probe.name}: its gradient {unfit}")
            return None
        values = layer.values
        parts = layer.back(seed)
        values, parts = self._tied(i, layer, seed, values, parts)
        for k, parent in enumerate(probe.parents):
            part = parts[k]
            if part is not None:
                known = self._given[i].get((parent, sample), {}).get(probe.name, Part(None, ()))
                both = part if known.bound is None else layer.domain.add(known.bound, part)
                self._give(i, (parent, sample), probe.name, Part(both, (*known.origins, *layer.origins(k, seed))))
        return Back(layer, seed, values, parts)

    def _tied(
        self, i: int, layer: Layer, seed: Bound, values: list[Bound], parts: list[Bound | None]
    ) -> tuple[list[Bound], list[Bound | None]]:
        """Where equals were told apart in another way than by their order, which any implementation may: that way."""
        if layer.probe.kind not in DECISIONS or not layer.reads or parts[0] is None:
            return values, parts
        parent = layer.reads[0]
        place = Place(parent.probe, "agrad", sample=parent.sample)
        side = self.sides[i]
        if self.network.children.get(parent.probe, ()) != (layer.probe.name,) or not side.has(place):
            return values, parts
        claimed = side.tensor(place)
        if claimed.shape != parts[0].shape or judge(side, place, parts[0], layer.probe.name).verdict != "broken":
            return values, parts
        other = routed(layer.region.graph, [side.tensor(one) for one in layer.reads], claimed)
        if other is None:
            return values, parts
        again = layer.again({0: other})
        moved = layer.back(seed, again)
        if moved[0] is None or judge(side, place, moved[0], layer.probe.name).verdict == "broken":
            return values, parts
        return again, moved

    # ── both sides ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _replay(self, probe: Probe, sample: int | None, backs: tuple[Back, Back]) -> dict[str, Array]:
        """Carry on what the other side's decisions change; gives the change of each parameter's gradient."""
        a, b = backs
        values, turned = a.values, None
        if probe.kind in DECISIONS or a.layer.probe.kind in DECISIONS:
            turned = self._turns(probe, sample, a, b)
            if turned is not None:
                values = self._with_decisions(a, b)
        change = self._change.get((probe.name, sample))
        if change is None and turned is None:
            return {}
        seed = a.seed if change is None else Bound(a.seed.value + change)
        found = a.layer.back(seed, values)
        changes = [
            None if new is None or old is None else new.value - old.value
            for new, old in zip(found, a.parts, strict=True)
        ]
        count = a.layer.region.arguments
        for k, parent in enumerate(probe.parents):
            part, known = changes[k], self._change.get((parent, sample))
            if part is not None:
                self._change[parent, sample] = part if known is None else known + part
        for parent in dict.fromkeys(probe.parents):
            self._compare_replayed(parent, sample)
        names = a.layer.region.parameters
        return {name: part for name, part in zip(names, changes[count:], strict=True) if part is not None}

    def _with_decisions(self, a: Back, b: Back) -> list[Bound]:
        """Side a's numbers, but b's wherever the layer reads what it decides by: they are as near as the decision was."""
        return a.layer.again({k: b.values[k].value for k in range(a.layer.region.arguments)})

    def _turns(self, probe: Probe, sample: int | None, a: Back, b: Back) -> Turned | None:
        if a.layer.region.graph != b.layer.region.graph:
            return None
        count, found = turns(a.layer.region.graph, a.values, b.values, MOST_TURNS)
        if not count:
            return None
        scale = float(np.max(np.abs(a.values[0].value), initial=0.0))
        turned = Turned(probe.name, sample, count, tuple(found), scale)
        self.walked.turned.append(turned)
        return turned

    def _compare_replayed(self, parent: str, sample: int | None) -> None:
        place = Place(parent, "agrad", sample=sample)
        a, b = self.sides
        change = self._change.get((parent, sample))
        if change is not None and a.has(place) and b.has(place):
            x, y = a.tensor(place), b.tensor(place)
            if x.shape == y.shape == change.shape:
                self.walked.replayed[place] = gap(x + change, y)

    def _noise(self, a: Back, b: Back, change: dict[str, Array], noise: dict[str, float]) -> None:
        """By how much one sample's share of a parameter's gradient may differ for rounding: the most that any did."""
        count = a.layer.region.arguments
        for k, name in enumerate(a.layer.region.parameters, count):
            x, y = a.parts[k], b.parts[k]
            if x is None or y is None or x.shape != y.shape:
                continue
            off = np.abs(x.value + change.get(name, 0.0) - y.value)
            own = sum(0.0 if one.likely is None else one.likely for one in (x, y))
            noise[name] = max(noise.get(name, 0.0), float(np.max(off + own, initial=0.0)))

    def _parameters(self, probe: Probe, kept: Kept) -> None:
        for i, side in enumerate(self.sides):
            for place in sorted(one for one in side.places if one.probe == probe.name and one.phase == "grad_raw"):
                total = kept.sums[i].get(place.parameter)
                parts = (len(total.parts) if total else 0) / kept.calls
                if total is None:
                    self.walked.locals[i].unchecked[place] = "its layer is not derived"
                elif parts < len(self.units) or self.units not in ((None,), tuple(range(side.told.batch or 0))):
                    batch = side.told.batch or "unknown"
                    self.walked.locals[i].unchecked[place] = (
                        f"a sum over a batch of {batch}, of which {parts:g} were recorded"
                    )
                else:
                    derived = _summed(total, kept.layers[i], place.parameter, side.format(place) or FORMATS["float64"])
                    self.walked.locals[i].judge(place, derived, probe.name, origins=total.known)
        if len(self.sides) == 2:
            self._remain(probe, kept.noise, kept.change)

    def _remain(self, probe: Probe, noise: dict[str, float], change: dict[str, Array]) -> None:
        a, b = self.sides
        for name, most in noise.items():
            place = Place(probe.name, "grad_raw", name)
            if not (a.has(place) and b.has(place)):
                continue
            x, y = a.tensor(place), b.tensor(place)
            if x.shape == y.shape:
                left = gap(x + change.get(name, 0.0), y)
                self.walked.remainders[place] = Remainder(left, most * float(a.told.batch or len(self.units)))


def _summed(total: Total, layer: Layer | None, parameter: str, storage: Format) -> Bound:
    """A gradient summed over samples: in the format it is stored in, as where they come one by one; or in halves and stored wider."""
    if layer is None or layer.computing not in HALVES or storage.name in HALVES:
        return total.bound(storage)
    return layer.domain.cast(total.bound(FORMATS[layer.adds_for(parameter)]), to=layer.computing)


def _units(sides: Sequence[Side]) -> tuple[int | None, ...]:
    """The samples that every side has: those of whoever recorded the whole batch are parts of it."""
    single = [side.samples for side in sides if side.samples != (None,)]
    return tuple(s for s in single[0] if all(s in others for others in single)) if single else (None,)


def _reshaped(x: Bound, shape: tuple[int, ...]) -> Bound:
    certain, likely = (None if one is None else np.reshape(one, shape) for one in (x.certain, x.likely))
    return Bound(np.reshape(x.value, shape), certain, likely)

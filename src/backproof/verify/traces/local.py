"""One side by itself: each tensor derived from what the same side recorded at its inputs, and compared. Nobody upstream can be blamed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.errors import BackproofError
from backproof.ir.types import Type
from backproof.numerics import FORMATS, Format, gamma, likely
from backproof.session.tape import compile_tape, run_backward
from backproof.trace.event import Place
from backproof.trace.manifest import Probe
from backproof.trace.phases import LABEL, LOSS
from backproof.verify.closer import looked_closer
from backproof.verify.equation import Judgement, judged, unknown
from backproof.verify.kernels import HALVES, backward_in
from backproof.verify.origin import Origin
from backproof.verify.traces.hints import hints_of
from backproof.verify.traces.layers import ACROSS, BIASED, CONVOLUTIONS, LAST, LAYOUT, LOSSES, Region, region
from backproof.verify.traces.network import called
from backproof.verify.traces.side import Side

Array = np.ndarray[Any, Any]
ROOM, ROOM_TIMES = 1 << 24, 1 << 12
"""How many elements a value within a layer may have, and how many times as many as the layer reads."""
OF_ANOTHER_SHAPE = Judgement("broken", np.inf, np.inf, 0.0, 0.0, 0.0, 0.0, ())


@dataclass(frozen=True, slots=True)
class Local:
    """One tensor of one side, derived and judged."""

    place: Place
    side: str
    verdict: str
    """holds, noise or broken."""
    ratio: float
    likely: float
    slope: float
    claimed: float
    derived: float
    bound: float
    at: tuple[int, ...]
    by: str
    """The layers that made it."""
    remark: str = ""
    hints: tuple[str, ...] = ()
    free: float = 0.0
    """The part of its elements of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The mathematics that something was derived by, defaults and all."""

    mathematics: Any
    """What is equal where it is the same: a graph, or an optimizer's settings."""
    says: str


@dataclass(frozen=True)
class Layer:
    """A layer at the numbers that one side recorded: its graph, and every value of it."""

    probe: Probe
    region: Region
    values: list[Bound]
    reads: tuple[Place, ...]
    domain: Bounded

    @property
    def computing(self) -> str:
        """The format that it computes in."""
        return self.domain.computing.name

    @property
    def adds(self) -> str:
        """The format that its backward pass adds up in."""
        name = self.computing
        if name == "float16" and self.probe.kind in CONVOLUTIONS:
            return name  # on a CPU PyTorch's do
        return backward_in(self.probe.kind, name)[1] or name if name in HALVES else name

    @property
    def exact(self) -> bool:
        """Whether it reads what was recorded, and not that rounded to the format that it computes in."""
        return all(value.certain is None for value in self.values[: len(self.region.graph.leaves)])

    def back(self, seed: Bound, values: Sequence[Bound] | None = None) -> list[Bound | None]:
        """The gradient of each leaf, given that of the output."""
        ways = {self.adds, *map(self.adds_for, self.region.parameters)}
        found = {adds: self._back(seed, values, adds) for adds in ways}
        leaves = [self.adds] * self.region.arguments + [self.adds_for(name) for name in self.region.parameters]
        return [found[adds][leaf] for leaf, adds in enumerate(leaves)]

    def adds_for(self, parameter: str) -> str:
        """The same of a parameter's gradient: in halves all but a product's weight may be added up in the half itself."""
        product = parameter == "weight" and self.probe.kind in BIASED
        return self.adds if product or self.computing not in HALVES else self.computing

    def _back(self, seed: Bound, values: Sequence[Bound] | None, adds: str) -> list[Bound | None]:
        tape = compile_tape(self.region.graph, domain(self.computing, adds), values or self.values)
        gradients: list[Bound | None] = [None] * len(self.region.graph)
        gradients[self.region.out] = seed
        return run_backward(tape, gradients)[: len(self.region.graph.leaves)]

    def origins(self, leaf: int | None = None, seed: Bound | None = None) -> tuple[Origin, ...]:
        """Where the output comes from, or what the layer adds to a leaf's gradient; nothing where that was rounded unseen."""
        if not self.exact:
            return ()
        graph = self.region.graph
        leaves = [value.value for value in self.values[: len(graph.leaves)]]
        seeds = {} if seed is None else {self.region.out: lambda: seed.value}
        return (Origin(graph, lambda: leaves, self.region.out, leaf, seeds),)

    @property
    def rule(self) -> Rule:
        """The layer's mathematics."""
        told = ", ".join(f"{key} {value}" for key, value in self.probe.hyper.items())
        return Rule(self.region.graph, self.probe.kind + (f" ({told})" if told else ""))

    def again(self, reads: Mapping[int, Array]) -> list[Bound]:
        """Every value, with other numbers in some of the leaves."""
        given = [reads.get(i, self.values[i]) for i in range(len(self.region.graph.leaves))]
        return list(evaluate(self.region.graph, self.domain, given))


@dataclass
class Locals:
    """What was derived of one side, and what was not, with the reason."""

    side: Side
    rules: dict[str, Rule] = field(default_factory=dict)
    """What makes tensors, a layer or a parameter's update → the mathematics that this side tells of it."""
    found: dict[Place, Local] = field(default_factory=dict)
    unchecked: dict[Place, str] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)

    def judge(self, place: Place, derived: Bound, by: str, remark: str = "", origins: tuple[Origin, ...] = ()) -> Local:
        """Compare a recorded tensor with what was derived for it."""
        found = judge(self.side, place, derived, by, remark, origins)
        self.found[place] = found
        if found.free:
            self.unchecked[place] = unknown(found.free)
        return found


@cache
def domain(name: str, adds: str | None = None) -> Bounded:
    """Values with bounds for what computes in this format; the half ones add up in float32, unless another is named."""
    return Bounded(name, adds or ("float32" if FORMATS[name].precision < FORMATS["float32"].precision else None))


def as_read(x: Bound, stored: Format | None, D: Bounded) -> Bound:
    """Numbers as a layer reads them that computes in a narrower format than they are stored in: rounded to it first."""
    return x if stored is None or stored.precision <= D.computing.precision else D.cast(x, to=D.computing.name)


def judge(
    side: Side, place: Place, derived: Bound, by: str, remark: str = "", origins: tuple[Origin, ...] = ()
) -> Local:
    """A recorded tensor against what was derived for it."""
    claimed, storage = side.tensor(place), side.format(place)
    if claimed.shape != derived.shape:
        because = f"the layer gives the shape {list(derived.shape)}, and recorded is {list(claimed.shape)}"
        return local_of(side, place, OF_ANOTHER_SHAPE, by, because)
    if storage is not None and storage.precision < FORMATS["float32"].precision:
        derived = domain("float32").cast(derived, to=storage.name)
    least = 0.0 if storage is None else storage.underflow * abs(side.factor(place.phase))
    if side.rounding(place):
        least = least + side.rounding(place) * np.abs(claimed)
    if derived.certain is not None and np.any(least):
        derived = Bound(derived.value, derived.certain + least, derived.likely + least)
    numbers = judged(claimed.astype(np.float64), derived)
    if numbers.verdict != "broken" and storage is not None and origins:
        numbers, because = looked_closer(numbers, claimed, derived, origins, storage.name, side.computing(place))
        remark = because or remark
    broken = numbers.verdict == "broken"
    hints = tuple(hints_of(claimed, derived.value, side.told.batch)) if broken else ()
    return local_of(side, place, numbers, by, remark, hints)


def local_of(
    side: Side, place: Place, found: Judgement, by: str, remark: str = "", hints: tuple[str, ...] = ()
) -> Local:
    """What was judged, as one side's equation."""
    numbers = (found.ratio, found.likely, found.slope, found.claimed, found.derived, found.bound, found.at)
    return Local(place, side.name, found.verdict, *numbers, by, remark, hints, found.free)


def layer_of(side: Side, probe: Probe, sample: int | None) -> Layer | str:
    """A layer of one side at one sample (or the whole batch), or why it cannot be derived."""
    if not probe.kind:
        return "the layer's kind is not told"
    if probe.kind in ACROSS and sample is not None and probe.hyper.get("training") is not False:
        return "the samples of a batch look at each other here, and they were recorded one by one"
    reads = tuple(Place(parent, "fwd", sample=sample) for parent in probe.parents)
    for place in reads:
        if not side.has(place):
            return f"what it reads was not recorded: {place}"
    own = called(probe.name)
    names = tuple(probe.parameters) or tuple(
        place.parameter for place in side.places if place.probe == own and place.phase == "w_before"
    )
    held = {name: Place(own, "w_before", name) for name in names}
    for place in held.values():
        if not side.has(place):
            return f"its parameter was not recorded: {place}"
    types = tuple(_type(side.tensor(place)) for place in reads)
    made = region(probe.kind, probe.hyper, types, {name: _type(side.tensor(one)) for name, one in held.items()})
    if isinstance(made, str):
        return made
    out = Place(probe.name, "fwd", sample=sample)
    D = domain(side.computing(out if side.has(out) else reads[0]))
    given = [
        side.tensor(place) if side.format(place) is None else as_read(Bound(side.tensor(place)), side.format(place), D)
        for place in (*reads, *held.values())
    ]
    values = _evaluated(made, D, given)
    if isinstance(values, str):
        return f"{probe.kind} is not derived: {values}"
    if probe.kind in BIASED and "weight" in held and "bias" in held:
        values[made.out] = _bias_first(
            probe, values[made.out], side.tensor(held["weight"]), side.tensor(held["bias"]), D
        )
    return Layer(probe, made, values, reads, D)


def _evaluated(made: Region, D: Bounded, given: Sequence[Array | Bound]) -> list[Bound] | str:
    """Every value of a layer, or why there are none. What a trace tells of a layer must not fill the memory."""
    room = max(ROOM, ROOM_TIMES * sum(math.prod(array.shape) for array in given))
    largest = max(made.graph.types, key=lambda one: math.prod(one.shape))
    if math.prod(largest.shape) > room:
        return f"as it is told it takes a value of {largest}"
    try:
        return list(evaluate(made.graph, D, given))
    except BackproofError as error:
        return str(error)


def _bias_first(probe: Probe, y: Bound, weight: Array, bias: Array, D: Bounded) -> Bound:
    """The bound of Σ w·x + b where b may be a term of the sum like any other, and be rounded with each of them."""
    n = max(weight.size // max(bias.size, 1), 1) + 1
    unit = D.accumulation.unit * (1 + 2.0**-20)
    last = probe.kind == "linear" or probe.hyper.get(LAYOUT) == LAST
    behind = 0 if last else max(y.value.ndim - 2, 0)  # the axes behind the channels'
    size = np.abs(bias).reshape(-1, *(1,) * behind)
    certain, near = (
        (0.0 if error is None else error) * (1 + 2 / (n - 1)) + float(rule(n, unit)) * size
        for error, rule in ((y.certain, gamma), (y.likely, likely))
    )
    return Bound(y.value, np.broadcast_to(certain, y.shape), np.broadcast_to(near, y.shape))


def _type(x: Array) -> Type:
    kind = {"f": "real", "b": "bool"}.get(x.dtype.kind, "int")
    return Type(kind, tuple(int(n) for n in x.shape))  # type: ignore[arg-type] # a kind, by the table


@dataclass(frozen=True)
class Loss:
    """The loss of one side, derived: its value as the program states it, and the gradient of the sum of each sample's own loss."""

    value: Bound
    gradient: Bound
    remark: str
    """What was assumed for it."""
    rule: Rule


def loss_of(side: Side, probe: Probe, sample: int | None) -> Loss | str:
    """The loss, or why it cannot be derived."""
    made = loss_layer(side, probe, sample)
    if isinstance(made, str):
        return made
    layer, remark = made
    each = _count(layer) if probe.hyper.get("reduction", "mean") == "mean" else 1
    found = layer.back(Bound(np.full(layer.values[layer.region.out].shape, float(each))))[0]
    if found is None:
        return "the loss is a constant"
    return Loss(layer.values[layer.region.out], found, remark, layer.rule)


def _count(layer: Layer) -> int:
    """How many samples a mean is of: of classes, those that are not ignored."""
    logits, target = (value.value for value in layer.values[:2])
    if layer.probe.kind in ("cross_entropy", "nll_loss") and logits.ndim == 2 and target.ndim == 1:
        return int(np.sum(target != layer.probe.hyper.get("ignore_index", -100)))
    return int(logits.shape[0])


def batch_loss(side: Side, probe: Probe, samples: Sequence[int | None]) -> tuple[Bound, Bound] | str:
    """The mean of each sample's own loss, and the sum."""
    total: Bound | None = None
    for sample in samples:
        made = loss_layer(side, probe, sample)
        if isinstance(made, str):
            return made
        layer = made[0]
        value = layer.values[layer.region.out]
        if value.shape != ():
            return "the loss is not taken together by its kind"
        total = value if total is None else layer.domain.add(total, value)
    if total is None:
        return "no sample was recorded"
    count = len(samples) if samples != (None,) else layer.values[0].shape[0]
    size = Bound(np.asarray(float(count)))
    if samples == (None,) and probe.hyper.get("reduction", "mean") == "mean":
        return total, layer.domain.mul(total, size)
    return layer.domain.div(total, size), total


def loss_layer(side: Side, probe: Probe, sample: int | None) -> tuple[Layer, str] | str:
    """The loss at the numbers that one side recorded, and what was assumed for it."""
    remark = ""
    if probe.kind not in LOSSES:
        return "the loss is not told" if not probe.kind else f"{probe.kind!r} is not a kind of loss that is known here"
    x, label = (Place(probe.parents[0], "fwd", sample=sample), Place(LABEL, "fwd", sample=sample))
    if len(probe.parents) > 1:
        label = Place(probe.parents[1], "fwd", sample=sample)
    if not side.has(x):
        return f"what it reads was not recorded: {x}"
    logits = side.tensor(x)
    if side.has(label):
        target = side.tensor(label)
        target = (
            target.astype(np.int64)
            if probe.kind in ("cross_entropy", "nll_loss") and _classes(target, logits)
            else target
        )
    elif probe.kind in ("cross_entropy", "nll_loss") and side.has(Place(LOSS, "lossgrad", sample=sample)):
        target = side.tensor(Place(LOSS, "lossgrad", sample=sample)).argmin(axis=1)
        remark = "no label was recorded; it is taken to be the class whose gradient is least"
    else:
        return f"no label was recorded: {label}"
    made = region(probe.kind, probe.hyper, (_type(logits), _type(target)), {})
    if isinstance(made, str):
        return made
    D = domain(side.computing(x))
    values = _evaluated(made, D, [logits, target])
    if isinstance(values, str):
        return f"{probe.kind} is not derived: {values}"
    return Layer(probe, made, values, (x,), D), remark


def _classes(target: Array, logits: Array) -> bool:
    return target.shape != logits.shape and bool(np.all(target == np.floor(target)))

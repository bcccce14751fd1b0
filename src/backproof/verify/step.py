"""A recorded step, equation by equation: each derived in float64 from what was recorded at its inputs, and compared.

1 each call's outputs · 2 each value's gradient, the sum over the calls that read it · 3 the seed of each backward pass. What cannot
be lowered is listed, with its reason, and its neighbours are still checked. Nothing that is recorded widens a band.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.errors import BackproofError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph
from backproof.ir.types import Type
from backproof.lowering import LOWERINGS, canonical
from backproof.numerics import FORMATS
from backproof.session.tape import compile_tape, run_backward
from backproof.trace.step import Call, Recorded, Value

KINDS = {"bool": "bool", **dict.fromkeys(("int64", "int32", "int16", "int8", "uint8"), "int")}


@dataclass(frozen=True, slots=True)
class Result:
    """One equation, judged."""

    equation: str
    """forward, gradient or seed."""
    place: str
    probe: str
    verdict: str
    """holds, noise or broken."""
    ratio: float
    """The largest |claimed − derived| over the certain bound."""
    likely: float
    """The same over the likely bound."""
    slope: float
    """⟨claimed, derived⟩/⟨derived, derived⟩ − 1."""
    claimed: float
    derived: float
    bound: float
    at: tuple[int, ...] = ()
    because: str = ""


@dataclass(frozen=True, slots=True)
class NotChecked:
    """What no equation spoke of, and why."""

    place: str
    why: str


@dataclass
class StepVerdict:
    """What became of a step's equations."""

    step: int
    results: list[Result] = field(default_factory=list)
    not_checked: list[NotChecked] = field(default_factory=list)

    @property
    def broken(self) -> list[Result]:
        """The equations that do not hold, first cause first."""
        return [result for result in self.results if result.verdict == "broken"]

    @property
    def verdict(self) -> str:
        """holds, broken, or nothing checked."""
        return "broken" if self.broken else "holds" if self.results else "nothing checked"


@dataclass(frozen=True)
class Region:
    """A call as a graph: its leaves are the values it reads."""

    graph: Graph
    reads: tuple[int, ...]
    """Positions, among the values of a call, of the leaves."""


class Unlowered(Exception):  # noqa: N818 # not an error: something that is said in the verdict
    """A call that has no mathematics here; the message says why."""


def verify_step(recorded: Recorded) -> StepVerdict:
    """Derive every equation of a step and compare."""
    return _StepVerifier(recorded).run()


class _StepVerifier:
    def __init__(self, recorded: Recorded) -> None:
        self.step, self.tensors = recorded.step, recorded.tensors
        self.verdict = StepVerdict(self.step.index)
        self.contributions: dict[int, Bound | None] = {}
        self.open: dict[int, str] = {}
        """Values with a reader whose contribution is unknown, and which."""

    def run(self) -> StepVerdict:
        for call in self.step.calls:
            self._call(call)
        self._seeds()
        for value in self.step.values.values():
            self._gradient(value)
        order = {call.outputs: i for i, call in enumerate(self.step.calls)}
        del order
        self.verdict.results = list(_causal(self.verdict.results))
        return self.verdict

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, call: Call) -> None:
        reads = list(dict.fromkeys(_values_in((call.args, call.kwargs))))
        try:
            region = self._region(call, tuple(reads))
        except Unlowered as reason:
            self.verdict.not_checked.append(NotChecked(_label(call), str(reason)))
            for value in reads:
                self.open[value] = _label(call)
            return
        arithmetic = _format_of(self._value(call.outputs[0]).dtype)
        D = _domain(arithmetic)
        leaves = [self._array(f"v{value}") for value in reads]
        values = evaluate(region.graph, D, leaves)
        for output, found in zip(call.outputs, region.graph.outputs, strict=True):
            self._compare("forward", _label(call), output, f"v{output}", values[found])
        if call.grad:
            self._backward(call, region, D, values, reads)

    def _region(self, call: Call, reads: tuple[int, ...]) -> Region:
        types = tuple(_type(self._value(value)) for value in reads)
        said = json.dumps([call.op, _renumber(call.args, reads), _renumber(call.kwargs, reads)], sort_keys=True)
        found = _lowered(said, types)
        if isinstance(found, str):
            raise Unlowered(found)
        outputs = [_type(self._value(value)) for value in call.outputs]
        given = [found.graph.types[value] for value in found.graph.outputs]
        if given != outputs:
            raise Unlowered(
                f"its mathematics gives {', '.join(map(str, given))}, and it gave {', '.join(map(str, outputs))}"
            )
        return found

    def _backward(self, call: Call, region: Region, D: Bounded, values: list[Bound], reads: list[int]) -> None:
        seeds: list[Bound | None] = [None] * len(region.graph)
        for output, found in zip(call.outputs, region.graph.outputs, strict=True):
            if f"g{output}" in self.tensors:
                seed = D.value(self._array(f"g{output}"), region.graph.types[found])
                known = seeds[found]
                seeds[found] = seed if known is None else D.add(known, seed)
        if all(seed is None for seed in seeds):
            return
        frozen = {leaf for leaf, value in enumerate(reads) if f"g{value}" not in self.tensors}
        gradients = run_backward(compile_tape(region.graph, D, values, frozen), seeds)
        for leaf, value in enumerate(reads):
            part = gradients[leaf]
            if leaf in frozen or part is None:
                continue
            dtype = self._value(value).dtype
            if FORMATS[dtype].precision < D.storage.precision:
                part = D.cast(part, to=dtype)
            known = self.contributions.get(value)
            self.contributions[value] = part if known is None else _domain(dtype).add(known, part)

    # ── gradients ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _seeds(self) -> None:
        for backward in self.step.backwards:
            value = self._value(backward.value)
            seed = np.ones(value.shape) if backward.seed is None else self._array(f"v{backward.seed}")
            known = self.contributions.get(value.id)
            D = _domain(_format_of(value.dtype))
            given = D.value(seed, _type(value))
            self.contributions[value.id] = given if known is None else D.add(known, given)

    def _gradient(self, value: Value) -> None:
        key = f"g{value.id}"
        if key not in self.tensors:
            return
        place = value.name or f"value {value.id}"
        if value.id in self.open:
            self.verdict.not_checked.append(
                NotChecked(f"gradient of {place}", f"{self.open[value.id]} reads it, and is not lowered")
            )
            return
        total = self.contributions.get(value.id)
        if total is None:
            total = Bound(np.zeros(value.shape))
        self._compare("gradient", place, value.id, key, total)

    # ── comparison ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _compare(self, equation: str, place: str, value: int, key: str, derived: Bound) -> None:
        dtype = self._value(value).dtype
        claimed = self._array(key)
        if dtype in FORMATS:
            if FORMATS[dtype].precision < _domain(_format_of(dtype)).storage.precision:
                derived = _domain("float32").cast(derived, to=dtype)
            result = _judged(claimed.astype(np.float64), derived)
        else:
            wrong = np.asarray(claimed != derived.value)
            result = (
                "broken" if wrong.any() else "holds",
                float("inf") if wrong.any() else 0.0,
                0.0,
                0.0,
                _first(wrong),
            )
            at = result[4]
            numbers = (float(claimed[at]), float(derived.value[at]), 0.0) if claimed.size else (0.0, 0.0, 0.0)
            self.verdict.results.append(Result(equation, place, f"{value}", *result[:4], *numbers, at))
            return
        self.verdict.results.append(Result(equation, place, f"{value}", *result))

    def _array(self, key: str) -> np.ndarray[Any, Any]:
        return self.tensors[key]

    def _value(self, number: int) -> Value:
        return self.step.values[number]


def _judged(claimed: Any, derived: Bound) -> tuple[Any, ...]:
    """(verdict, ratio to the certain bound, to the likely one, slope, claimed, derived and bound at the worst place, the place)."""
    y = derived.value
    certain = np.zeros(y.shape) if derived.certain is None else derived.certain
    near = np.zeros(y.shape) if derived.likely is None else derived.likely
    with np.errstate(all="ignore"):
        gap = np.where((claimed == y) | (np.isnan(claimed) & np.isnan(y)), 0.0, np.abs(claimed - y))
        gap = np.where(np.isnan(gap), np.inf, gap)
        ratio = np.where(gap == 0, 0.0, gap / certain)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        likely = float(np.max(np.where(gap == 0, 0.0, gap / near), initial=0.0))
        norm = float(np.sum(y * y))
        slope = float(np.sum(claimed * y)) / norm - 1 if norm > 0 and np.isfinite(norm) else 0.0
    worst = float(np.max(ratio, initial=0.0))
    at = np.unravel_index(int(np.argmax(ratio)), ratio.shape) if ratio.size else ()
    place = tuple(int(i) for i in at)
    numbers = (float(claimed[place]), float(y[place]), float(certain[place])) if y.size else (0.0, 0.0, 0.0)
    verdict = "broken" if worst > 1 else "noise" if likely > 1 else "holds"
    return verdict, worst, likely, slope, *numbers, place


def _first(wrong: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else (0,) * wrong.ndim


def _causal(results: list[Result]) -> Iterator[Result]:
    """Forward equations in order of execution, then gradients from the last value to the first."""
    yield from (result for result in results if result.equation == "forward")
    yield from reversed([result for result in results if result.equation != "forward"])


# ── lowering ────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _domain(name: str) -> Bounded:
    return Bounded(name)


def _format_of(dtype: str) -> str:
    """The format that a kernel computes in: half formats are computed in float32 and rounded once."""
    return "float64" if dtype == "float64" else "float32"


def _type(value: Value) -> Type:
    return Type(KINDS.get(value.dtype, "real"), tuple(value.shape))  # type: ignore[arg-type] # a kind, by the table


def _label(call: Call) -> str:
    return f"{call.place}: {call.op}" if call.place else call.op


def _values_in(item: Any) -> Iterator[int]:
    if isinstance(item, dict):
        if set(item) == {"value"}:
            yield int(item["value"])
        else:
            for inner in item.values():
                yield from _values_in(inner)
    elif isinstance(item, (list, tuple)):
        for inner in item:
            yield from _values_in(inner)


def _renumber(item: Any, reads: tuple[int, ...]) -> Any:
    """Values by their place among what the call reads, so that equal calls of other values are one region."""
    if isinstance(item, dict):
        if set(item) == {"value"}:
            return {"value": reads.index(item["value"])}
        return {key: _renumber(inner, reads) for key, inner in item.items()}
    return [_renumber(inner, reads) for inner in item] if isinstance(item, (list, tuple)) else item


@cache
def _lowered(said: str, types: tuple[Type, ...]) -> Region | str:
    """The region of a call, or why there is none."""
    op, args, kwargs = json.loads(said)
    name = canonical(op).removesuffix("_") if not op.endswith("__") else canonical(op)
    if name not in LOWERINGS:
        return f"there is no lowering for {op}"
    b = Builder()
    leaves = [b.leaf(kind) for kind in types]
    try:
        given = [_decode(item, leaves) for item in args]
        found = LOWERINGS[name].function(*given, **{key: _decode(item, leaves) for key, item in kwargs.items()})
        outputs = list(found) if isinstance(found, (list, tuple)) else [found]
        return Region(b.graph(*outputs), tuple(range(len(types))))
    except (BackproofError, TypeError, ValueError, KeyError, AttributeError, NotImplementedError) as error:
        return f"{op} is not lowered in this form: {error or 'it is random'}"


def _decode(item: Any, leaves: list[Ref]) -> Any:
    if isinstance(item, list):
        return [_decode(inner, leaves) for inner in item]
    if not isinstance(item, dict):
        return item
    match item:
        case {"value": place}:
            return leaves[place]
        case {"tuple": inner}:
            return tuple(_decode(part, leaves) for part in inner)
        case {"slice": [begin, end, step]}:
            return slice(begin, end, step)
        case {"ellipsis": _}:
            return Ellipsis
        case {"float": text}:
            return float(text)
    raise ValueError(f"an argument that is not data: {item}")

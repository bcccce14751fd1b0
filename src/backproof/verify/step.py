"""A recorded step, equation by equation: each derived in float64 from what was recorded at its inputs, and compared.

1 each call's outputs · 2 the seed of each backward pass · 3 each value's gradient, the sum over the calls that read it · 4 each
parameter's update and state. What cannot be lowered is listed, with its reason, and its neighbours are still checked. Nothing that is
recorded widens a band.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.evaluate import evaluate
from backproof.numerics import FORMATS
from backproof.session.tape import compile_tape, run_backward
from backproof.trace.step import Call, Recorded, Value
from backproof.verify.equation import NotChecked, Result, Total, first, judged
from backproof.verify.region import Region, Unlowered, label, region_of, values_in
from backproof.verify.update import update_results


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


def verify_step(recorded: Recorded) -> StepVerdict:
    """Derive every equation of a step and compare."""
    return _StepVerifier(recorded).run()


class _StepVerifier:
    def __init__(self, recorded: Recorded) -> None:
        self.step, self.tensors = recorded.step, recorded.tensors
        self.verdict = StepVerdict(self.step.index)
        self.totals: dict[int, Total] = {}
        self.open: dict[int, str] = {}
        """Values with a reader whose contribution is unknown, and which."""

    def run(self) -> StepVerdict:
        for stranger in self.step.unseen:
            self._unseen(stranger)
        for call in self.step.calls:
            self._call(call)
        self._seeds()
        for value in self.step.values.values():
            self._gradient(value)
        self.verdict.results = list(_causal(self.verdict.results))
        for found in update_results(self.step, self.tensors):
            (self.verdict.results if isinstance(found, Result) else self.verdict.not_checked).append(found)  # type: ignore[arg-type]
        return self.verdict

    def _unseen(self, stranger: dict[str, Any]) -> None:
        place = f"value {stranger['value']}, made by {stranger['by']}"
        self.verdict.not_checked.append(NotChecked(place, "no recorded call made it"))
        for value in stranger["reads"]:
            self.open[value] = str(stranger["by"])

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, call: Call) -> None:
        reads = list(dict.fromkeys(values_in((call.args, call.kwargs))))
        try:
            region = region_of(call, tuple(reads), self._value)
        except Unlowered as reason:
            self.verdict.not_checked.append(NotChecked(label(call), str(reason)))
            for value in reads:
                self.open[value] = label(call)
            return
        arithmetic = _format_of(self._value(call.outputs[0]).dtype)
        D = _domain(arithmetic)
        leaves = [self._array(f"v{value}") for value in reads]
        values = evaluate(region.graph, D, leaves)
        for output, found in zip(call.outputs, region.graph.outputs, strict=True):
            self._compare("forward", label(call), output, f"v{output}", values[found])
        if call.grad:
            self._backward(call, region, D, values, reads)

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
            self.totals.setdefault(value, Total()).add(part)

    # ── gradients ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _seeds(self) -> None:
        for backward in self.step.backwards:
            value = self._value(backward.value)
            seed = np.ones(value.shape) if backward.seed is None else self._array(f"v{backward.seed}")
            self.totals.setdefault(value.id, Total()).add(Bound(seed.astype(np.float64)))

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
        total = self.totals.pop(value.id, None)
        derived = Bound(np.zeros(value.shape)) if total is None else total.bound(_domain(value.dtype).storage)
        self._compare("gradient", place, value.id, key, derived)

    # ── comparison ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _compare(self, equation: str, place: str, value: int, key: str, derived: Bound) -> None:
        dtype = self._value(value).dtype
        claimed = self._array(key)
        if dtype in FORMATS:
            if FORMATS[dtype].precision < _domain(_format_of(dtype)).storage.precision:
                derived = _domain("float32").cast(derived, to=dtype)
            result = judged(claimed.astype(np.float64), derived)
        else:
            # Whole numbers are derived with reals, which hold them up to 2⁵³.
            wrong = np.asarray((claimed != derived.value) & (np.abs(claimed.astype(np.float64)) < 2.0**53))
            result = (
                "broken" if wrong.any() else "holds",
                float("inf") if wrong.any() else 0.0,
                0.0,
                0.0,
                first(wrong),
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


def _causal(results: list[Result]) -> Iterator[Result]:
    """Forward equations in order of execution, then gradients from the last value to the first."""
    yield from (result for result in results if result.equation == "forward")
    yield from reversed([result for result in results if result.equation != "forward"])


@cache
def _domain(name: str) -> Bounded:
    return Bounded(name)


def _format_of(dtype: str) -> str:
    """The format that a kernel computes in: half formats are computed in float32 and rounded once."""
    return "float64" if dtype == "float64" else "float32"

"""The `rough` domain: float32 numbers, and one bound for all of a value's: how far an honest execution in float32 is likely from them.

It knows what a loss does to logits, and no more: differences, largest, log Σ exp, and moves. Where many numbers end in few, as there, it is
some ten times as fast as bounds for each, and hardly wider: what each of n numbers may be off by is what their log Σ exp may be off by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from backproof.engine.arrays import NumPyKernels
from backproof.engine.bounded import Bound
from backproof.engine.domain import Domain
from backproof.engine.evaluate import evaluate
from backproof.engine.slabs import Slabs
from backproof.engine.threads import threads
from backproof.errors import DomainError
from backproof.ir.primitive import Primitive
from backproof.ir.primitives.elementwise import EXP_ULPS, LOG_ULPS
from backproof.ir.rounding import Moves
from backproof.ir.types import Type
from backproof.numerics import FORMATS, likely

_KERNELS, _FLOAT32 = NumPyKernels("float32"), FORMATS["float32"]
_UNIT = _FLOAT32.unit
HEAVY = 1 << 20
"""Numbers; a value of fewer is as well derived with a bound for each."""
SLAB = 1 << 18
"""Numbers that are made at a time: a few arrays of so many stay near the processor."""
SECOND = 1 + 2.0**-10
"""Room for errors of errors."""


@dataclass(frozen=True, slots=True)
class Near:
    """Numbers, how far an honest execution is likely from any of them, and a size that none of them exceeds."""

    value: Any
    off: float = 0.0
    top: float = 0.0


@final
class Rough(Domain):
    """float32 arrays with a bound for each array."""

    name = "rough"

    def value(self, given: Any, kind: Type) -> Near:
        if isinstance(given, Near):
            return given
        found = np.asarray(given)
        if found.shape != kind.shape or (found.dtype.kind == "f" and found.dtype != np.float32):
            raise DomainError(f"expected {kind} in float32, got {found.dtype}{list(found.shape)}")
        return Near(found, 0.0, _largest(found) if found.dtype.kind == "f" else 0.0)

    def array(self, value: Near) -> Any:
        return value.value

    def apply(self, primitive: Primitive, *x: Near, **params: Any) -> Near:
        values = tuple(given.value for given in x)
        if primitive.name == "logsumexp":
            return _logsumexp(x[0], **params)
        if isinstance(primitive.rounding, Moves) or primitive.name in ("max", "neg"):
            most = (max(getattr(given, name) for given in x) for name in ("off", "top"))
            return Near(primitive.forward(_KERNELS, *values, **params), *most)
        if primitive.name not in ("add", "sub"):
            raise DomainError(f"{primitive.name} is not known roughly")
        off, top = sum(given.off for given in x), sum(given.top for given in x) * SECOND
        both = 2 * _UNIT * (top + off) + 2 * _FLOAT32.underflow  # here, and in the execution
        return Near(primitive.forward(_KERNELS, *values), (off + both) * SECOND, top)


def _largest(x: Any) -> float:
    most = max(abs(float(np.max(x, initial=0.0))), abs(float(np.min(x, initial=0.0))))
    if not math.isfinite(most):
        raise DomainError("an infinity has no rough bound")
    return most


def _logsumexp(x: Near, axes: tuple[int, ...]) -> Near:
    """max + ln Σ exp(x − max). Shifts s are rounded, which moves the sum by Σ p·s·u of itself for its parts p; and Σ p·s ≤ ln n."""
    top = np.max(x.value, axis=axes, keepdims=True)
    total = np.sum(np.exp(x.value - top), axis=axes, dtype=np.float64)
    y = top.reshape(total.shape) + np.log(total)
    n = math.prod(x.value.shape[axis] for axis in axes)
    shifts = _UNIT * math.log(n) + EXP_ULPS * _UNIT  # here, and in the execution, which adds up in float32 besides
    relative = (2 * shifts + float(likely(n, _UNIT)) + 2 * n * _FLOAT32.underflow) * SECOND
    logarithm = relative + LOG_ULPS * _UNIT * (math.log(n) + relative)
    largest = _largest(y)
    off = (x.off + logarithm + 3 * _UNIT * (largest + x.off)) * SECOND
    return Near(y.astype(np.float32), off, largest * SECOND)


def rough(slabs: Slabs, value: int) -> Bound:
    """A value of an evaluation, a large slab at a time; DomainError where it is not known like that."""
    plan = slabs.survey.best(value)
    if plan is None:
        raise DomainError("it cannot be cut")
    near = Slabs(slabs.survey, Rough(), slabs.leaves, alone=False)
    step = max(1, SLAB * plan.width // max(slabs.survey.heaviest[value], 1))
    places = [(begin, min(begin + step, plan.width)) for begin in range(0, plan.width, step)]
    near.prepare(plan, {end - begin for begin, end in places})
    pool = threads("slab")

    def work(place: tuple[int, int]) -> Near:
        graph = near.survey.slab(plan, place[1] - place[0]).graph
        return evaluate(graph, near.D, near.sources(plan, *place))[graph.outputs[0]]

    parts = list((map if pool is None else pool.map)(work, places))
    found = np.concatenate([part.value for part in parts], axis=plan.axis, dtype=np.float64)
    off = np.full(found.shape, max(part.off for part in parts))
    return Bound(found, off, off)


def heavy(slabs: Slabs, output: int) -> list[int]:
    """The few numbers that an output is made of, each of them made of many."""
    graph, heaviest, found, todo, seen = slabs.graph, slabs.survey.heaviest, [], [output], set()
    while todo:
        value = todo.pop()
        node = graph.node(value)
        if node is None or value in seen or heaviest[value] <= HEAVY:
            continue
        seen.add(value)
        if any(graph.types[argument].size > HEAVY for argument in node.arguments):
            found.append(value)
        else:
            todo.extend(node.arguments)
    return found if graph.types[output].size <= HEAVY else []

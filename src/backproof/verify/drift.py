"""Drift: the whole step derived in float64 from its leaves alone, beside what the residuals of single equations explain.

It is reported and never tested: over many layers no bound on it is both sound and small. To first order a loss is off by no more than
Σ |∂L/∂out|·|out − derived from its recorded inputs|; a record whose drift is far beyond that, or whose residuals all lean one way, was
made to look right equation by equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.engine.domain import float64
from backproof.engine.evaluate import evaluate
from backproof.session.tape import compile_tape, run_backward
from backproof.trace.step import Call, gradient_key
from backproof.verify.calls import reads_of
from backproof.verify.region import Unlowered, label, region_of
from backproof.verify.subject import Subject

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Drift:
    """How far a recorded step is from the same step in float64."""

    loss: float
    """The largest |recorded − derived| of what the backward pass began at."""
    explained: float
    """What the residuals of all forward equations make of it, to first order."""
    gradients: float
    """The largest ‖recorded − derived‖/‖derived‖ of a parameter's gradient."""
    worst: str
    """Of which parameter."""


def drift_of(subject: Subject) -> Drift | str:
    """The drift of a step, or why it cannot be derived."""
    step = subject.step
    if step.passes > 1 or any(region.why or region.kind == "function" for region in step.regions):
        return "drift is derived for steps of one backward pass, without regions that have a backward of their own"
    try:
        values = _forward(subject)
        found = _backward(subject, values)
    except (Unlowered, KeyError) as reason:
        return f"drift is not derived: {reason}"
    roots = [backward.value for backward in step.backwards]
    loss = max((float(np.max(np.abs(values[v] - subject.array(f"v{v}")), initial=0.0)) for v in roots), default=0.0)
    gradients = {
        value.name: _apart(subject.array(gradient_key(number)), found[number])
        for number, value in step.values.items()
        if value.name and number in found and gradient_key(number) in subject.tensors
    }
    worst = max(gradients, key=lambda name: gradients[name], default="")
    return Drift(loss, _explained(subject), gradients.get(worst, 0.0), worst)


def _apart(claimed: Any, derived: Any) -> float:
    size = float(np.linalg.norm(derived))
    return float(np.linalg.norm(np.asarray(claimed, dtype=np.float64) - derived)) / size if size else 0.0


def _derived(subject: Subject, call: Call, values: dict[int, Numbers]) -> tuple[Any, list[Any], tuple[int, ...]]:
    """A call's graph, every value of it, from values that were derived already, and which of those are its leaves."""
    reads = reads_of(call)
    region = region_of(call, reads, subject.value)
    reads = region.leaves_of(reads)
    leaves = [values[v] if v in values else subject.array(f"v{v}") for v in reads]
    return region.graph, evaluate(region.graph, float64(), leaves), reads


def _forward(subject: Subject) -> dict[int, Numbers]:
    values: dict[int, Numbers] = {}
    for call in subject.step.calls:
        try:
            graph, found, _ = _derived(subject, call, values)
        except Unlowered as reason:
            raise Unlowered(f"{label(call)}: {reason}") from None
        for output, at in zip(call.outputs, graph.outputs, strict=True):
            values[output] = found[at]
    return values


def _backward(subject: Subject, values: dict[int, Numbers]) -> dict[int, Numbers]:
    gradients: dict[int, Numbers] = {}
    for backward in subject.step.backwards:
        shape = subject.value(backward.value).shape
        seed = np.ones(shape) if backward.seed is None else subject.array(f"v{backward.seed}").astype(np.float64)
        _add(gradients, subject.bearer(backward.value), seed)
    for call in reversed(subject.step.calls):
        bearers = [subject.bearer(output) for output in call.outputs]
        if not call.grad or not any(bearer in gradients for bearer in bearers):
            continue
        graph, found, reads = _derived(subject, call, values)
        seeds: list[Any] = [None] * len(graph)
        for bearer, at in zip(bearers, graph.outputs, strict=True):
            if bearer in gradients:
                seeds[at] = gradients[bearer]
        frozen = {i for i, value in enumerate(reads) if not subject.wants(value, 0)}
        parts = run_backward(compile_tape(graph, float64(), found, frozen), seeds)
        for i, value in enumerate(reads):
            part = parts[i]
            if i not in frozen and part is not None:
                _add(gradients, subject.bearer(value), part)
    return gradients


def _add(gradients: dict[int, Numbers], value: int, part: Any) -> None:
    gradients[value] = gradients[value] + part if value in gradients else part


def _explained(subject: Subject) -> float:
    """Σ |∂L/∂out|·|residual| over every recorded value that a call made."""
    total = 0.0
    for call in subject.step.calls:
        keys = [(output, gradient_key(subject.bearer(output))) for output in call.outputs]
        if not any(key in subject.tensors for _, key in keys):
            continue
        graph, found, _ = _derived(subject, call, {})
        for (output, key), at in zip(keys, graph.outputs, strict=True):
            if key in subject.tensors and subject.stored(output):
                total += float(np.sum(np.abs(subject.array(key)) * np.abs(subject.array(f"v{output}") - found[at])))
    return total

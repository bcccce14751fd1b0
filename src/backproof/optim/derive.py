"""A step derived from what was recorded: the update and the new state in float64, with how far an honest execution may be off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.engine.bounded import Bound
from backproof.engine.domain import Domain, bounded, float64
from backproof.engine.evaluate import evaluate
from backproof.errors import InputError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph
from backproof.ir.types import Shape, real
from backproof.numerics import FORMATS
from backproof.optim.record import Numbers, Optimizer
from backproof.optim.scalar import stored

Array = NDArray[Any]
# Of elementwise rules this many elements at a time: what a step needs beside its results stays small, and near the processor.
BLOCK = 1 << 16
UPDATE = "update"


@dataclass(frozen=True)
class Formats:
    """What a step was computed in, its sums accumulated in, and its parameter stored in."""

    computing: str = "float32"
    accumulation: str | None = None
    parameter: str | None = None
    """Where the parameter is stored in a narrower format than the step is computed in."""


@dataclass(frozen=True)
class Derived:
    """One tensor, derived: claimed − value is no more than `certain`, and hardly ever more than `likely`."""

    value: Array
    certain: Array
    likely: Array


@dataclass(frozen=True)
class StepGraph:
    """The graph of one step: leaves g, p and the state, then the outputs by name."""

    graph: Graph
    inputs: tuple[str, ...]
    outputs: dict[str, int]
    after: int
    """The new parameter, whose bound is the update's."""


def step_graph(
    optimizer: Optimizer, shape: Shape, held: Mapping[str, Shape], hyper: Numbers, t: int, parameter: str | None = None
) -> StepGraph:
    """The formula of a step, as a graph over a parameter of this shape and the state that is held."""
    builder = Builder()
    leaves: dict[str, Ref] = {name: builder.leaf(real(*shape), name) for name in ("gradient", "parameter")}
    state = {name: builder.leaf(real(*size), name) for name, size in held.items()}
    step = optimizer.step(leaves["gradient"], leaves["parameter"], state, hyper, t)
    after = stored(step.parameter, parameter)
    outputs = {UPDATE: step.update, **step.state}
    graph = builder.graph(*outputs.values(), after)
    return StepGraph(graph, (*leaves, *state), {name: ref.id for name, ref in outputs.items()}, after.id)


def derive(
    optimizer: Optimizer,
    gradient: Array,
    parameter: Array,
    state: Mapping[str, Array],
    hyper: Numbers,
    t: int,
    formats: Formats | None = None,
) -> dict[str, Derived]:
    """The update (under "update") and the new state, with bounds for these formats."""
    formats = formats or Formats()
    settings = checked(optimizer, gradient, parameter, state, hyper, t)
    D = bounded(formats.computing, formats.accumulation)
    parts: dict[str, list[Derived]] = {}
    for block in blocks(optimizer, gradient, parameter, state):
        held = {name: block[name].shape for name in state}
        made = step_graph(optimizer, block["parameter"].shape, held, settings, t, formats.parameter)
        values = evaluate(made.graph, D, [block[name] for name in made.inputs])
        for name, at in made.outputs.items():
            error = values[made.after if name == UPDATE else at]
            parts.setdefault(name, []).append(_derived(values[at], error))
    shapes = {field.name: field.shape(parameter.shape) for field in optimizer.fields}
    return {name: _joined(found, shapes.get(name, parameter.shape)) for name, found in parts.items()}


def value_of_step(
    optimizer: Optimizer,
    gradient: Array,
    parameter: Array,
    state: Mapping[str, Array],
    hyper: Numbers,
    t: int,
    D: Domain | None = None,
) -> dict[str, Array]:
    """The update and the new state in a domain of arrays, float64 unless another is given."""
    settings = checked(optimizer, gradient, parameter, state, hyper, t)
    domain = float64() if D is None else D
    made = step_graph(optimizer, parameter.shape, {name: np.shape(held) for name, held in state.items()}, settings, t)
    values = evaluate(made.graph, domain, [gradient, parameter, *state.values()])
    return {name: domain.array(values[at]) for name, at in made.outputs.items()}


def checked(
    optimizer: Optimizer, gradient: Array, parameter: Array, state: Mapping[str, Array], hyper: Numbers, t: int
) -> dict[str, Any]:
    """The settings, once shapes, state and step count are what this optimizer keeps."""
    settings, shape = optimizer.settings(hyper), tuple(parameter.shape)
    if t < 1:
        raise InputError(f"{optimizer.name}: the step count is {t}; the first step is step 1")
    if tuple(gradient.shape) != shape:
        raise InputError(f"{optimizer.name}: the gradient has shape {list(gradient.shape)}, the parameter {list(shape)}")
    if optimizer.rank not in (None, len(shape)):
        raise InputError(f"{optimizer.name} takes parameters of rank {optimizer.rank}, not {list(shape)}")
    fields = {field.name: field for field in optimizer.state_fields(settings, shape)}
    unknown = [name for name in state if name not in fields]
    missing = [name for name, field in fields.items() if name not in state and field.start is not None]
    if unknown or missing:
        raise InputError(
            f"{optimizer.name}: with these settings it keeps {', '.join(fields) or 'no state'}"
            + (f"; unknown: {', '.join(unknown)}" if unknown else "")
            + (f"; missing: {', '.join(missing)}" if missing else "")
        )
    for name, held in state.items():
        if np.shape(held) != fields[name].shape(shape):
            raise InputError(f"{optimizer.name}: {name} has shape {list(np.shape(held))}, and must have {list(fields[name].shape(shape))}")
    return settings


def blocks(
    optimizer: Optimizer, gradient: Array, parameter: Array, state: Mapping[str, Array]
) -> Iterator[dict[str, Array]]:
    """The inputs, whole or, where elements do not look at each other, a stretch at a time."""
    given = {"gradient": gradient, "parameter": parameter, **state}
    if not optimizer.elementwise or parameter.size <= BLOCK:
        yield {name: np.asarray(array) for name, array in given.items()}
        return
    flat = {name: np.asarray(array).reshape(-1) if np.shape(array) else np.asarray(array) for name, array in given.items()}
    for start in range(0, parameter.size, BLOCK):
        yield {name: array[start : start + BLOCK] if array.ndim else array for name, array in flat.items()}


def _derived(value: Bound, error: Bound) -> Derived:
    nothing = np.broadcast_to(0.0, value.shape)
    # The value is a float64 number, and what is compared with it a difference of two.
    own = 2 * FORMATS["float64"].unit * (abs(value.value) + abs(error.value))
    certain = own + (nothing if error.certain is None else error.certain)
    if error.likely is error.certain:
        return Derived(value.value, certain, certain)
    return Derived(value.value, certain, own + (nothing if error.likely is None else error.likely))


def _joined(parts: list[Derived], shape: Shape) -> Derived:
    if len(parts) == 1:
        return parts[0]
    if not shape:
        return parts[0]
    value, certain, likely = (
        np.concatenate([getattr(part, name) for part in parts]).reshape(shape) for name in ("value", "certain", "likely")
    )
    return Derived(value, certain, likely)

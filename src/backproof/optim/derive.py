"""A step derived from what was recorded: the update and the new state in float64, with how far an honest execution may be off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.engine.bounded import Bound, Bounded
from backproof.engine.domain import Domain, float64
from backproof.engine.evaluate import evaluate
from backproof.errors import InputError
from backproof.ir.build import Builder, Ref
from backproof.ir.graph import Graph, Node
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.types import Shape, real
from backproof.numerics import FORMATS, format_named
from backproof.optim.arithmetic import OF_SQUARES
from backproof.optim.record import Numbers, Optimizer
from backproof.optim.scalar import stored

Array = NDArray[Any]
# Of elementwise rules this many elements at a time: what a step needs beside its results stays small, and near the processor.
BLOCK = 1 << 15
UPDATE, AFTER = "update", "parameter"


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
    scalars: frozenset[int]
    """The leaves that are state of one number."""
    after: int
    """The new parameter, whose bound is the update's."""


def step_graph(
    optimizer: Optimizer, shape: Shape, held: Mapping[str, Shape], hyper: Numbers, t: int, parameter: str | None = None
) -> StepGraph:
    """The formula of a step, as a graph over a parameter of this shape and the state that is held."""
    numbers = ((name, tuple(x) if isinstance(x, list) else x) for name, x in hyper.items())
    return _step_graph(optimizer, shape, tuple(held.items()), tuple(numbers), t, parameter)


@lru_cache(maxsize=256)
def _step_graph(
    optimizer: Optimizer,
    shape: Shape,
    sizes: tuple[tuple[str, Shape], ...],
    numbers: tuple[tuple[str, Any], ...],
    t: int,
    parameter: str | None,
) -> StepGraph:
    held, hyper = dict(sizes), dict(numbers)
    builder = Builder()
    leaves: dict[str, Ref] = {name: builder.leaf(real(*shape), name) for name in ("gradient", "parameter")}
    state = {name: builder.leaf(real(*size), name) for name, size in held.items()}
    step = optimizer.step(leaves["gradient"], leaves["parameter"], state, hyper, t)
    after = stored(step.parameter, parameter)
    outputs = {UPDATE: step.update, **step.state}
    graph = builder.graph(*outputs.values(), after)
    single = {field.name for field in optimizer.fields if not field.shape((1, 1))}
    scalars = frozenset(state[name].id for name in state if name in single)
    return StepGraph(graph, (*leaves, *state), {name: ref.id for name, ref in outputs.items()}, scalars, after.id)


def run(
    graph: Graph, D: Bounded, inputs: Sequence[Any], S: Bounded | None = None, scalars: AbstractSet[int] = frozenset()
) -> list[Bound]:
    """Every value of the graph: what depends on the leaves `scalars` and on constants alone in their own domain S, all else in D.

    A number is rounded once more when a tensor takes it; as an output it is not.
    """
    values = [D.value(given, leaf.type) for leaf, given in zip(graph.leaves, inputs, strict=True)]
    own: dict[int, Bound] = {leaf: values[leaf] for leaf in scalars}
    for value, node in enumerate(graph.nodes, len(graph.leaves)):
        if S is not None and not graph.types[value].shape and all(argument in own for argument in node.arguments):
            own[value] = S.apply(node.primitive, *(own[argument] for argument in node.arguments), **node.given)
            if node.arguments:
                values.append(D.apply(PRIMITIVES["cast"], own[value], to=D.storage.name))
                continue
        if node.op == "constant":
            values.append(_everywhere(D, node))
            continue
        found = D.apply(node.primitive, *(values[argument] for argument in node.arguments), **node.given)
        values.append(_never_negative(found, values[node.arguments[0]], D) if node.name == OF_SQUARES else found)
    for value in set(graph.outputs) & set(own):
        values[value] = own[value]
    return values


def _everywhere(D: Bounded, node: Node) -> Bound:
    """A constant, looked at once whatever its shape."""
    value, shape = node.given["value"], node.given["shape"]
    one = D.apply(node.primitive, value=value, shape=())
    bounds = [None if error is None else np.broadcast_to(error, shape) for error in (one.certain, one.likely)]
    return Bound(np.broadcast_to(one.value, shape), bounds[0], bounds[0] if one.likely is one.certain else bounds[1])


def _never_negative(found: Bound, x: Bound, D: Bounded) -> Bound:
    """√x where no execution has x < 0: |√x̂ − √x| ≤ √|x̂ − x|, which is finite beside 0 as well."""
    fmt = D.storage

    def bound(of_root: Any, of_x: Any) -> Any:
        off = np.sqrt(of_x)
        fresh = 2 * (fmt.unit + FORMATS["float64"].unit) * (found.value + off) + 2 * fmt.underflow
        return np.minimum(of_root, (off + fresh) * (1 + 2.0**-20))

    if x.certain is None:
        return found
    certain = bound(found.certain, x.certain)
    same = found.likely is found.certain and x.likely is x.certain
    return Bound(found.value, certain, certain if same else bound(found.likely, x.likely))


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
    parts: dict[str, list[Derived]] = {}
    for _, found in derive_blocks(optimizer, gradient, parameter, state, hyper, t, formats):
        for name, part in found.items():
            parts.setdefault(name, []).append(part)
    shapes = {field.name: field.shape(parameter.shape) for field in optimizer.fields}
    return {name: _joined(found, shapes.get(name, parameter.shape)) for name, found in parts.items()}


def derive_blocks(
    optimizer: Optimizer,
    gradient: Array,
    parameter: Array,
    state: Mapping[str, Array],
    hyper: Numbers,
    t: int,
    formats: Formats | None = None,
) -> Iterator[tuple[slice, dict[str, Derived]]]:
    """The same a stretch of the flattened parameter at a time, so that nothing has to be kept.

    In one piece where elements look at each other, and where there are few.
    """
    formats = formats or Formats()
    settings = checked(optimizer, gradient, parameter, state, hyper, t)
    scalars = settings.get("scalars") or formats.computing
    if "scalars" in settings:
        settings["scalars"] = scalars
    D, S = Bounded(formats.computing, formats.accumulation), Bounded(scalars if settings.get("tensors") else "float64")
    made: StepGraph | None = None
    for stretch, block in blocks(optimizer, gradient, parameter, state, BLOCK):
        shape = block["parameter"].shape
        if made is None or made.graph.types[1].shape != shape:
            held = {name: block[name].shape for name in state}
            made = step_graph(optimizer, shape, held, settings, t, formats.parameter)
        values = run(made.graph, D, [block[name] for name in made.inputs], S, made.scalars)
        yield (
            stretch,
            {
                name: derived_from(values[at], values[made.after if name == UPDATE else at])
                for name, at in made.outputs.items()
            },
        )


def value_of_step(
    optimizer: Optimizer,
    gradient: Array,
    parameter: Array,
    state: Mapping[str, Array],
    hyper: Numbers,
    t: int,
    D: Domain | None = None,
) -> dict[str, Array]:
    """The update, the new state and (under "parameter") the new parameter in a domain of arrays, float64 unless another is given."""
    settings = checked(optimizer, gradient, parameter, state, hyper, t)
    domain = float64() if D is None else D
    made = step_graph(optimizer, parameter.shape, {name: np.shape(held) for name, held in state.items()}, settings, t)
    values = evaluate(made.graph, domain, [gradient, parameter, *state.values()])
    return {name: domain.array(values[at]) for name, at in (*made.outputs.items(), (AFTER, made.after))}


def first_state(optimizer: Optimizer, shape: Shape, hyper: Numbers, fmt: str) -> dict[str, Array]:
    """The state before the first step, as it is stored; what is not there yet is left out."""
    settings, found = optimizer.settings(hyper), {}
    for field in optimizer.state_fields(settings, shape):
        start, size = (settings[field.start] if isinstance(field.start, str) else field.start), field.shape(shape)
        if start is not None:
            kept_in = fmt if size else settings.get("scalars") or fmt
            found[field.name] = np.full(size, format_named(kept_in).round(start))
    return found


def checked(
    optimizer: Optimizer, gradient: Array, parameter: Array, state: Mapping[str, Array], hyper: Numbers, t: int
) -> dict[str, Any]:
    """The settings, once shapes, state and step count are what this optimizer keeps."""
    settings, shape = optimizer.settings(hyper), tuple(parameter.shape)
    if t < 1:
        raise InputError(f"{optimizer.name}: the step count is {t}; the first step is step 1")
    if tuple(gradient.shape) != shape:
        raise InputError(
            f"{optimizer.name}: the gradient has shape {list(gradient.shape)}, the parameter {list(shape)}"
        )
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
            raise InputError(
                f"{optimizer.name}: {name} has shape {list(np.shape(held))}, and must have {list(fields[name].shape(shape))}"
            )
    return settings


def blocks(
    optimizer: Optimizer, gradient: Array, parameter: Array, state: Mapping[str, Array], size: int
) -> Iterator[tuple[slice, dict[str, Array]]]:
    """The inputs, whole or, where elements do not look at each other, a stretch of this size at a time."""
    given = {name: np.asarray(array) for name, array in {"gradient": gradient, "parameter": parameter, **state}.items()}
    if not optimizer.elementwise or parameter.size <= size:
        yield slice(0, parameter.size), given
        return
    flat = {name: array.reshape(-1) if array.ndim else array for name, array in given.items()}
    for start in range(0, parameter.size, size):
        stretch = slice(start, min(start + size, parameter.size))
        yield stretch, {name: array[stretch] if array.ndim else array for name, array in flat.items()}


def derived_from(value: Bound, error: Bound) -> Derived:
    """A value with the bound of another that stands for it."""
    nothing = np.broadcast_to(0.0, value.shape)
    # The value is a float64 number, and what is compared with it a difference of two.
    own = 2 * FORMATS["float64"].unit * (abs(value.value) + abs(error.value))
    certain = own + (nothing if error.certain is None else error.certain)
    if error.likely is error.certain:
        return Derived(value.value, certain, certain)
    return Derived(value.value, certain, own + (nothing if error.likely is None else error.likely))


def _joined(parts: list[Derived], shape: Shape) -> Derived:
    if len(parts) == 1 or not shape:
        return parts[0]

    def whole(name: str) -> Array:
        return np.concatenate([getattr(part, name) for part in parts]).reshape(shape)

    certain = whole("certain")
    same = all(part.likely is part.certain for part in parts)
    return Derived(whole("value"), certain, certain if same else whole("likely"))

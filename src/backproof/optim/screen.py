"""A recorded step looked at quickly: values alone for every element, bounds only for those that need them.

The bound of a formula is never less than some multiple of the size of its result, which the graph tells without running. An element
that is nearer to its derived value than that is inside its bound, whatever the bound is. Of an honest step that is nearly all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from backproof.engine.domain import float64
from backproof.engine.evaluate import evaluate
from backproof.engine.threads import ahead
from backproof.errors import InputError
from backproof.ir.graph import Graph
from backproof.ir.types import Shape
from backproof.numerics import FORMATS, format_named
from backproof.optim.derive import (
    AFTER,
    UPDATE,
    Array,
    Derived,
    Formats,
    StepGraph,
    blocks,
    checked,
    derive,
    derive_blocks,
    step_graph,
)
from backproof.optim.record import Numbers, Optimizer

# Values alone take little memory, and each stretch has a price of its own.
STRETCH = 1 << 18


@dataclass(frozen=True)
class Screened:
    """A stretch of a parameter."""

    stretch: slice
    values: dict[str, Array]
    """What was derived: the update and the new state."""
    elements: Array
    """The elements of the stretch whose bounds were needed, by their place in it."""
    derived: dict[str, Derived]
    """And what was derived there; nothing, where no element needed it."""
    floors: dict[str, Array]
    """Of each value a size that its certain bound is no less than."""

    def bounded(self, name: str) -> tuple[Array, Array, Array]:
        """A result, flat, with a certain and a likely bound: the smaller ones that were enough, or its own where they were not."""
        value = self.values[name].reshape(-1)
        if not self.derived:
            certain = self.floors[name].reshape(-1)
            return value, certain, certain
        found = self.derived[name]
        if value.size != self.size or self.elements.size == value.size:
            return (found.value.reshape(-1), found.certain.reshape(-1), found.likely.reshape(-1))
        certain = self.floors[name].reshape(-1)
        likely = certain if found.likely is found.certain else certain.copy()
        certain[self.elements] = found.certain.reshape(-1)
        if likely is not certain:
            likely[self.elements] = found.likely.reshape(-1)
        return value, certain, likely

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.stretch.stop - self.stretch.start


# From the relative floors of the operands, that of the result; each operation rounds at least once more.
_RISE: dict[str, Callable[[list[float], float], float]] = {
    "add": lambda x, unit: min(x) + unit,
    "sub": lambda x, unit: min(x) + unit,
    "mul": lambda x, unit: sum(x) + unit,
    "div": lambda x, unit: sum(x) + 2 * unit,
    "neg": lambda x, unit: x[0],
    "abs": lambda x, unit: x[0],
    "sqrt": lambda x, unit: x[0] / 2 + 2 * unit,
    "maximum": lambda x, unit: min(x),
    "minimum": lambda x, unit: min(x),
}


def floors(graph: Graph, unit: float) -> list[float]:
    """For each value a factor f: its certain bound is at least f·|value|, in a format of this unit roundoff."""
    found = [0.0] * len(graph.leaves)
    for node in graph.nodes:
        given = [found[argument] for argument in node.arguments]
        if not graph.types[len(found)].shape:
            found.append(0.0)  # a number may be computed in a finer format, by itself
        elif node.op == "cast" and node.given["to"] in FORMATS:
            found.append(given[0] + FORMATS[node.given["to"]].unit)
        else:
            found.append(_RISE[node.op](given, unit) if node.op in _RISE else 0.0)
    return found


def screen(
    optimizer: Optimizer,
    claimed: Mapping[str, Array],
    gradient: Array,
    parameter: Array,
    state: Mapping[str, Array],
    hyper: Numbers,
    t: int,
    formats: Formats | None = None,
) -> Iterator[Screened]:
    """The step's values a stretch at a time, and bounds where what is claimed is not obviously inside them.

    `claimed` has the update (new parameter − old, as float64) and the new state.
    """
    formats = formats or Formats()
    settings = checked(optimizer, gradient, parameter, state, hyper, t)
    if not optimizer.elementwise:
        (found,) = (found for _, found in derive_blocks(optimizer, gradient, parameter, state, hyper, t, formats))
        yield Screened(slice(0, parameter.size), _values(found), np.arange(parameter.size), found, {})
        return
    D, unit = float64(), format_named(formats.computing).unit

    @cache
    def graph_of(shape: Shape) -> tuple[StepGraph, list[float]]:
        held = {name: shape if np.ndim(array) else () for name, array in state.items()}
        made = step_graph(optimizer, shape, held, settings, t, formats.parameter)
        return made, floors(made.graph, unit)

    def screened(place: tuple[slice, dict[str, Array]]) -> Screened:
        stretch, block = place
        shape = block["parameter"].shape
        made, least = graph_of(shape)
        run = evaluate(made.graph, D, [block[name] for name in made.inputs])
        values = {name: run[at] for name, at in made.outputs.items()}
        doubtful, near = np.zeros(shape, dtype=np.bool_), {}
        for name, at in made.outputs.items():
            bounded = made.after if name == UPDATE else at
            if values[name].shape == shape:
                near[name] = least[bounded] * abs(run[bounded])
                doubtful |= ~(abs(_stretch(claimed, name, stretch, shape) - values[name]) <= near[name])
        elements = np.flatnonzero(doubtful)
        needed = elements.size > 0 or near.keys() != values.keys()
        derived = _derived_at(optimizer, block, elements, hyper, t, formats) if needed else {}
        return Screened(stretch, values, elements, derived, near)

    yield from ahead("slab", screened, blocks(optimizer, gradient, parameter, state, STRETCH))


def _stretch(claimed: Mapping[str, Array], name: str, stretch: slice, shape: tuple[int, ...]) -> Array:
    if name not in claimed:
        raise InputError(f"nothing is claimed of {name}; there are {', '.join(claimed)}")
    return np.asarray(claimed[name]).reshape(-1)[stretch].reshape(shape)


def _derived_at(
    optimizer: Optimizer, block: Mapping[str, Array], elements: Array, hyper: Numbers, t: int, formats: Formats
) -> dict[str, Derived]:
    """The step of these elements alone."""
    chosen: dict[str, Any] = {name: x.reshape(-1)[elements] if x.ndim else x for name, x in block.items()}
    gradient, parameter = chosen.pop("gradient"), chosen.pop("parameter")
    return derive(optimizer, gradient, parameter, chosen, hyper, t, formats)


def _values(found: Mapping[str, Derived]) -> dict[str, Array]:
    return {name: each.value for name, each in found.items() if name != AFTER}

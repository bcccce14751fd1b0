"""A receipt's network: its units, and where every parameter stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from backproof.engine.scalar import Wiring
from backproof.engine.scalar_domain import Positions

LAYERS = ("input", "hidden", "output")
LOSSLESS = "1.0.0"  # the version with any number of layers
BIAS_ROLES = {"hidden_bias": "hidden", "output_bias": "output"}
EDGE_OF_ROLE = {"input_to_hidden_weight": "input_to_hidden", "hidden_to_output_weight": "hidden_to_output"}


class Parameter(NamedTuple):
    """One parameter: a weight on an edge, or a bias of some units."""

    id: str
    role: str
    from_unit: str = ""
    to_unit: str = ""
    applies_to: tuple[str, ...] = ()

    @property
    def is_bias(self) -> bool:
        """Whether it is added rather than multiplied."""
        return self.role in BIAS_ROLES or self.role == "bias"


class Problem(NamedTuple):
    """Something wrong with the network itself, and where it is said."""

    path: str
    message: str
    said: Any = None
    found: Any = None


@dataclass(frozen=True)
class Topology:
    """The network of a receipt, as far as it could be read."""

    units: dict[str, tuple[str, ...]]
    parameter_order: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    activations: tuple[str, ...]  # of every layer but the first
    loss: str
    bias_sharing: str
    problems: tuple[Problem, ...]
    layers: tuple[str, ...] = LAYERS

    @cached_property
    def by_id(self) -> dict[str, Parameter]:
        """Parameters by id."""
        return {parameter.id: parameter for parameter in self.parameters}

    @property
    def is_layered(self) -> bool:
        """Whether it has the roles of version 1.0.0."""
        return any(p.role in {"weight", "bias"} for p in self.parameters)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The units of the first layer."""
        return self.units[self.layers[0]]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The units of the last layer."""
        return self.units[self.layers[-1]]

    @property
    def activation_output(self) -> str:
        """The activation of the last layer."""
        return self.activations[-1] if self.activations else ""

    @cached_property
    def hidden_units(self) -> tuple[str, ...]:
        """The units of all layers between the first and the last."""
        return tuple(unit for layer in self.layers[1:-1] for unit in self.units[layer])

    @cached_property
    def layer_of(self) -> dict[str, str]:
        """The layer of every unit."""
        return {unit: layer for layer in self.layers for unit in self.units[layer]}

    @cached_property
    def edges(self) -> dict[tuple[str, str], str]:
        """The weight on the edge between two units."""
        return {(p.from_unit, p.to_unit): p.id for p in self.parameters if not p.is_bias}

    @cached_property
    def bias_of(self) -> dict[str, str]:
        """The bias of a unit."""
        return {unit: p.id for p in self.parameters if p.is_bias for unit in p.applies_to}

    def weight_positions(self, layer: int) -> Positions:
        """Where the weights into a layer (1, 2, …) stand in the parameter order; -1 where none is."""
        below, above = self.units[self.layers[layer - 1]], self.units[self.layers[layer]]
        place = {name: i for i, name in enumerate(self.parameter_order)}
        rows = [[place.get(self.edges.get((a, b), ""), -1) for b in above] for a in below]
        return np.array(rows, dtype=np.intp).reshape(len(below), len(above))

    def bias_positions(self, layer: int) -> Positions:
        """Where the biases of a layer (1, 2, …) stand in the parameter order; -1 where none is."""
        place = {name: i for i, name in enumerate(self.parameter_order)}
        return np.array([place.get(self.bias_of.get(u, ""), -1) for u in self.units[self.layers[layer]]], dtype=np.intp)

    def wiring(self, *, updates_biases: bool) -> Wiring:
        """The network as the engine takes it."""
        updated = [
            i
            for i, name in enumerate(self.parameter_order)
            if name in self.by_id and (updates_biases or not self.by_id[name].is_bias)
        ]
        return Wiring(
            weights=tuple(self.weight_positions(k) for k in range(1, len(self.layers))),
            biases=tuple(self.bias_positions(k) for k in range(1, len(self.layers))),
            activations=self.activations,
            loss=self.loss,
            updated=np.array(updated, dtype=np.intp),
        )

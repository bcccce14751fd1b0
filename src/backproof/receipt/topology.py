"""A receipt's network: its units, and where every parameter stands. What is wrong with it is listed, not raised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from backproof.engine.scalar import Positions, Wiring
from backproof.engine.scalar_activations import SMOOTH
from backproof.receipt.formats.receipts import MAZUR_PARAMETERS, MAZUR_UNITS

LAYERS = ("input", "hidden", "output")
LOSSLESS = "1.0.0"  # the version with any number of layers
WEIGHT_ROLES = {
    "input_to_hidden_weight": ("input", "hidden"),
    "hidden_to_output_weight": ("hidden", "output"),
}
BIAS_ROLES = {"hidden_bias": "hidden", "output_bias": "output"}
EDGE_OF_ROLE = {"input_to_hidden_weight": "input_to_hidden", "hidden_to_output_weight": "hidden_to_output"}
HIDDEN_ACTIVATIONS = ("sigmoid", "identity", "relu")


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


def topology_of(document: Mapping[str, Any]) -> Topology:
    """The network of a receipt or topology input, with the list of what is wrong with it."""
    said = document.get("topology")
    said = said if isinstance(said, Mapping) else {}
    if document.get("schema_version") == "0.1.0":
        return _mazur(said)
    if is_layered(document):
        return _layered(said)
    units = {layer: _names(_mapping(said.get("unit_order")).get(layer)) for layer in LAYERS}
    entries = said.get("parameters")
    entries = entries if isinstance(entries, list) else []
    parameters = tuple(_parameter(entry) for entry in entries if isinstance(entry, Mapping))
    topology = Topology(
        units=units,
        parameter_order=_names(said.get("parameter_order")),
        parameters=parameters,
        activations=(_text(said.get("activation_hidden")), _text(said.get("activation_output"))),
        loss=_text(said.get("loss")),
        bias_sharing=_text(said.get("bias_sharing")),
        problems=(),
    )
    return replace(topology, problems=tuple(_problems(topology, said)))


def is_layered(document: Mapping[str, Any]) -> bool:
    """Whether the network has named layers, as version 1.0.0 describes it."""
    return document.get("schema_version") == LOSSLESS or "activations" in _mapping(document.get("topology"))


def _layered(said: Mapping[str, Any]) -> Topology:
    layers = _names(said.get("layers"))
    units = {layer: _names(_mapping(said.get("unit_order")).get(layer)) for layer in layers}
    entries = said.get("parameters")
    entries = entries if isinstance(entries, list) else []
    topology = Topology(
        units=units or {"": ()},
        parameter_order=_names(said.get("parameter_order")),
        parameters=tuple(_parameter(entry) for entry in entries if isinstance(entry, Mapping)),
        activations=tuple(_text(_mapping(said.get("activations")).get(layer)) for layer in layers[1:]),
        loss=_text(said.get("loss")),
        bias_sharing=_text(said.get("bias_sharing")),
        problems=(),
        layers=layers or ("",),
    )
    return replace(topology, problems=tuple(_layered_problems(topology, said)))


def _layered_problems(topology: Topology, said: Mapping[str, Any]) -> list[Problem]:
    problems = []
    if len(topology.layers) < 2 or len(set(topology.layers)) != len(topology.layers):
        problems.append(
            Problem("topology.layers", "a network has two layers or more, each named once", said.get("layers"))
        )
        return problems
    for key, expected in (("unit_order", topology.layers), ("activations", topology.layers[1:])):
        if set(_mapping(said.get(key))) != set(expected):
            problems.append(Problem(f"topology.{key}", "does not speak of exactly the layers", said.get(key), expected))
    every = [unit for layer in topology.layers for unit in topology.units[layer]]
    empty = [layer for layer in topology.layers if not topology.units[layer]]
    problems += [Problem(f"topology.unit_order.{layer}", "names no unit", []) for layer in empty]
    if len(set(every)) != len(every):
        problems.append(Problem("topology.unit_order", "a unit is named twice", every))
    problems += _identity_problems(topology)
    problems += [problem for parameter in topology.parameters for problem in _layered_parameter(topology, parameter)]
    problems += _edge_problems(topology)
    for layer, activation in zip(topology.layers[1:], topology.activations, strict=True):
        last = layer == topology.layers[-1]
        if activation not in (*HIDDEN_ACTIVATIONS, *SMOOTH, *(("softmax",) if last else ())):
            problems.append(Problem(f"topology.activations.{layer}", "is no activation of this layer", activation))
    return problems + _loss_problems(topology)


def _layered_parameter(topology: Topology, parameter: Parameter) -> list[Problem]:
    where = f"topology.parameters[id={parameter.id}]"
    place = {layer: k for k, layer in enumerate(topology.layers)}
    if parameter.role == "weight":
        ends = [place.get(topology.layer_of.get(unit, ""), -9) for unit in (parameter.from_unit, parameter.to_unit)]
        if ends[1] != ends[0] + 1 or ends[0] < 0 or parameter.applies_to:
            return [Problem(where, "is no weight from one layer to the next", [parameter.from_unit, parameter.to_unit])]
        return []
    if parameter.role != "bias":
        return [Problem(f"{where}.role", "must be weight or bias", parameter.role)]
    layers = {topology.layer_of.get(unit, "") for unit in parameter.applies_to}
    layer = next(iter(layers)) if len(layers) == 1 else ""
    if layer not in topology.layers[1:] or parameter.from_unit or parameter.to_unit:
        return [
            Problem(f"{where}.applies_to_units", "are not units of one layer above the first", parameter.applies_to)
        ]
    expected = len(topology.units[layer]) if topology.bias_sharing == "per_layer" else 1
    if len(parameter.applies_to) != expected or len(set(parameter.applies_to)) != expected:
        message = f"a {topology.bias_sharing} bias applies to {expected} units"
        return [Problem(f"{where}.applies_to_units", message, len(parameter.applies_to), expected)]
    return []


def _edge_problems(topology: Topology) -> list[Problem]:
    edges = Counter((p.from_unit, p.to_unit) for p in topology.parameters if not p.is_bias)
    served = Counter(unit for p in topology.parameters if p.is_bias for unit in p.applies_to)
    problems = []
    for below, above in pairwise(topology.layers):
        for a, b in product(topology.units[below], topology.units[above]):
            if edges[a, b] != 1:
                message = f"the edge {a} to {b} has {edges[a, b]} weights, not one"
                problems.append(Problem("topology.parameters", message, edges[a, b], 1))
        for unit in topology.units[above]:
            if served[unit] != 1:
                message = f"the unit {unit} has {served[unit]} biases, not one"
                problems.append(Problem("topology.parameters", message, served[unit], 1))
    return problems


def _mazur(said: Mapping[str, Any]) -> Topology:
    units: dict[str, tuple[str, ...]] = dict(MAZUR_UNITS)
    parameters = []
    for k, (a, b) in enumerate((a, b) for b in units["hidden"] for a in units["input"]):
        parameters.append(Parameter(f"w{k + 1}", "input_to_hidden_weight", a, b))
    for k, (a, b) in enumerate((a, b) for b in units["output"] for a in units["hidden"]):
        parameters.append(Parameter(f"w{k + 5}", "hidden_to_output_weight", a, b))
    parameters.append(Parameter("b1", "hidden_bias", applies_to=units["hidden"]))
    parameters.append(Parameter("b2", "output_bias", applies_to=units["output"]))
    activation = _text(said.get("activation", "sigmoid"))
    problems = [
        Problem(f"topology.{layer}_size", "Mazur's network has two units a layer", said.get(f"{layer}_size"), 2)
        for layer in LAYERS
        if said.get(f"{layer}_size") != 2
    ]
    return Topology(
        units,
        MAZUR_PARAMETERS,
        tuple(parameters),
        (activation, activation),
        _text(said.get("loss")),
        _text(said.get("bias_sharing", "per_layer")),
        tuple(problems),
    )


def _problems(topology: Topology, said: Mapping[str, Any]) -> list[Problem]:
    problems: list[Problem] = []
    for layer in LAYERS:
        size, units = said.get(f"{layer}_size"), topology.units[layer]
        if not units:
            problems.append(Problem(f"topology.unit_order.{layer}", "names no unit", [], "at least one unit"))
        elif size != len(units):
            message = "the declared size is not the number of units"
            problems.append(Problem(f"topology.{layer}_size", message, size, len(units)))
    every = [unit for layer in LAYERS for unit in topology.units[layer]]
    twice = sorted({unit for unit in every if every.count(unit) > 1})
    problems += [Problem("topology.unit_order", f"the unit {unit} is named twice", unit) for unit in twice]
    problems += _layer_problems(said)
    problems += _identity_problems(topology)
    for parameter in topology.parameters:
        problems += _parameter_problems(topology, parameter)
    problems += _coverage_problems(topology)
    return problems + _choice_problems(topology)


def _identity_problems(topology: Topology) -> list[Problem]:
    problems = []
    ids = [parameter.id for parameter in topology.parameters]
    if ids != list(topology.parameter_order):
        message = "the parameters are not the ones of parameter_order, in that order"
        problems.append(Problem("topology.parameters", message, ids, list(topology.parameter_order)))
    if len(set(ids)) != len(ids):
        problems.append(Problem("topology.parameters", "an id is given twice", ids))
    return problems


def _layer_problems(said: Mapping[str, Any]) -> list[Problem]:
    layers = said.get("layers")
    if layers == list(LAYERS):
        return []
    return [Problem("topology.layers", "the layers are input, hidden, output", layers, list(LAYERS))]


def _parameter_problems(topology: Topology, parameter: Parameter) -> list[Problem]:
    where = f"topology.parameters[id={parameter.id}]"
    if parameter.role in WEIGHT_ROLES:
        below, above = WEIGHT_ROLES[parameter.role]
        problems = [
            Problem(f"{where}.{name}", f"is no unit of the {layer} layer", unit, topology.units[layer])
            for name, unit, layer in (
                ("from_unit", parameter.from_unit, below),
                ("to_unit", parameter.to_unit, above),
            )
            if unit not in topology.units[layer]
        ]
        if parameter.applies_to:
            problems.append(Problem(f"{where}.applies_to_units", "a weight applies to no units", parameter.applies_to))
        return problems
    if parameter.role not in BIAS_ROLES:
        return [Problem(f"{where}.role", "is no role that a parameter can have", parameter.role)]
    layer = topology.units[BIAS_ROLES[parameter.role]]
    expected = len(layer) if topology.bias_sharing == "per_layer" else 1
    applies = parameter.applies_to
    if len(applies) != expected:
        message = f"a {topology.bias_sharing} bias applies to {expected} units"
        return [Problem(f"{where}.applies_to_units", message, len(applies), expected)]
    if not set(applies) <= set(layer) or len(set(applies)) != len(applies):
        return [Problem(f"{where}.applies_to_units", "are not units of its layer, each once", applies, layer)]
    if parameter.from_unit or parameter.to_unit:
        return [Problem(f"{where}.from_unit", "a bias stands on no edge", parameter.from_unit or parameter.to_unit)]
    return []


def _coverage_problems(topology: Topology) -> list[Problem]:
    problems = []
    for role, (below, above) in WEIGHT_ROLES.items():
        edges = [(p.from_unit, p.to_unit) for p in topology.parameters if p.role == role]
        wanted = [(a, b) for a in topology.units[below] for b in topology.units[above]]
        for a, b in wanted:
            if edges.count((a, b)) != 1:
                message = f"the edge {a} to {b} has {edges.count((a, b))} weights, not one"
                problems.append(Problem("topology.parameters", message, edges.count((a, b)), 1))
    for role, layer in BIAS_ROLES.items():
        served = [unit for p in topology.parameters if p.role == role for unit in p.applies_to]
        for unit in topology.units[layer]:
            if served.count(unit) != 1:
                message = f"the unit {unit} has {served.count(unit)} biases, not one"
                problems.append(Problem("topology.parameters", message, served.count(unit), 1))
    return problems


def _choice_problems(topology: Topology) -> list[Problem]:
    problems = []
    if topology.activations[0] not in HIDDEN_ACTIVATIONS:
        message = f"must be one of {', '.join(HIDDEN_ACTIVATIONS)}"
        problems.append(Problem("topology.activation_hidden", message, topology.activations[0]))
    if topology.activation_output not in (*HIDDEN_ACTIVATIONS, "softmax"):
        message = f"must be one of {', '.join(HIDDEN_ACTIVATIONS)}, softmax"
        problems.append(Problem("topology.activation_output", message, topology.activation_output))
    return problems + _loss_problems(topology)


def _loss_problems(topology: Topology) -> list[Problem]:
    problems = []
    if topology.loss not in {"half_squared_error", "cross_entropy_softmax"}:
        problems.append(Problem("topology.loss", "is no loss of the format", topology.loss))
    elif (topology.activation_output == "softmax") != (topology.loss == "cross_entropy_softmax"):
        message = "softmax and cross_entropy_softmax go together"
        problems.append(Problem("topology.loss", message, topology.loss, topology.activation_output))
    return problems


def _parameter(entry: Mapping[str, Any]) -> Parameter:
    return Parameter(
        id=_text(entry.get("id")),
        role=_text(entry.get("role")),
        from_unit=_text(entry.get("from_unit")),
        to_unit=_text(entry.get("to_unit")),
        applies_to=_names(entry.get("applies_to_units")),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

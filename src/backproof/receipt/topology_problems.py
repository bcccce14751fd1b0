"""What is wrong with a receipt's network itself, place by place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any

from backproof.engine.scalar_activations import SMOOTH
from backproof.receipt.topology import BIAS_ROLES, LAYERS, Parameter, Problem, Topology

HIDDEN_ACTIVATIONS = ("sigmoid", "identity", "relu")
WEIGHT_ROLES = {
    "input_to_hidden_weight": ("input", "hidden"),
    "hidden_to_output_weight": ("hidden", "output"),
}


def two_layer_problems(topology: Topology, said: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a network of the roles input, hidden and output."""
    problems: list[Problem] = []
    for layer in LAYERS:
        size, units = said.get(f"{layer}_size"), topology.units[layer]
        if not units:
            problems.append(Problem(f"topology.unit_order.{layer}", "names no unit", [], "at least one unit"))
        elif size != len(units):
            message = "the declared size is not the number of units"
            problems.append(Problem(f"topology.{layer}_size", message, size, len(units)))
    every = Counter(unit for layer in LAYERS for unit in topology.units[layer])
    twice = sorted(unit for unit, times in every.items() if times > 1)
    problems += [Problem("topology.unit_order", f"the unit {unit} is named twice", unit) for unit in twice]
    problems += layer_problems(said)
    problems += _identity_problems(topology)
    for parameter in topology.parameters:
        problems += _parameter_problems(topology, parameter)
    problems += _coverage_problems(topology)
    return problems + _choice_problems(topology)


def layered_problems(topology: Topology, said: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with a network of named layers."""
    problems = []
    if len(topology.layers) < 2 or len(set(topology.layers)) != len(topology.layers):
        problems.append(
            Problem("topology.layers", "a network has two layers or more, each named once", said.get("layers"))
        )
        return problems
    for key, expected in (("unit_order", topology.layers), ("activations", topology.layers[1:])):
        if _keys(said.get(key)) != set(expected):
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


def _identity_problems(topology: Topology) -> list[Problem]:
    problems = []
    ids = [parameter.id for parameter in topology.parameters]
    if ids != list(topology.parameter_order):
        message = "the parameters are not the ones of parameter_order, in that order"
        problems.append(Problem("topology.parameters", message, ids, list(topology.parameter_order)))
    if len(set(ids)) != len(ids):
        problems.append(Problem("topology.parameters", "an id is given twice", ids))
    return problems


def layer_problems(said: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the names of the layers of a network with the roles input, hidden and output."""
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
        edges = Counter((p.from_unit, p.to_unit) for p in topology.parameters if p.role == role)
        wanted = [(a, b) for a in topology.units[below] for b in topology.units[above]]
        for a, b in wanted:
            if edges[a, b] != 1:
                message = f"the edge {a} to {b} has {edges[a, b]} weights, not one"
                problems.append(Problem("topology.parameters", message, edges[a, b], 1))
    for role, layer in BIAS_ROLES.items():
        served = Counter(unit for p in topology.parameters if p.role == role for unit in p.applies_to)
        for unit in topology.units[layer]:
            if served[unit] != 1:
                message = f"the unit {unit} has {served[unit]} biases, not one"
                problems.append(Problem("topology.parameters", message, served[unit], 1))
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


def _keys(value: Any) -> set[str]:
    return set(value) if isinstance(value, Mapping) else set()

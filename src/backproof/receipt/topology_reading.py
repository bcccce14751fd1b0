"""Reading a receipt's network. What is wrong with it is listed, not raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from backproof.receipt.formats.receipts import MAZUR_PARAMETERS, MAZUR_UNITS
from backproof.receipt.topology import LAYERS, LOSSLESS, Parameter, Problem, Topology
from backproof.receipt.topology_problems import layer_problems, layered_problems, two_layer_problems

MOST_MISSING = 10_000  # edges without a parameter, of which each is named


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
    return _told_small(topology) or replace(topology, problems=tuple(two_layer_problems(topology, said)))


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
    return _told_small(topology) or replace(topology, problems=tuple(layered_problems(topology, said)))


def _told_small(topology: Topology) -> Topology | None:
    """The network without units where a small file declares far more edges than it has parameters for."""
    edges = sum(len(topology.units[below]) * len(topology.units[above]) for below, above in pairwise(topology.layers))
    if edges <= 2 * len(topology.parameters) + MOST_MISSING:
        return None
    message = "declares more edges than there are parameters for"
    problem = Problem("topology.unit_order", message, edges, len(topology.parameters))
    return replace(topology, units=dict.fromkeys(topology.units, ()), problems=(problem,))


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
    problems += layer_problems(said)
    return Topology(
        units,
        MAZUR_PARAMETERS,
        tuple(parameters),
        (activation, activation),
        _text(said.get("loss")),
        _text(said.get("bias_sharing", "per_layer")),
        tuple(problems),
    )


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

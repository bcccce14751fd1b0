"""The lists in a receipt that govern the order and completeness of its maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backproof.receipt.formats.receipts import MAZUR_PARAMETERS, MAZUR_UNITS


def orders_of(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Order name to ids: input, hidden, output, units (hidden, then output), parameters, samples."""
    if document.get("schema_version") == "0.1.0":
        units = {layer: list(ids) for layer, ids in MAZUR_UNITS.items()}
        parameters = list(MAZUR_PARAMETERS)
    else:
        topology = _mapping(document.get("topology"))
        unit_order = _mapping(topology.get("unit_order"))
        layers = _ids(topology.get("layers"))
        if "activations" in topology and layers:
            middle = [unit for layer in layers[1:-1] for unit in _ids(unit_order.get(layer))]
            unit_order = {"input": unit_order.get(layers[0]), "hidden": middle, "output": unit_order.get(layers[-1])}
        units = {layer: _ids(unit_order.get(layer)) for layer in ("input", "hidden", "output")}
        parameters = _ids(topology.get("parameter_order"))
    samples = _ids(_mapping(document.get("batch")).get("sample_order"))
    return {**units, "units": units["hidden"] + units["output"], "parameters": parameters, "samples": samples}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _ids(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

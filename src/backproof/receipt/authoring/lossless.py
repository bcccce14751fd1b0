"""A classic input as one of version 1.0.0, whose receipts carry every finite number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backproof.receipt.authoring.step import author_batch, author_step
from backproof.receipt.topology_reading import is_layered

POLICY = {"number_encoding": "decimal", "rounding": "shortest_round_trip", "computation_order": "schema_defined"}
ROLES = {
    "input_to_hidden_weight": "weight",
    "hidden_to_output_weight": "weight",
    "hidden_bias": "bias",
    "output_bias": "bias",
}


def as_lossless(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same network, numbers and names, described as version 1.0.0 does."""
    if is_layered(given):
        return dict(given)
    topology = given["topology"]
    kept = {key: topology[key] for key in ("layers", "unit_order", "parameter_order")}
    parameters = [{**parameter, "role": ROLES[parameter["role"]]} for parameter in topology["parameters"]]
    activations = {"hidden": topology["activation_hidden"], "output": topology["activation_output"]}
    layered = {
        **kept,
        "parameters": parameters,
        "activations": activations,
        "loss": topology["loss"],
        "bias_sharing": topology["bias_sharing"],
    }
    return {**given, "topology": layered, "numeric_policy": dict(POLICY)}


def author_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """The receipt of an input 1.0.0, which holds its optimizer, state, batch and samples itself."""
    config, state = given.get("optimizer_config"), given.get("optimizer_state_before")
    own = {"optimizer_config", "optimizer_state_before", "batch", "per_sample"}
    step = {key: value for key, value in given.items() if key not in own}
    if "batch" in given:
        samples = given.get("per_sample", {})
        return author_batch(step, given["batch"], samples, optimizer_config=config, state_before=state)
    return author_step(step, optimizer_config=config, state_before=state)

"""The inputs that `bp generate` and `bp scaffold` know by name. Their texts are part of the bytes of their receipts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BYTE_OUTPUT = {
    "format": "jsonl",
    "json_key_order": "schema_defined",
    "trailing_zero_policy": "pad_to_significant_digits",
    "indent": "none",
}
_XOR_BIASES = {
    "mode": "constant",
    "reason": "v0.3 fixtures pin biases as constant on step 1 to keep the engine in scope of memo §5 (bias updates "
    "deferred to v0.4+)",
    "updated_in_step": False,
    "reconciliation": "parameters_after[bias_id] === parameters_before[bias_id] for every bias parameter",
}
MAZUR_BIASES = {
    "mode": "constant",
    "reason": "Mazur's published derivation does not update bias terms in step 1",
    "updated_in_step": False,
    "reconciliation": "parameters_after.b1 == parameters_before.b1 AND parameters_after.b2 == parameters_before.b2",
}
MAZUR_URL = "https://mattmazur.com/2015/03/17/a-step-by-step-backpropagation-example/"


def numeric_policy(tolerance: float | dict[str, float]) -> dict[str, Any]:
    """The numeric policy of every classic receipt, with the tolerance that it states."""
    return {
        "number_encoding": "decimal",
        "precision_significant_digits": 9,
        "rounding": "round_half_to_even",
        "tolerance": tolerance,
        "computation_order": "schema_defined",
        "byte_output": dict(BYTE_OUTPUT),
    }


def dense_topology(
    inputs: list[str],
    hidden: list[str],
    outputs: list[str],
    name: Callable[[str, str], str],
    biases: tuple[str, str] = ("b_hidden", "b_output"),
) -> dict[str, Any]:
    """A sigmoid network with one bias a layer; weights are listed by the unit that they go into."""
    parameters: list[dict[str, Any]] = [
        {"id": name(a, b), "role": role, "from_unit": a, "to_unit": b}
        for role, below, above in (
            ("input_to_hidden_weight", inputs, hidden),
            ("hidden_to_output_weight", hidden, outputs),
        )
        for b in above
        for a in below
    ]
    parameters.append({"id": biases[0], "role": "hidden_bias", "applies_to_units": list(hidden)})
    parameters.append({"id": biases[1], "role": "output_bias", "applies_to_units": list(outputs)})
    return {
        "layers": ["input", "hidden", "output"],
        "unit_order": {"input": inputs, "hidden": hidden, "output": outputs},
        "parameter_order": [parameter["id"] for parameter in parameters],
        "parameters": parameters,
        "activation_hidden": "sigmoid",
        "activation_output": "sigmoid",
        "loss": "half_squared_error",
        "bias_sharing": "per_layer",
        "input_size": len(inputs),
        "hidden_size": len(hidden),
        "output_size": len(outputs),
    }


def _input(
    topology: dict[str, Any],
    values: list[float],
    *,
    rate: float,
    inputs: list[float],
    targets: list[float],
    **texts: Any,
) -> dict[str, Any]:
    units = topology["unit_order"]
    return {
        "topology": topology,
        "learning_rate": rate,
        "inputs": dict(zip(units["input"], inputs, strict=True)),
        "targets": dict(zip(units["output"], targets, strict=True)),
        "parameters_before": dict(zip(topology["parameter_order"], values, strict=True)),
        "numeric_policy": texts["policy"],
        "bias_policy": texts["biases"],
        "fixture": texts["fixture"],
        "metadata": {
            "source": texts["source"],
            "url_reference": texts["url"],
            "gradient_convention": "descent_direction",
        },
    }


def _edge(a: str, b: str) -> str:
    return f"w_{a}_{b}"


def mazur() -> dict[str, Any]:
    """Mazur's 2-2-2 network as a general input."""
    order = {("i1", "h1"): 1, ("i2", "h1"): 2, ("i1", "h2"): 3, ("i2", "h2"): 4}
    order |= {("h1", "o1"): 5, ("h2", "o1"): 6, ("h1", "o2"): 7, ("h2", "o2"): 8}
    topology = dense_topology(
        ["i1", "i2"], ["h1", "h2"], ["o1", "o2"], lambda a, b: f"w{order[a, b]}", biases=("b1", "b2")
    )
    return _input(
        topology,
        [0.15, 0.20, 0.25, 0.30, 0.40, 0.45, 0.50, 0.55, 0.35, 0.60],
        rate=0.5,
        inputs=[0.05, 0.10],
        targets=[0.01, 0.99],
        policy=numeric_policy(1e-9),
        biases=dict(MAZUR_BIASES),
        fixture="mazur-2-2-2-engine-first-run",
        source="src/bin/bp.ts scaffold topology --topology mazur (synthesized from MAZUR_INPUT + MAZUR_TOPOLOGY; "
        "library MAZUR_GENERAL_INPUT export not yet available)",
        url=MAZUR_URL,
    )


def xor() -> dict[str, Any]:
    """XOR in a 2-2-1 network."""
    return _input(
        dense_topology(["x1", "x2"], ["h1", "h2"], ["y"], _edge),
        [0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.10, 0.20],
        rate=0.5,
        inputs=[1, 0],
        targets=[1],
        policy=numeric_policy({"atol": 1e-12, "rtol": 1e-8}),
        biases=dict(_XOR_BIASES),
        fixture="xor-sigmoid-engine-first-run",
        source="src/mazur.ts XOR_INPUT (XOR-sigmoid 2-2-1 engine first-run)",
        url="https://www.deeplearningbook.org/contents/mlp.html",
    )


def iris() -> dict[str, Any]:
    """The first flower of Fisher's irises in a 4-3-3 network."""
    weights = [round(0.10 + 0.05 * k, 2) for k in range(21)]
    return _input(
        dense_topology(
            ["f1", "f2", "f3", "f4"], ["h1", "h2", "h3"], ["o_setosa", "o_versicolor", "o_virginica"], _edge
        ),
        [*weights, 0.10, 0.20],
        rate=0.1,
        inputs=[5.1, 3.5, 1.4, 0.2],
        targets=[1, 0, 0],
        policy=numeric_policy({"atol": 1e-12, "rtol": 1e-8}),
        biases=dict(_XOR_BIASES),
        fixture="iris-sigmoid-engine-first-run",
        source="src/mazur.ts IRIS_INPUT (iris 4-3-3-sigmoid engine first-run, first flower of Fisher's iris dataset)",
        url="https://archive.ics.uci.edu/ml/datasets/iris",
    )


BUILTIN: dict[str, Callable[[], dict[str, Any]]] = {"mazur": mazur, "xor": xor, "iris": iris}

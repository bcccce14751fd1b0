"""A receipt from an input: the engine runs, and every factor that it met is written under its name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from backproof.engine.scalar import Optimizer, Step, Wiring, run_batch, run_step
from backproof.engine.scalar_domain import FLOATS
from backproof.errors import InputError
from backproof.receipt.authoring.builtin import MAZUR_URL, mazur, numeric_policy
from backproof.receipt.authoring.checks import (
    MOST_SAMPLES,
    STATE_KEYS,
    check_input,
    check_numbers,
    check_optimizer,
)
from backproof.receipt.topology import EDGE_OF_ROLE, LOSSLESS, Parameter, Topology
from backproof.receipt.topology_reading import topology_of

DEFAULT_FIXTURE = "general-engine-first-run"
DEFAULT_SOURCE = "src/general-engine.ts (generalized backprop engine first-run)"
CONVENTION = "descent_direction"


def author_step(
    given: Mapping[str, Any],
    *,
    optimizer_config: Mapping[str, Any] | None = None,
    state_before: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """The receipt of one step on one sample; its numbers are full doubles until they are emitted."""
    topology, wiring, names = _prepared(given, optimizer_config, state_before)
    with np.errstate(all="ignore"):  # what diverges is refused where it is written
        step = run_step(
            FLOATS,
            wiring,
            _row(given["parameters_before"], topology.parameter_order),
            _row(given["inputs"], topology.inputs),
            _row(given["targets"], topology.outputs),
            optimizer_of(optimizer_config, given["learning_rate"]),
            _state(optimizer_config, state_before, names),
        )
    return _document(given, topology, wiring, step, optimizer_config, state_before, batch=None)


def author_batch(
    given: Mapping[str, Any],
    batch: Mapping[str, Any],
    per_sample: Mapping[str, Mapping[str, Any]],
    *,
    optimizer_config: Mapping[str, Any] | None = None,
    state_before: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """The receipt of one step on a batch; the top-level inputs, forward and backward are the first sample's."""
    order = list(batch.get("sample_order", ()))
    check_batch(batch, order, per_sample)
    first = {**given, "inputs": per_sample[order[0]]["inputs"], "targets": per_sample[order[0]]["targets"]}
    topology, wiring, names = _prepared(first, optimizer_config, state_before)
    for sample in order:
        check_numbers({**first, **per_sample[sample]}, topology)
    rows = [_row(per_sample[sample]["inputs"], topology.inputs) for sample in order]
    goals = [_row(per_sample[sample]["targets"], topology.outputs) for sample in order]
    with np.errstate(all="ignore"):
        step = run_batch(
            FLOATS,
            wiring,
            _row(given["parameters_before"], topology.parameter_order),
            np.stack(rows, axis=1),
            np.stack(goals, axis=1),
            optimizer_of(optimizer_config, given["learning_rate"]),
            _state(optimizer_config, state_before, names),
            mean=batch["reduction"] == "mean",
        )
    document = _document(first, topology, wiring, step, optimizer_config, state_before, batch=batch)
    if "fixture" not in given:
        document["fixture"] = f"batched-{len(order)}-sample-step"
    document["per_sample"] = _samples(per_sample, order, topology, step)
    return document


def check_batch(batch: Mapping[str, Any], order: list[str], per_sample: Mapping[str, Any]) -> None:
    """A batch names each of its samples once, and has each of them."""
    size = batch.get("size")
    if not isinstance(size, int) or not 1 <= size <= MOST_SAMPLES or size != len(order):
        raise InputError(f"batch.size: {size!r} is not the number of samples ({len(order)}), 1 to {MOST_SAMPLES}")
    if len(set(order)) != len(order):
        raise InputError("batch.sample_order: names a sample twice")
    if set(order) != set(per_sample):
        raise InputError("per_sample: its keys are not the samples of batch.sample_order")
    if batch.get("reduction") not in {"mean", "sum", "none"} or (batch["reduction"] == "none" and size != 1):
        raise InputError(f"batch.reduction: {batch.get('reduction')!r} does not reduce {size} samples")


def author_mazur() -> dict[str, Any]:
    """The receipt 0.1.0 of Mazur's published step."""
    given = mazur()
    document = author_step({**given, "fixture": "mazur-engine-first-run"})
    for key, role in (("i", "input"), ("h", "hidden"), ("o", "output")):
        for update in document["updates"]:
            update["parameter_role"] = _spelled(update["parameter_role"], key, role)
    topology = given["topology"]
    return {
        **document,
        "schema_version": "0.1.0",
        "metadata": {
            "source": "src/engine.ts (Mazur 2-2-2 engine first-run)",
            "url_reference": MAZUR_URL,
            "gradient_convention": CONVENTION,
        },
        "topology": {
            **{key: topology[key] for key in ("layers", "input_size", "hidden_size", "output_size")},
            "activation": "sigmoid",
            "loss": "half_squared_error",
            "bias_sharing": "per_layer",
        },
    }


def optimizer_of(config: Mapping[str, Any] | None, rate: float) -> Optimizer:
    """The engine's optimizer from the settings of a receipt."""
    config = config or {}
    numbers = ("weight_decay", "momentum", "dampening", "beta1", "beta2", "epsilon", "t")
    settings = {key: float(config[key]) for key in numbers if key in config}
    return Optimizer(
        name=config.get("name", "sgd"),
        learning_rate=float(rate),
        nesterov=config.get("nesterov", False) is True,
        **settings,
    )


def schema_version(topology: Topology, config: Mapping[str, Any] | None, *, base: str = "0.2.0") -> str:
    """The lowest version that can say this step."""
    config = config or {}
    name = config.get("name", "sgd")
    if topology.is_layered:
        return LOSSLESS
    if name in {"sgd", "sgd_momentum"} and config.get("weight_decay", 0) != 0:
        return "0.8.0"
    if name == "sgd_momentum":
        return "0.7.0" if config.get("nesterov") is True or config.get("dampening", 0) != 0 else "0.6.0"
    if name in {"adam", "adamw"}:
        return "0.5.0"
    softmax = topology.activation_output == "softmax" or topology.loss == "cross_entropy_softmax"
    return max(base, "0.3.0") if softmax else base


def _prepared(
    given: Mapping[str, Any], config: Mapping[str, Any] | None, state: Mapping[str, Any] | None
) -> tuple[Topology, Wiring, list[str]]:
    topology = topology_of(given)
    check_input(given, topology)
    wiring = topology.wiring(updates_biases=given["bias_policy"]["mode"] == "sgd")
    names = [topology.parameter_order[i] for i in wiring.updated]
    check_optimizer(config, given["learning_rate"], state, names)
    return topology, wiring, names


def _row(held: Mapping[str, float], names: tuple[str, ...]) -> Any:
    return np.array([[float(held[name]) for name in names]])


def _state(config: Mapping[str, Any] | None, before: Mapping[str, Any] | None, names: list[str]) -> dict[str, Any]:
    keys = STATE_KEYS[(config or {}).get("name", "sgd")]
    return {key: np.array([[float((before or {})[name][key]) for name in names]]) for key in keys}


def _document(
    given: Mapping[str, Any],
    topology: Topology,
    wiring: Wiring,
    step: Step,
    config: Mapping[str, Any] | None,
    state_before: Mapping[str, Any] | None,
    batch: Mapping[str, Any] | None,
) -> dict[str, Any]:
    index = given.get("step_index")
    reduced = step.reduced or step.forward
    version = schema_version(topology, config)
    if batch is not None:
        version = max(version, "0.4.0")  # the first version that has batches
    return {
        "schema_version": version,
        "fixture": given.get("fixture", DEFAULT_FIXTURE),
        "step": (index or 0) + 1,
        "fixture_status": {
            "authoring_state": "engine_generated",
            "verification_state": "engine_reproduced_byte_equal",
            "canonical": True,
        },
        "metadata": dict(given.get("metadata") or {"source": DEFAULT_SOURCE, "gradient_convention": CONVENTION}),
        "numeric_policy": _policy(given["numeric_policy"]),
        "bias_policy": dict(given["bias_policy"]),
        "topology": dict(given["topology"]),
        "learning_rate": given["learning_rate"],
        **_config(config),
        **({"trace_id": given["trace_id"]} if "trace_id" in given else {}),
        **({"step_index": index} if index is not None else {}),
        **({"batch": dict(batch)} if batch is not None else {}),
        "inputs": dict(given["inputs"]),
        "targets": dict(given["targets"]),
        "parameters_before": dict(given["parameters_before"]),
        "forward": _forward(topology, step.forward.layers, 0),
        "loss": {
            "per_output": _named(topology.outputs, reduced.per_output[0]),
            **_sample_losses(step, batch),
            "total": float(reduced.total[0]),
        },
        "backward": {
            "output_error_signals": _output_signals(topology, given, step),
            "hidden_error_signals": _hidden_signals(topology, given, step),
        },
        "updates": _updates(topology, wiring, given, step, config, state_before, batch),
        "parameters_after": _named(topology.parameter_order, step.parameters_after[0]),
        "post_update_forward": {"status": "filled", **_forward(topology, step.post.layers, 0)},
        "post_update_loss": {
            "status": "filled",
            "per_output": _named(topology.outputs, step.post.per_output[0]),
            "total": float(step.post.total[0]),
        },
    }


def _policy(said: Mapping[str, Any]) -> dict[str, Any]:
    """The policy given, with what it leaves unsaid."""
    return {**numeric_policy(said["tolerance"]), **said} if "tolerance" in said else dict(said)


def _config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings as the format writes them: plain SGD has none, zeros and false are left out."""
    if not config or (config["name"] == "sgd" and not config.get("weight_decay")):
        return {}
    kept = {"name": config["name"], "learning_rate": config["learning_rate"]}
    for key in ("beta1", "beta2", "epsilon", "weight_decay", "t", "momentum", "nesterov", "dampening"):
        if key in config and (config[key] or (key == "weight_decay" and config["name"] == "adamw")):
            kept[key] = config[key]
    return {"optimizer_config": kept}


def _named(names: tuple[str, ...], values: Any) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _forward(topology: Topology, layers: Any, at: Any) -> dict[str, Any]:
    return {
        unit: {"net": float(layer.net[at][i]), "out": float(layer.out[at][i])}
        for name, layer in zip(topology.layers[1:], layers, strict=True)
        for i, unit in enumerate(topology.units[name])
    }


def _sample_losses(step: Step, batch: Mapping[str, Any] | None) -> dict[str, Any]:
    if batch is None or step.samples is None:
        return {}
    totals = _named(tuple(batch["sample_order"]), step.samples.total[0])
    return {"per_sample": totals, "reduction": batch["reduction"]}


def _samples(per_sample: Mapping[str, Any], order: list[str], topology: Topology, step: Step) -> dict[str, Any]:
    if step.samples is None:
        return {}
    return {
        sample: {
            "inputs": dict(per_sample[sample]["inputs"]),
            "targets": dict(per_sample[sample]["targets"]),
            "forward": _forward(topology, step.samples.layers, (0, s)),
            "loss": {
                "per_output": _named(topology.outputs, step.samples.per_output[0, s]),
                "total": float(step.samples.total[0, s]),
            },
        }
        for s, sample in enumerate(order)
    }


def _output_signals(topology: Topology, given: Mapping[str, Any], step: Step) -> dict[str, Any]:
    outputs = topology.outputs
    softmax = topology.loss == "cross_entropy_softmax"
    names = ("target_minus_probability",) if softmax else ("target_minus_output", "activation_derivative")
    signals: dict[str, Any] = {}
    for u, unit in enumerate(outputs):
        factors = [
            {"name": name, "value": float(factor[0, u])}
            for name, factor in zip(names, step.backward.output_factors, strict=True)
        ]
        signals[unit] = {
            "factors": factors,
            "product_order": "left_to_right",
            "signal_value": float(step.backward.signals[-1][0, u]),
        }
        if softmax:
            p = float(step.forward.layers[-1].out[0, u])
            signals[unit]["dual_form"] = _dual_form(outputs, given["targets"], u, p)
    return signals


def _dual_form(outputs: tuple[str, ...], targets: Mapping[str, float], u: int, p: float) -> dict[str, Any]:
    """Σⱼ yⱼ(δⱼᵤ − pᵤ), term by term."""
    terms = []
    summed: float | None = None
    for j, unit in enumerate(outputs):
        y, delta = float(targets[unit]), (1.0 if j == u else 0.0) - p
        term = y * delta
        summed = term if summed is None else summed + term
        terms.append(
            {
                "target_unit": unit,
                "factors": [
                    {"name": "y_j", "from": f"targets.{unit}", "value": y},
                    {"name": "delta_ju_minus_p_u", "value": delta},
                ],
                "term_value": term,
            }
        )
    return {
        "jacobian_terms": terms,
        "product_order": "left_to_right",
        "summation_order": list(outputs),
        "summed_value": summed,
    }


def _hidden_signals(topology: Topology, given: Mapping[str, Any], step: Step) -> dict[str, Any]:
    back = step.backward
    signals = {}
    for k, (layer, next_layer) in enumerate(pairwise(topology.layers[1:])):
        above = topology.units[next_layer]
        for h, unit in enumerate(topology.units[layer]):
            signals[unit] = {
                "downstream_contributions": _contributions(topology, given, back, k, h, unit, above),
                "summation_order": list(above),
                "backpropagated_sum": float(back.sums[k][0, h]),
                "activation_derivative": float(back.derivatives[k][0, h]),
                "product_order": "left_to_right",
                "signal_value": float(back.signals[k][0, h]),
            }
    return signals


def _contributions(
    topology: Topology, given: Mapping[str, Any], back: Any, k: int, h: int, unit: str, above: tuple[str, ...]
) -> list[dict[str, Any]]:
    """What flows into the h-th unit of the k-th hidden layer."""
    contributions = []
    for o, name in enumerate(above):
        weight = topology.edges[unit, name]
        contributions.append(
            {
                "from": name,
                "downstream_signal": float(back.signals[k + 1][0, o]),
                "via_weight": weight,
                "weight_value": given["parameters_before"][weight],
                "value": float(back.contributions[k][0, h, o]),
            }
        )
    return contributions


def _updates(
    topology: Topology,
    wiring: Wiring,
    given: Mapping[str, Any],
    step: Step,
    config: Mapping[str, Any] | None,
    state_before: Mapping[str, Any] | None,
    batch: Mapping[str, Any] | None,
) -> list[dict[str, Any]]:
    name = (config or {}).get("name", "sgd")
    updates = []
    for k, position in enumerate(wiring.updated):
        parameter = topology.by_id[topology.parameter_order[position]]
        labels = update_labels(parameter, topology)
        gradient = float(step.gradient[0, k])
        factors = (
            _factors(topology, given, step, parameter)
            if batch is None
            else [{"name": "batch_reduced_gradient", "value": gradient}]
        )
        states = {}
        if STATE_KEYS[name]:
            after = {key: float(step.state_after[key][0, k]) for key in STATE_KEYS[name]}
            states = {"state_before": dict((state_before or {})[parameter.id]), "state_after": after}
        updates.append(
            {
                "parameter_id": parameter.id,
                **labels,
                "weight_before": given["parameters_before"][parameter.id],
                "optimizer": {
                    "name": name,
                    "learning_rate": given["learning_rate"],
                    "factors": factors,
                    "product_order": "left_to_right",
                    **states,
                },
                "gradient": gradient,
                "update": float(step.update[0, k]),
                "weight_after": float(step.parameters_after[0, position]),
            }
        )
    return updates


def update_labels(parameter: Parameter, topology: Topology) -> dict[str, str]:
    """Kind, edge, role and units of a parameter's update, as the engine writes them."""
    if parameter.is_bias:
        unit = parameter.applies_to[0]
        return {
            "kind": "bias",
            "layer_edge": "bias_to_layer",
            "parameter_role": parameter.role,
            "from_unit": unit,
            "to_unit": unit,
        }
    return {
        "kind": "weight",
        "layer_edge": EDGE_OF_ROLE.get(parameter.role) or _edge(parameter, topology),
        "parameter_role": f"{parameter.from_unit}_to_{parameter.to_unit}",
        "from_unit": parameter.from_unit,
        "to_unit": parameter.to_unit,
    }


def _edge(parameter: Parameter, topology: Topology) -> str:
    return "_to_".join(topology.layer_of.get(unit, "") for unit in (parameter.from_unit, parameter.to_unit))


def sources_of(parameter: Parameter, topology: Topology) -> list[tuple[str, str]]:
    """The factors of a gradient, and where each is read from."""
    unit = (parameter.applies_to or ("",))[0] if parameter.is_bias else parameter.to_unit
    side = "output" if unit in topology.outputs else "hidden"
    signal = (f"{side}_error_signal", f"backward.{side}_error_signals.{unit}.signal_value")
    if parameter.is_bias:
        return [signal]
    below = parameter.from_unit
    return [signal, ("upstream_activation", f"inputs.{below}" if below in topology.inputs else f"forward.{below}.out")]


def _factors(topology: Topology, given: Mapping[str, Any], step: Step, parameter: Parameter) -> list[dict[str, Any]]:
    unit = parameter.applies_to[0] if parameter.is_bias else parameter.to_unit
    layer = topology.layers.index(topology.layer_of[unit])
    values = [float(step.backward.signals[layer - 1][0, topology.units[topology.layers[layer]].index(unit)])]
    if not parameter.is_bias:
        below = topology.units[topology.layers[layer - 1]].index(parameter.from_unit)
        held = step.forward.layers[layer - 2].out[0, below] if layer > 1 else given["inputs"][parameter.from_unit]
        values.append(float(held))
    sources = sources_of(parameter, topology)
    return [{"name": n, "from": p, "value": v} for (n, p), v in zip(sources, values, strict=True)]


def _spelled(role: str, key: str, layer: str) -> str:
    """`i1_to_h2` as Mazur's receipt spells it: `input_1_to_hidden_2`."""
    words = [f"{layer}_{word[1:]}" if word[0] == key and word[1:].isdigit() else word for word in role.split("_to_")]
    return "_to_".join(words)

"""Honest receipts of every kind: random networks, losses, optimizers, batches and runs, authored by the engine."""

from __future__ import annotations

import json
import random

from backproof.errors import InputError
from backproof.receipt import emit
from backproof.receipt.authoring import as_lossless, author_batch, author_step
from backproof.receipt.authoring.builtin import numeric_policy
from backproof.receipt.document import as_receipt

POLICY = numeric_policy({"atol": 1e-12, "rtol": 1e-8})
SETTINGS = {
    "sgd": lambda r: {"weight_decay": r.choice([0.01, 0.5])},
    "sgd_momentum": lambda r: r.choice(
        [
            {"momentum": 0.9},
            {"momentum": 0.5, "dampening": 0.25},
            {"momentum": 0.9, "nesterov": True},
            {"momentum": 0.9, "weight_decay": 0.01},
        ]
    ),
    "adam": lambda r: {"beta1": 0.9, "beta2": r.choice([0.999, 0.99]), "epsilon": 1e-8, "t": 1},
    "adamw": lambda r: {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "t": 1, "weight_decay": 0.01},
}
STATE = {"sgd_momentum": {"buffer": 0.0}, "adam": {"m": 0.0, "v": 0.0}, "adamw": {"m": 0.0, "v": 0.0}}


def network(r, inputs, hidden, outputs, *, activation, output, loss, per_neuron):
    """A topology with units x, h and y (o for softmax)."""
    letter = "o" if output == "softmax" else "y"
    units = {
        "input": [f"x{i + 1}" for i in range(inputs)],
        "hidden": [f"h{i + 1}" for i in range(hidden)],
        "output": [f"{letter}{i + 1}" for i in range(outputs)],
    }
    parameters = []
    for role, below, above in (
        ("input_to_hidden_weight", "input", "hidden"),
        ("hidden_to_output_weight", "hidden", "output"),
    ):
        parameters += [
            {"id": f"w_{a}_{b}", "role": role, "from_unit": a, "to_unit": b} for b in units[above] for a in units[below]
        ]
    for role, layer in (("hidden_bias", "hidden"), ("output_bias", "output")):
        groups = [[unit] for unit in units[layer]] if per_neuron else [units[layer]]
        parameters += [
            {"id": f"b_{group[0]}" if per_neuron else f"b_{layer}", "role": role, "applies_to_units": group}
            for group in groups
        ]
    if per_neuron:
        r.shuffle(parameters)
    return {
        "layers": ["input", "hidden", "output"],
        "input_size": inputs,
        "hidden_size": hidden,
        "output_size": outputs,
        "unit_order": units,
        "parameter_order": [p["id"] for p in parameters],
        "parameters": parameters,
        "activation_hidden": activation,
        "activation_output": output,
        "loss": loss,
        "bias_sharing": "per_neuron" if per_neuron else "per_layer",
    }


def given(r, topology, *, rate, biases="constant", short=False):
    """Random numbers for a topology; short ones have a few decimals, as people write them."""
    digits = 2 if short else 17

    def number(scale=1.0):
        return round(r.gauss(0, scale), digits) or 0.25

    units = topology["unit_order"]
    targets = [r.random() for _ in units["output"]]
    if topology["loss"] == "cross_entropy_softmax":
        hot = r.randrange(len(targets))
        targets = [float(i == hot) for i in range(len(targets))]
    return {
        "topology": topology,
        "learning_rate": rate,
        "inputs": {u: number() for u in units["input"]},
        "targets": dict(zip(units["output"], targets, strict=True)),
        "parameters_before": {p: number(0.7) for p in topology["parameter_order"]},
        "numeric_policy": POLICY,
        "bias_policy": {"mode": biases, "updated_in_step": biases == "sgd"},
    }


def random_run(seed):
    """The documents of one random honest run, read back from their canonical bytes; None if it overflows.

    Learning rates from 1e-8 to 1e2, parameters and inputs over many magnitudes: saturated units, tiny moments,
    divergence. What nine digits cannot carry is written without loss.
    """
    r = random.Random(seed)
    softmax = r.random() < 0.4
    per_neuron = r.random() < 0.5
    topology = network(
        r,
        r.randint(1, 4),
        r.randint(1, 5),
        r.randint(2 if softmax else 1, 4),
        activation=r.choice(["sigmoid", "identity", "relu"]),
        output="softmax" if softmax else r.choice(["sigmoid", "identity", "relu"]),
        loss="cross_entropy_softmax" if softmax else "half_squared_error",
        per_neuron=per_neuron,
    )
    biases = "sgd" if per_neuron and r.random() < 0.7 else "constant"
    rate = float(f"{10 ** r.uniform(-8, 2):.3g}")
    start = scaled(r, given(r, topology, rate=rate, biases=biases, short=r.random() < 0.3))
    name = r.choice(["none", "sgd", "sgd_momentum", "adam", "adamw"])
    count, size = r.choice([1, 1, 2, 3, 8]), r.randint(1, 4) if name == "none" and r.random() < 0.4 else 0
    for written in (start, as_lossless(start))[r.random() < 0.3 :]:
        try:
            documents = [batch_of(r, written, size)] if size else steps(written, name, r, count)
            return [read_back(document) for document in documents]
        except InputError:
            continue
    return None


def scaled(r, start):
    """The same start with parameters and inputs of another magnitude, and sometimes an input of 0 and soft targets."""
    for key, low, high in (("parameters_before", -4, 2.2), ("inputs", -4, 2)):
        scale = 10 ** r.uniform(low, high) if r.random() < 0.5 else 1.0
        start[key] = {name: value * scale for name, value in start[key].items()}
    if r.random() < 0.2:
        start["inputs"][r.choice(list(start["inputs"]))] = 0.0
    if start["topology"]["loss"] == "cross_entropy_softmax" and r.random() < 0.3:
        shares = [r.random() for _ in start["targets"]]
        start["targets"] = {name: share / sum(shares) for name, share in zip(start["targets"], shares, strict=True)}
    return start


def steps(start, name, r, count):
    """A run of some steps with one optimizer."""
    config = None if name == "none" else {"name": name, "learning_rate": start["learning_rate"], **SETTINGS[name](r)}
    updated = [
        p["id"] for p in start["topology"]["parameters"] if "from_unit" in p or start["bias_policy"]["mode"] == "sgd"
    ]
    state = {p: dict(STATE[name]) for p in updated} if name in STATE else None
    documents, now = [], dict(start)
    for index in range(count):
        if count > 1:
            now |= {"trace_id": "ab" * 16, "step_index": index}
        if config is not None and "t" in config:
            config = {**config, "t": index + 1}
        document = author_step(now, optimizer_config=config, state_before=state)
        documents.append(document)
        now = {**now, "parameters_before": document["parameters_after"]}
        if state is not None:
            state = {u["parameter_id"]: u["optimizer"]["state_after"] for u in document["updates"]}
    return documents


def batch_of(r, start, size, reduction=None):
    """A batched step."""
    samples = {}
    for s in range(size):
        other = given(r, start["topology"], rate=1.0)
        samples[f"s{s}"] = {"inputs": other["inputs"], "targets": other["targets"]}
    reduction = reduction or r.choice(["mean", "sum"])
    batch = {"size": size, "sample_order": list(samples), "reduction": reduction}
    return author_batch(start, batch, samples)


def read_back(document):
    """A document as anyone reads it from its canonical bytes."""
    return json.loads(emit(document))


def receipts(documents):
    """Documents as receipts."""
    return [as_receipt(document) for document in documents]

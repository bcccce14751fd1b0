"""Receipts 1.0.0: any depth, any activation, batches with every optimizer, every digit."""

from __future__ import annotations

import copy
import json
import random
from itertools import pairwise

import numpy as np
import pytest
from honest import SETTINGS, STATE, receipts
from mutate import every_change

from backproof.engine.scalar_activations import SMOOTH
from backproof.receipt import emit, receipt_deviations
from backproof.receipt.authoring import BUILTIN, as_lossless, author_input
from backproof.receipt.authoring.lossless import POLICY
from backproof.receipt.columns import written
from backproof.verify import verify_receipts

ACTIVATIONS = ("sigmoid", "identity", "relu", *SMOOTH)


def deep_input(seed, *, batch=False, name="none", activations=None):
    """A random network of one to four layers above the inputs, with its step's settings."""
    r = random.Random(seed)
    sizes = [r.randint(1, 3) for _ in range(r.randint(2, 5))]
    if activations is not None:
        sizes = [2, 3, 2, 2][: len(activations) + 1]
    softmax = r.random() < 0.5 and activations is None and sizes[-1] > 1
    layers = ["in", *(f"l{k}" for k in range(1, len(sizes)))]
    units = {layer: [f"{layer}_{i}" for i in range(size)] for layer, size in zip(layers, sizes, strict=True)}
    parameters = []
    for below, above in pairwise(layers):
        parameters += [
            {"id": f"w_{a}_{b}", "role": "weight", "from_unit": a, "to_unit": b}
            for a in units[below]
            for b in units[above]
        ]
        parameters += [{"id": f"b_{u}", "role": "bias", "applies_to_units": [u]} for u in units[above]]
    chosen = activations or [r.choice(ACTIVATIONS) for _ in layers[1:]]
    if softmax:
        chosen[-1] = "softmax"
    rate = 0.05

    def sample():
        targets = [r.random() for _ in units[layers[-1]]]
        if softmax:
            targets = [float(i == 0) for i in range(len(targets))]
        return {
            "inputs": {u: r.gauss(0, 1) for u in units["in"]},
            "targets": dict(zip(units[layers[-1]], targets, strict=True)),
        }

    given = {
        "numeric_policy": dict(POLICY),
        "bias_policy": {"mode": "sgd", "updated_in_step": True},
        "topology": {
            "layers": layers,
            "unit_order": units,
            "parameter_order": [p["id"] for p in parameters],
            "parameters": parameters,
            "activations": dict(zip(layers[1:], chosen, strict=True)),
            "loss": "cross_entropy_softmax" if softmax else "half_squared_error",
            "bias_sharing": "per_neuron",
        },
        "learning_rate": rate,
        "parameters_before": {p["id"]: r.gauss(0, 0.8) for p in parameters},
    }
    if name != "none":
        given["optimizer_config"] = {"name": name, "learning_rate": rate, **SETTINGS[name](r)}
        if name in STATE:
            given["optimizer_state_before"] = {p["id"]: dict(STATE[name]) for p in parameters}
    if batch:
        given["batch"] = {"size": 3, "sample_order": ["a", "b", "c"], "reduction": r.choice(["mean", "sum"])}
        given["per_sample"] = {s: sample() for s in "abc"}
        return given
    return {**given, **sample()}


def authored(given):
    return json.loads(emit(author_input(given)))


@pytest.mark.parametrize("batch", [False, True], ids=["one sample", "batch"])
@pytest.mark.parametrize("name", ["none", *SETTINGS])
def test_honest_steps_of_any_depth_and_activation_hold(name, batch):
    for seed in range(6):
        document = authored(deep_input(seed, name=name, batch=batch))

        assert receipt_deviations(document) == []
        verdict = verify_receipts(receipts([document]), bundle=False)
        assert [(f.rule, f.path, f.said, f.found, f.bound) for f in verdict.findings] == [], seed
        assert verdict.holds


def test_every_change_of_a_deep_receipt_is_rejected_or_listed_as_unchecked():
    document = authored(deep_input(4, name="sgd", activations=["tanh", "gelu", "sigmoid"]))
    before = verify_receipts(receipts([document]), bundle=False)
    unchecked = {entry.path for entry in before.unchecked}
    optional = {"metadata.source", "metadata.gradient_convention"}
    escaped = []

    for i, (kind, path, changed) in enumerate(every_change(document)):
        place = written(path)
        if (
            i % 3
            or (kind not in {"drop", "add", "repeat"} and place in unchecked)
            or (kind == "drop" and place in optional)
        ):
            continue
        if verify_receipts(receipts([changed]), bundle=False).holds:
            escaped.append((kind, place))

    assert escaped == []


def test_a_change_in_the_last_digits_is_seen():
    document = authored(as_lossless(BUILTIN["iris"]()))
    for path in (
        ("updates", 0, "gradient"),
        ("forward", "h1", "net"),
        ("loss", "total"),
        ("parameters_after", "w_f1_h1"),
    ):
        changed = copy.deepcopy(document)
        held = changed
        for key in path[:-1]:
            held = held[key]
        held[path[-1]] *= 1.0 + 1e-13

        assert not verify_receipts(receipts([changed]), bundle=False).holds, path


@pytest.mark.parametrize("scale", [1e-9, 1.0, 60.0])
def test_saturated_and_tiny_values_are_carried(scale):
    given = deep_input(3, activations=["sigmoid", "sigmoid", "sigmoid"])
    given["parameters_before"] = {k: v * scale for k, v in given["parameters_before"].items()}

    document = authored(given)

    assert verify_receipts(receipts([document]), bundle=False).holds


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e5])
def test_the_loss_of_a_saturated_softmax_is_judged_from_its_net_inputs(scale):
    given = deep_input(2, activations=["tanh", "softmax"])
    given["topology"]["loss"] = "cross_entropy_softmax"
    given["parameters_before"] = {k: v * scale for k, v in given["parameters_before"].items()}
    for hot in given["targets"]:
        given["targets"] = {unit: float(unit == hot) for unit in given["targets"]}
        document = authored(given)

        assert verify_receipts(receipts([document]), bundle=False).holds
        if document["loss"]["per_output"][hot] > 1e-12:
            document["loss"]["per_output"][hot] *= 1.0 + 1e-9
            document["loss"]["total"] = document["loss"]["per_output"][hot]
            assert 12 in {f.rule for f in verify_receipts(receipts([document]), bundle=False).findings}


@pytest.mark.parametrize("net", [-800.0, -700.0, -40.0, 40.0, 800.0])
def test_a_saturated_sigmoid_is_judged(net):
    given = deep_input(2, activations=["sigmoid", "sigmoid"])
    given["parameters_before"] = {
        k: (net if k.startswith("b_l1") else v) for k, v in given["parameters_before"].items()
    }
    document = authored(given)
    unit = next(iter(document["topology"]["unit_order"]["l1"]))

    assert verify_receipts(receipts([document]), bundle=False).holds
    document["forward"][unit]["out"] += 1e-9
    assert 27 in {f.rule for f in verify_receipts(receipts([document]), bundle=False).findings}


def test_bytes_are_sorted_and_shortest():
    text = emit(author_input(as_lossless(BUILTIN["xor"]()))).decode()

    assert text.endswith("}\n")
    assert text.index('"backward"') < text.index('"bias_policy"') < text.index('"updates"')
    assert '"learning_rate":0.5,' in text
    assert emit(json.loads(text)).decode() == text


@pytest.mark.parametrize("name", SMOOTH)
def test_an_activation_is_as_steep_and_curved_as_it_says(name):
    smooth = SMOOTH[name]
    x = np.linspace(-12, 12, 200_001)
    step = x[1] - x[0]

    slope = np.diff(smooth.value(x)) / step
    bend = np.diff(smooth.slope(x)) / step

    assert np.max(np.abs(slope)) <= smooth.steep + 1e-9  # the quotients are rounded
    assert np.max(np.abs(bend)) <= smooth.curved + 1e-9
    assert np.allclose(smooth.slope(x[:-1] + step / 2), slope, atol=1e-6)

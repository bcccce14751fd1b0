"""A setting on which no recorded number depends is listed as unchecked, and one that is not listed cannot be changed."""

from __future__ import annotations

import copy
import random

import pytest
from honest import STATE, given, network, read_back, receipts

from backproof.receipt.authoring import author_step
from backproof.verify import verify_receipts

CHANGED = {"t": 7}  # the others by a tenth


def written(name, rate=0.1, buffer=0.0, scale=1.0, **settings):
    """One step of an optimizer; with scale 0 every gradient is 0."""
    r = random.Random(4)
    topology = network(r, 2, 3, 2, activation="relu", output="identity", loss="half_squared_error", per_neuron=False)
    start = given(r, topology, rate=rate, short=True)
    start["inputs"] = dict.fromkeys(start["inputs"], 0.5)
    if scale == 0.0:  # every hidden unit is off
        start["parameters_before"] = {p: -abs(v) for p, v in start["parameters_before"].items()}
        start["targets"] = dict.fromkeys(start["targets"], start["parameters_before"]["b_output"])
    config = {"name": name, "learning_rate": rate, **settings}
    learning = [p["id"] for p in topology["parameters"] if "from_unit" in p]
    state = {p: {**STATE[name], **({"buffer": buffer} if buffer else {})} for p in learning} if name in STATE else None
    return read_back(author_step(start, optimizer_config=None if name == "none" else config, state_before=state))


def listed(document):
    verdict = verify_receipts(receipts([document]), bundle=False)
    assert verdict.holds, verdict.findings
    return {entry.path for entry in verdict.unchecked if "would show" in entry.because}


def consistently(document, key):
    """The receipt with another value of a setting, wherever it stands."""
    document = copy.deepcopy(document)
    held = document if key == "learning_rate" else document["optimizer_config"]
    held[key] = CHANGED.get(key, held[key] * 1.1)
    if key == "learning_rate":
        copies = [document["optimizer_config"]] if "optimizer_config" in document else []
        for entry in [*copies, *(update["optimizer"] for update in document["updates"])]:
            entry["learning_rate"] = held[key]
    return document


ADAM = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "t": 1}
CASES = {
    "sgd": (written("none"), set()),
    "no gradient": (written("none", scale=0.0), {"learning_rate"}),
    "momentum without a buffer": (written("sgd_momentum", momentum=0.9), {"optimizer_config.momentum"}),
    "momentum with one": (written("sgd_momentum", buffer=0.05, momentum=0.9), set()),
    "adam": (written("adam", **ADAM), {"optimizer_config.epsilon"}),
    "adam with a large epsilon": (written("adam", **{**ADAM, "epsilon": 0.01}), set()),
    "decay": (written("adamw", **ADAM, weight_decay=0.01), {"optimizer_config.epsilon"}),
    "decay at a tiny rate": (
        written("adamw", rate=1e-8, **ADAM, weight_decay=0.01),
        {"optimizer_config.epsilon", "optimizer_config.weight_decay"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_settings_that_could_be_others_are_listed(name):
    document, expected = CASES[name]

    assert listed(document) == expected


@pytest.mark.parametrize("name", CASES)
def test_a_setting_that_is_not_listed_cannot_be_changed_and_a_listed_one_can(name):
    document, unchecked = CASES[name]
    settings = {key for key in document.get("optimizer_config", {}) if key != "name"} | {"learning_rate"}

    for key in settings:
        place = key if key == "learning_rate" else f"optimizer_config.{key}"
        changed = verify_receipts(receipts([consistently(document, key)]), bundle=False)
        if key != "epsilon":  # a tenth of it shows, a hundredth does not
            assert changed.holds == (place in unchecked), place

"""A step that was computed wrongly, and written down without a contradiction: every number after the mistake follows from it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from honest import given, network, read_back, receipts, steps

from backproof.engine import scalar
from backproof.verify import verify_receipts

HONEST = {name: getattr(scalar, name) for name in ("apply_optimizer", "gradients", "derivative", "_apply")}


def updates(change):
    """An optimizer whose updates are changed before they are added."""

    def apply(domain, optimizer, weight, gradient, state):
        update, after, states = HONEST["apply_optimizer"](domain, optimizer, weight, gradient, state)
        changed = change(update)
        return changed, after - update + changed, states

    return {"apply_optimizer": apply}


def gradients(change):
    """Gradients that are changed before the optimizer sees them."""
    return {"gradients": lambda *given: change(HONEST["gradients"](*given))}


def without(**settings):
    """An optimizer that leaves out what a setting says."""

    def apply(domain, optimizer, *given):
        return HONEST["apply_optimizer"](domain, optimizer._replace(**settings), *given)

    return {"apply_optimizer": apply}


def stale(domain, optimizer, weight, gradient, state):
    update, after, states = HONEST["apply_optimizer"](domain, optimizer, weight, gradient, state)
    return update, after, {key: state[key] for key in states}


def old_outcome(domain, wiring, parameters, inputs, targets, *rest):
    step = HONEST["_apply"](domain, wiring, parameters, inputs, targets, *rest)
    return step._replace(post=scalar.forward(domain, wiring, parameters, inputs, targets))


ALL = ("none", "sgd", "sgd_momentum", "adam", "adamw")
LIES = {  # what is done wrongly, the rules of which one names it, and the optimizers that have it
    "the updates lose their sign": (updates(np.negative), {5, 21, 24}, ALL),
    "the updates are zero": (updates(np.zeros_like), {5, 21, 24}, ALL),
    "the updates are a little too large": (updates(lambda u: 1.000001 * u), {5, 21, 24}, ALL),
    "the gradients are doubled": (gradients(lambda g: 2.0 * g), {4}, ALL),
    "the gradients are a little too large": (gradients(lambda g: 1.000001 * g), {4}, ALL),
    "the gradients are another parameter's": (gradients(lambda g: g[..., ::-1]), {4}, ALL),
    "the activation's derivative is left out": ({"derivative": lambda _, __, layer: 0.0 * layer.out + 1.0}, {28}, ALL),
    "the state stays as it was": ({"apply_optimizer": stale}, {21, 22}, ("sgd_momentum", "adam", "adamw")),
    "the bias correction is left out": (without(t=np.array([1e9])), {24}, ("adam", "adamw")),
    "the decay is left out": (without(weight_decay=0.0), {5, 6, 14}, ("sgd", "adamw")),
    "the outcome is that of the old parameters": ({"_apply": old_outcome}, {29}, ALL),
}


def run(name, rate, loss="half_squared_error"):
    softmax = loss == "cross_entropy_softmax"
    r = random.Random(3)
    output = "softmax" if softmax else "identity"
    topology = network(r, 3, 3, 2, activation="sigmoid", output=output, loss=loss, per_neuron=False)
    start = given(r, topology, rate=rate, short=True)
    return [read_back(document) for document in steps(start, name, random.Random(5), 2)]


@pytest.mark.parametrize("loss", ["half_squared_error", "cross_entropy_softmax"])
@pytest.mark.parametrize("rate", [0.5, 1e-3])
@pytest.mark.parametrize(("lie", "name"), [(lie, name) for lie, (_, _, names) in LIES.items() for name in names])
def test_a_step_that_is_wrong_from_one_place_on_is_rejected_there(lie, name, rate, loss, monkeypatch):
    change, rules, _ = LIES[lie]
    honest = run(name, rate, loss)
    for place, wrong in change.items():
        monkeypatch.setattr(scalar, place, wrong)
    forged = run(name, rate, loss)
    monkeypatch.undo()

    assert verify_receipts(receipts(honest), bundle=True).holds
    assert forged != honest
    findings = verify_receipts(receipts(forged), bundle=True).findings
    assert rules & {finding.rule for finding in findings}


@pytest.mark.parametrize("lie", ["the updates lose their sign", "the updates are zero", "the gradients are doubled"])
@pytest.mark.parametrize("name", ALL)
def test_even_at_a_tiny_learning_rate(lie, name, monkeypatch):
    test_a_step_that_is_wrong_from_one_place_on_is_rejected_there(lie, name, 1e-6, "half_squared_error", monkeypatch)

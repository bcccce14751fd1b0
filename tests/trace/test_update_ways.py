"""Settings of an optimizer kept in float32, as programs in C and JAX keep them: an honest way to compute, and not a way to hide in."""

import numpy as np
import pytest

from backproof.trace import Event, Manifest, Place, Probe, TraceWriter
from backproof.verify.traces.compare import compare

F = np.float32
SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}
ADAM = {"name": "adam", "lr": 0.001}


def sgd(w, g, state, t, lr=0.05, momentum=0.9, decay=0.01):
    v = g + w * F(decay) if t == 1 else state["momentum_buffer"] * F(momentum) + (g + w * F(decay))
    return w - F(lr) * v, {"momentum_buffer": v}


def adam(w, g, state, t, lr=0.001, beta1=0.9, beta2=0.999):
    b1, b2, one = F(beta1), F(beta2), F(1)
    m = b1 * state.get("exp_avg", 0 * w) + (one - b1) * g
    v = b2 * state.get("exp_avg_sq", 0 * w) + (one - b2) * g * g
    move = F(lr) * (m / (one - b1 ** F(t))) / (np.sqrt(v / (one - b2 ** F(t))) + F(1e-8))
    return w - move, {"exp_avg": m, "exp_avg_sq": v}


def write(folder, told, rule, noise=0.0, **settings):
    """Two steps of one parameter, computed in float32. A tenth of its gradient is nothing but rounding, as a bias's before a norm."""
    rng, other = np.random.default_rng(0), np.random.default_rng(1)
    w, state = rng.standard_normal(4000).astype(F), {}
    writer = TraceWriter(folder, Manifest(batch=1, probes=(Probe("fc", ("input",)),), optimizer=told))
    for t in (1, 2):
        g = rng.standard_normal(4000).astype(F) * F(0.1)
        g[::10] *= F(1e-8)
        g += (noise * other.standard_normal(4000)).astype(F)
        after, new = rule(w, g, state, t, **settings)
        with writer.step(t - 1) as sink:
            seen = {"w_before": {"": w}, "opt_before": state, "grad_raw": {"": g}, "grad_scaled": {"": g}}
            for phase, tensors in {**seen, "opt_after": new, "w_after": {"": after}}.items():
                for name, tensor in tensors.items():
                    sink(Event("fc", phase, parameter=f"weight.{name}" if name else "weight", tensor=tensor))
        w, state = after, new
    return folder


@pytest.mark.parametrize(("told", "rule"), [(SGD, sgd), (ADAM, adam)])
def test_settings_kept_in_float32_are_honest(tmp_path, told, rule):
    found = compare(*[write(tmp_path, told, rule)] * 2)

    assert found.all_findings == []
    local = found.steps[1].seen[Place("fc", "w_after", "weight")].locals[0]
    assert local.verdict != "broken"
    assert ("settings kept in float32" in local.remark) == (rule is adam)


PLANTED = {
    "rate of SGD": (SGD, sgd, {"lr": 0.05 * (1 + 4e-6)}, "fc.w_after.weight", 0),
    "momentum of SGD": (SGD, sgd, {"momentum": 0.9 * (1 + 4e-6)}, "fc.opt_after.weight.momentum_buffer", 1),
    "rate of Adam": (ADAM, adam, {"lr": 0.00101}, "fc.w_after.weight", 0),
    "first beta of Adam": (ADAM, adam, {"beta1": 0.9001}, "fc.opt_after.weight.exp_avg", 0),
    "second beta of Adam": (ADAM, adam, {"beta2": 0.9991}, "fc.opt_after.weight.exp_avg_sq", 0),
}


@pytest.mark.parametrize("name", PLANTED)
def test_another_setting_than_is_told_is_found_where_it_begins(tmp_path, name):
    told, rule, settings, first, step = PLANTED[name]

    found = compare(write(tmp_path / "a", told, rule), write(tmp_path / "b", told, rule, **settings))

    assert (found.first.place.column, found.first.side, found.first.step) == (first, "b", step)
    assert {one.side for one in found.all_findings} == {"b"}


@pytest.mark.parametrize("told", [{}, ADAM])
def test_a_gradient_that_is_rounding_moves_a_parameter_as_far_as_any_and_nobody_is_blamed(tmp_path, told):
    found = compare(write(tmp_path / "a", told, adam), write(tmp_path / "b", told, adam, noise=1e-9))

    assert found.all_findings == []
    assert found.steps[0].seen[Place("fc", "w_after", "weight")].gap.relative > 0.1
    assert found.exit_code(strict=True) == 0


def test_a_rate_is_found_beside_such_a_gradient_as_well(tmp_path):
    found = compare(write(tmp_path / "a", {}, adam), write(tmp_path / "b", {}, adam, noise=1e-9, lr=0.00105))

    assert (found.first.kind, found.first.place.column, found.first.step) == ("differs", "fc.w_after.weight", 0)

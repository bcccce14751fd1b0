"""Two sides that each do what they tell, and tell something else: that is found, also where a default is not spelled out."""

import numpy as np
import pytest

from backproof.trace import Event, Manifest, Probe, TraceWriter
from backproof.verify.traces.compare import compare

LAYER = {"normalized_shape": [48]}


def written(folder, told=LAYER, *, eps=1e-5, last=("relu", {}), optimizer=None, decay=0.0, buffer=None):
    """A layer norm, a relu or what is told in its place, and one update of the norm's weight."""
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 48), (48,)))
    x *= np.float32(0.5)
    b, g = np.zeros(48, np.float32), random.standard_normal(48).astype(np.float32)
    wide = x.astype(np.float64)
    y = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + eps) * w
    y = y.astype(np.float32)
    probes = (
        Probe("ln", ("input",), "layer_norm", told, ("weight", "bias")),
        Probe("act", ("ln",), *last),
        Probe("flat", ("act",), "flatten", {"start_dim": 1}),
    )
    manifest = Manifest(batch=64, probes=probes, optimizer=optimizer or {})
    z = np.where(y > 0, y, np.float32(last[1].get("negative_slope", 0.0)) * y)
    with TraceWriter(folder, manifest).step(0) as sink:
        sink(Event("ln", "w_before", parameter="weight", tensor=w))
        sink(Event("ln", "w_before", parameter="bias", tensor=b))
        if buffer is not None:
            sink(Event("ln", "opt_before", parameter="weight.momentum_buffer", tensor=np.full_like(w, buffer)))
        sink(Event("input", "fwd", tensor=x))
        sink(Event("ln", "fwd", tensor=y))
        sink(Event("act", "fwd", tensor=z))
        sink(Event("flat", "fwd", tensor=z))
        sink(Event("ln", "grad_scaled", parameter="weight", tensor=g))
        after = (w - 0.1 * (g.astype(np.float64) + decay * w)).astype(np.float32)
        sink(Event("ln", "w_after", parameter="weight", tensor=after))
    return folder


def told(found):
    return [(one.kind, str(one.place), one.side, one.by) for one in found.all_findings]


@pytest.mark.parametrize("eps", [1e-3, 1e-6])
@pytest.mark.parametrize("spelled", [{}, {"eps": 1e-5}])
def test_another_epsilon_is_named_where_it_acts(tmp_path, eps, spelled):
    a = written(tmp_path / "a", {**LAYER, **spelled})
    b = written(tmp_path / "b", {**LAYER, "eps": eps}, eps=eps)

    found = compare(a, b)

    assert told(found) == [("told", "ln.fwd", "", "ln")]
    assert f"eps {eps}" in found.first.says
    assert found.exit_code(strict=False) == 1


def test_what_follows_from_it_is_not_put_down_to_rounding(tmp_path):
    found = compare(written(tmp_path / "a"), written(tmp_path / "b", {**LAYER, "eps": 0.1}, eps=0.1))

    states = {str(place): seen.state for place, seen in found.steps[0].seen.items()}
    assert (states["ln.fwd"], states["act.fwd"], states["flat.fwd"]) == ("finding", "follows", "follows")


def test_another_kind_of_layer_is_named(tmp_path):
    leaky = ("leaky_relu", {"negative_slope": 0.01})
    found = compare(written(tmp_path / "a"), written(tmp_path / "b", last=leaky))

    assert told(found) == [("told", "act.fwd", "", "act")]


def test_the_same_mathematics_in_other_words_is_the_same(tmp_path):
    a = written(tmp_path / "a", {"normalized_shape": 48})
    b = written(tmp_path / "b", {"normalized_shape": [48], "eps": 1e-5}, last=("relu", {"inplace": True}))

    assert told(compare(a, b)) == []


@pytest.mark.parametrize("plain", [{"name": "sgd", "lr": 0.1}, {"name": "torch.optim.SGD", "lr": 0.1}])
def test_a_setting_that_one_side_leaves_to_its_default_is_named_at_the_update(tmp_path, plain):
    a = written(tmp_path / "a", optimizer=plain)
    b = written(tmp_path / "b", optimizer={"name": "sgd", "lr": 0.1, "weight_decay": 0.01}, decay=0.01)

    found = compare(a, b)

    assert told(found) == [("told", "ln.w_after.weight", "", "the update of ln.weight")]
    assert "weight_decay 0.01" in found.first.says


def test_a_state_of_zeros_before_the_first_step_is_none(tmp_path):
    fresh, used = compare(written(tmp_path / "a"), written(tmp_path / "b", buffer=0.0)), None
    used = compare(written(tmp_path / "c"), written(tmp_path / "d", buffer=1.0))

    assert told(fresh) == [("fresh", "ln.opt_before.weight.momentum_buffer", "a", "")]
    assert fresh.exit_code(strict=False) == 0
    assert [one.kind for one in used.all_findings] == ["missing"]
    assert used.exit_code(strict=False) == 2

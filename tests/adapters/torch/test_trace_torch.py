"""Traces of PyTorch by hooks: training is the same to the last bit, and every model's trace follows from itself."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from traced_models import MODELS, Shared, loss_of, made

import backproof.torch as bpt
from backproof.errors import InputError, UsageError
from backproof.trace import MemorySink, Place, StatisticsSink, open_trace
from backproof.verify.traces.compare import compare


def step(model, x, y, optimizer):
    optimizer.zero_grad()
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()


def recorded(name, out, *, dtype=torch.float32, steps=2, **given):
    model, x, y, optimizer = made(name, dtype)
    tracer = bpt.trace(model, out, optimizer=optimizer, **given)
    for _ in range(steps):
        with tracer:
            step(model, x, y, optimizer)
    return open_trace(out)


def findings(comparison):
    return [*comparison.findings, *(found for one in comparison.steps for found in one.findings)]


# ── nothing is changed, and everything follows ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("samples", [None, 2])
def test_training_is_the_same_to_the_last_bit(name, samples):
    plain, traced = made(name), made(name)
    torch.manual_seed(1)
    for _ in range(3):
        step(*plain)
    after = torch.random.get_rng_state()

    torch.manual_seed(1)
    tracer = bpt.trace(traced[0], sink=lambda event: None, optimizer=traced[3], samples=samples)
    for _ in range(3):
        with tracer:
            step(*traced)

    assert torch.equal(after, torch.random.get_rng_state())
    for one, other in zip(plain[0].state_dict().values(), traced[0].state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in traced[0].modules())
    assert not any(parameter._post_accumulate_grad_hooks for parameter in traced[0].parameters())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("samples", [None, 2, 100])
def test_every_model_agrees_with_itself_in_float64_and_each_follows_from_its_own_inputs(name, samples, tmp_path):
    recorded(name, tmp_path / "single", samples=samples)
    recorded(name, tmp_path / "double", dtype=torch.float64, samples=samples)

    found = compare(tmp_path / "single", tmp_path / "double")

    assert findings(found) == []
    assert found.exit_code(strict=False) == 0
    assert found.compared > 40


NORMS = {
    "batch": lambda: nn.BatchNorm2d(4),
    "group": lambda: nn.GroupNorm(2, 4),
    "layer": lambda: nn.LayerNorm([4, 6, 6]),
    "batch without parameters": lambda: nn.BatchNorm2d(4, affine=False),
}


def normed(folder, norm):
    """A step of a network with a norm."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    with bpt.trace(model, folder):
        functional.cross_entropy(model(torch.randn(6, 3, 8, 8)), torch.arange(6) % 5).backward()
    return folder


@pytest.mark.parametrize("name", NORMS)
def test_norms_are_derived_and_one_that_computes_otherwise_is_named(name, tmp_path):
    right, other = normed(tmp_path / "right", NORMS[name]()), NORMS[name]()
    other.register_forward_hook(lambda module, args, result: result * 1.0001)
    wrong = normed(tmp_path / "wrong", other)

    honest, found = compare(right, right), compare(right, wrong)

    assert findings(honest) == []
    assert {place.phase for place in honest.steps[0].unchecked["a"]} <= {"w_after"}  # no optimizer is told
    assert (found.first.place.column, found.first.side, found.first.kind) == ("1.fwd", "b", "bug")


def halved(module, args):
    """The gradient of what a module reads, on its way on."""
    args[0].register_hook(lambda g: g / 2)


MISTAKES = {
    "a gradient halved": (lambda m: m.out.register_forward_pre_hook(halved), "layer#2.agrad"),
    "an output doubled": (lambda m: m.out.register_forward_hook(lambda _, x, y: y * 2), "out.fwd"),
    "a weight's gradient lost": (lambda m: m.out.weight.register_hook(lambda g: g * 0), "out.grad_raw.weight"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_one_model_is_blamed_on_it(name, tmp_path):
    recorded("shared", tmp_path / "right", steps=1)
    model, x, y, optimizer = made("shared")
    plant, first = MISTAKES[name]
    plant(model)
    with bpt.trace(model, tmp_path / "wrong", optimizer=optimizer):
        step(model, x, y, optimizer)

    found = findings(compare(tmp_path / "wrong", tmp_path / "right"))[0]

    assert (found.place.column, found.side, found.kind) == (first, "a", "bug")


# ── what is there ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_network_is_told_as_a_graph_with_its_mathematics(tmp_path):
    told = recorded("residual", tmp_path / "t", steps=1).manifest

    assert [(probe.name, probe.parents, probe.kind) for probe in told.probes] == [
        ("c1", ("input",), "conv2d"),
        ("bn", ("c1",), "batch_norm"),
        ("act", ("bn",), "relu"),
        ("c2", ("act",), "conv2d"),
        ("add", ("c2", "act"), "add"),
        ("act#2", ("add",), "relu"),
        ("max_pool2d", ("act#2",), "max_pool2d"),
        ("mean", ("max_pool2d",), "mean"),
        ("head", ("mean",), "linear"),
        ("loss", ("head", "label"), "cross_entropy"),
    ]
    assert told.by_name["c1"].hyper["padding"] == [1, 1]
    assert told.by_name["c1"].parameters == ("weight", "bias")
    assert told.optimizer["name"] == "torch.optim.adam.Adam"
    assert told.optimizer["lr"] == 0.01
    assert (told.batch, told.samples) == (4, None)


def test_several_outputs_are_places_of_their_own(tmp_path):
    trace = recorded("recurrent", tmp_path / "t", steps=1)

    assert {place.probe for place in trace.steps[0].keys.values()} >= {"rnn", "rnn.0", "rnn.1.0", "rnn.1.1"}
    assert {place.parameter for place in trace.steps[0].keys.values() if place.phase == "w_before"} >= {"weight_hh_l0"}


def test_modules_within_modules_have_dotted_names(tmp_path):
    names = [probe.name for probe in recorded("nested", tmp_path / "t", steps=1).manifest.probes]

    assert names[:3] == ["body.0.0", "body.0.1", "body.0.2"]
    assert "tail.a_b" in names


def test_other_inputs_go_by_their_names(tmp_path):
    model, x, y, _ = made("nested")

    with bpt.trace(model, tmp_path / "t"):
        loss_of(model(x, shift=torch.ones(8)), y).backward()

    assert "input.shift" in {place.probe for place in open_trace(tmp_path / "t").steps[0].keys.values()}


def test_samples_are_recorded_one_by_one_with_an_axis_of_one(tmp_path):
    trace = recorded("shared", tmp_path / "t", steps=1, samples=2)

    assert (trace.manifest.batch, trace.manifest.samples) == (5, (0, 1))
    seen = {
        place.sample: trace.steps[0].tensor(place).shape
        for place in trace.steps[0].keys.values()
        if place.probe == "out" and place.phase == "agrad"
    }
    assert seen == {0: (1, 3), 1: (1, 3)}


def test_the_order_chooses_layers_and_what_lies_between_is_not_told(tmp_path):
    told = recorded("shared", tmp_path / "t", steps=1, order=["layer", "tanh", "out", "loss"]).manifest

    assert [(probe.name, probe.parents, probe.kind) for probe in told.probes] == [
        ("layer", ("input",), "linear"),
        ("tanh", ("layer",), ""),
        ("out", ("tanh",), "linear"),
        ("loss", ("out", "label"), "cross_entropy"),
    ]
    with pytest.raises(UsageError, match="there is no layer 'conv'"):
        recorded("shared", tmp_path / "other", steps=1, order=["conv"])


@pytest.mark.parametrize("store", ["npy", "safetensors"])
def test_both_stores_hold_the_same(store, tmp_path):
    trace = recorded("shared", tmp_path / "t", store=store)
    sink = MemorySink()
    model, x, y, optimizer = made("shared")
    with bpt.trace(model, sink=sink, optimizer=optimizer):
        step(model, x, y, optimizer)

    assert sorted(trace.steps[0].keys) == sorted(sink.tensors)
    for place, key in trace.steps[0].places.items():
        assert np.array_equal(trace.steps[0].tensor(place), sink.tensors[key])


def cloned(model, x, y, optimizer):
    """What a recorder that clones everything sees of one step: outputs of layers, their gradients, and parameters'."""
    seen, calls, handles = {}, {}, []

    def look(name, module, args, result):
        calls[name] = calls.get(name, 0) + 1
        place = name if calls[name] == 1 else f"{name}#{calls[name]}"
        seen[f"{place}.fwd"] = result.detach().clone()
        result.register_hook(lambda g: seen.__setitem__(f"{place}.agrad", g.clone()))

    for name, module in model.named_modules():
        if not list(module.children()) and name:
            handles.append(module.register_forward_hook(partial(look, name)))
    for name, p in model.named_parameters():
        probe, _, own = name.rpartition(".")
        seen[f"{probe}.w_before.{own}"] = p.detach().clone()
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    for name, p in model.named_parameters():
        probe, _, own = name.rpartition(".")
        seen[f"{probe}.grad_raw.{own}"] = p.grad.clone()
    optimizer.step()
    [handle.remove() for handle in handles]
    return {key: value.numpy() for key, value in seen.items()}


@pytest.mark.parametrize("store", ["npy", "safetensors"])
@pytest.mark.parametrize("name", ["residual", "shared", "nested"])
def test_what_works_in_place_is_recorded_as_it_was(name, store, tmp_path):
    sink, (model, x, y, optimizer) = MemorySink(), made(name)
    with bpt.trace(model, tmp_path / "t", sink=sink, optimizer=optimizer, store=store):
        step(model, x, y, optimizer)

    step0 = open_trace(tmp_path / "t").steps[0]
    stored = {key: step0.tensor(place) for place, key in step0.places.items()}
    expected = cloned(*made(name))

    assert len(expected) > 12
    assert {key: stored[key].tobytes() for key in expected} == {key: found.tobytes() for key, found in expected.items()}
    assert {key: found.tobytes() for key, found in stored.items()} == {
        key: found.tobytes() for key, found in sink.tensors.items()
    }


@pytest.mark.parametrize("store", ["npy", "safetensors"])
def test_of_a_gradient_that_grows_the_last_counts(store, tmp_path):
    sink, (model, x, y, _) = MemorySink(), made("shared")
    with bpt.trace(model, tmp_path / "t", sink=sink, store=store):
        loss_of(model(x[:2]), y[:2]).backward()
        first = model.out.weight.grad.numpy().copy()
        loss_of(model(x[2:]), y[2:]).backward()

    found = open_trace(tmp_path / "t").steps[0].tensor(Place("out", "grad_raw", "weight"))
    assert np.array_equal(found, model.out.weight.grad.numpy())
    assert not np.array_equal(found, first)
    assert np.array_equal(sink.tensors["out.grad_raw.weight"], found)


def test_events_come_as_things_happen():
    sink = MemorySink()
    model, x, y, optimizer = made("shared")
    with bpt.trace(model, sink=sink, optimizer=optimizer):
        step(model, x, y, optimizer)

    keys = [event.key for event in sink.events]
    forward = [key for key in keys if key.endswith(".fwd")]
    backward = [key for key in keys if key.endswith(("agrad", "lossgrad"))]
    assert forward == [f"{name}.fwd" for name in ("input", "layer", "relu", "layer#2", "tanh", "out", "label", "loss")]
    assert backward[-4:] == [f"{name}.agrad" for name in ("tanh", "layer#2", "relu", "layer")]
    assert keys.index("layer.w_before.weight") < keys.index("input.fwd") < keys.index("layer.grad_raw.weight")
    assert keys.index("layer.grad_scaled.weight") < keys.index("layer.w_after.weight")


def test_bfloat16_is_kept_as_its_bits(tmp_path):
    model, x, y, _ = made("shared", torch.bfloat16)

    with bpt.trace(model, tmp_path / "t"):
        loss_of(model(x), y).backward()

    trace = open_trace(tmp_path / "t")
    place = next(place for place in trace.steps[0].keys.values() if place.probe == "input")
    assert trace.steps[0].dtype(place) == "bfloat16"
    assert np.array_equal(trace.steps[0].tensor(place), x.float().numpy())


# ── scales: stated, never baked in ──────────────────────────────────────────────────────────────────────────────────

LOSSES = {
    "mean": (functional.cross_entropy, 5.0, {}),
    "sum": (lambda z, y: functional.cross_entropy(z, y, reduction="sum"), 1.0, {"grad_scaled": 0.2}),
    "mean of each": (lambda z, y: functional.cross_entropy(z, y, reduction="none").mean(), 5.0, {}),
    "a quarter": (lambda z, y: functional.cross_entropy(z, y) / 4, 20.0, {"grad_scaled": 4.0}),
    "one ignored": (lambda z, y: functional.cross_entropy(z, y.index_fill(0, torch.tensor([1]), -100)), 4.0, {"grad_scaled": 0.8}),
    "weighed": (lambda z, y: functional.cross_entropy(z, y * 0, weight=torch.tensor([2.0, 1.0, 1.0])), 10.0, {"grad_scaled": 2.0}),
    "as a module": (nn.CrossEntropyLoss(), 5.0, {}),
    "of squares": (lambda z, y: functional.mse_loss(z, functional.one_hot(y, 3).float()), 5.0, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_the_scale_of_a_loss_is_seen_and_stated_and_no_number_is_changed(name, tmp_path):
    model, x, y, optimizer = made("shared")
    loss, factor, more = LOSSES[name]
    with bpt.trace(model, tmp_path / "t", optimizer=optimizer):
        loss(model(x), y).backward()
        optimizer.step()

    trace = open_trace(tmp_path / "t")

    expected = dict.fromkeys(("lossgrad", "agrad", "grad_raw"), factor) | more
    assert trace.manifest.scale == pytest.approx(expected)
    assert not trace.manifest.handled
    kept = {place.key: trace.steps[0].tensor(place) for place in trace.steps[0].keys.values()}
    assert np.array_equal(kept["out.grad_raw.weight"], model.out.weight.grad.numpy())
    assert findings(compare(tmp_path / "t", tmp_path / "t")) == []


HANDLED = {
    "clipped": lambda model: nn.utils.clip_grad_norm_(model.parameters(), 1e-3),
    "negated": lambda model: [p.grad.neg_() for p in model.parameters()],
    "behind the back of versions": lambda model: model.out.bias.grad.data.mul_(2),
    "as an array": lambda model: np.negative(model.out.bias.grad.numpy(), out=model.out.bias.grad.numpy()),
    "another tensor": lambda model: setattr(model.out.bias, "grad", model.out.bias.grad * 2),
}
LEFT_ALONE = {
    "not at all": lambda model: None,
    "clipped at what it does not reach": lambda model: nn.utils.clip_grad_norm_(model.parameters(), 1e9),
    "the same in another tensor": lambda model: setattr(model.out.bias, "grad", model.out.bias.grad.clone()),
}


@pytest.mark.parametrize("store", ["npy", "safetensors"])
@pytest.mark.parametrize("name", HANDLED | LEFT_ALONE)
def test_gradients_that_were_handled_are_said_to_be(name, store, tmp_path):
    model, x, y, optimizer = made("shared")
    with bpt.trace(model, tmp_path / "t", optimizer=optimizer, store=store):
        loss_of(model(x), y).backward()
        (HANDLED | LEFT_ALONE)[name](model)
        optimizer.step()

    assert open_trace(tmp_path / "t").manifest.handled == (name in HANDLED)
    assert findings(compare(tmp_path / "t", tmp_path / "t")) == []


def test_of_two_losses_no_scale_is_claimed_and_nothing_is_derived_that_needs_one(tmp_path):
    model, x, y, optimizer = made("shared")
    with bpt.trace(model, tmp_path / "t", optimizer=optimizer):
        z = model(x)
        (functional.cross_entropy(z, y) + functional.mse_loss(z, torch.zeros_like(z), reduction="sum")).backward()
        optimizer.step()

    told = open_trace(tmp_path / "t").manifest
    assert told.scale == {}
    assert "not known" in told.notes["scale"]
    assert told.by_name["loss"].kind == told.by_name["loss#2"].kind == ""
    assert findings(compare(tmp_path / "t", tmp_path / "t")) == []


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_step_that_fails_leaves_nothing_and_the_next_is_recorded(tmp_path):
    model, x, y, optimizer = made("shared")
    tracer = bpt.trace(model, tmp_path / "t", optimizer=optimizer)
    with pytest.raises(ZeroDivisionError), tracer:
        _ = model(x), 1 / 0
    with pytest.raises(RuntimeError), tracer:
        model(x[:, :3])

    with tracer:
        step(model, x, y, optimizer)

    assert [path.name for path in sorted((tmp_path / "t").iterdir())] == ["step000", "trace.json"]
    assert findings(compare(tmp_path / "t", tmp_path / "t")) == []


def test_wrong_use_is_said(tmp_path):
    model, x, y, optimizer = made("shared")
    with pytest.raises(UsageError, match="nothing would be kept"):
        bpt.trace(model)
    with pytest.raises(UsageError, match="samples=-1"):
        bpt.trace(model, tmp_path / "t", samples=-1)
    with pytest.raises(InputError, match="was not called"), bpt.trace(model, tmp_path / "t"):
        pass
    tracer = bpt.trace(model, tmp_path / "t", optimizer=optimizer)
    with pytest.raises(UsageError, match="stepped twice"), tracer:
        [step(model, x, y, optimizer) for _ in range(2)]
    with pytest.raises(UsageError, match="do not overlap"), tracer, tracer:
        pass


def test_frozen_layers_are_recorded_without_gradients(tmp_path):
    model, x, y, optimizer = made("shared")
    model.layer.requires_grad_(requires_grad=False)
    with bpt.trace(model, tmp_path / "t", optimizer=optimizer):
        step(model, x, y, optimizer)

    phases = {place.phase for place in open_trace(tmp_path / "t").steps[0].keys.values() if place.probe == "layer"}
    assert phases == {"fwd", "w_before", "w_after"}
    assert findings(compare(tmp_path / "t", tmp_path / "t")) == []


def test_statistics_alone_can_be_kept():
    sink = StatisticsSink()
    model, x, y, optimizer = made("shared")
    with bpt.trace(model, sink=sink, optimizer=optimizer):
        step(model, x, y, optimizer)

    assert sink.found["out.fwd"].shape == (5, 3)


def test_a_single_module_is_a_model_too(tmp_path):
    model = nn.Linear(3, 2)
    with bpt.trace(model, tmp_path / "t", notes={"seed": 3}):
        functional.mse_loss(model(torch.ones(4, 3)), torch.zeros(4, 2)).backward()

    told = json.loads((tmp_path / "t" / "trace.json").read_text())
    assert [(p["name"], p["kind"]) for p in told["probes"]] == [("model", "linear"), ("loss", "mse_loss")]
    assert told["notes"] == {"seed": 3}
    assert findings(compare(tmp_path / "t", tmp_path / "t")) == []


def test_a_model_of_functions_alone_has_its_parameters():
    sink = MemorySink()
    model = Shared()
    with bpt.trace(model, sink=sink):
        functional.cross_entropy(model(torch.ones(2, 8)), torch.tensor([0, 1])).backward()

    assert {"layer.w_before.weight", "layer.w_after.weight", "layer.grad_raw.bias", "layer.grad_scaled.bias"} <= set(
        sink.tensors
    )


HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "autocast": None}


def half_steps(folder, how, samples, *, wrong=False):
    """Two steps of a small network in halves, or under autocast; `wrong`: a ReLU whose gradient is not masked."""
    torch.manual_seed(0)
    conv = nn.Conv1d(2, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1)
    model = nn.Sequential(
        conv[0], nn.GroupNorm(2, 8), nn.GELU(), nn.MaxPool1d(2), conv[1], nn.ReLU(), nn.Flatten(), nn.LayerNorm(128),
        nn.Linear(128, 32), nn.Tanh(), nn.Linear(32, 5),
    )  # fmt: skip
    x, y = torch.randn(8, 2, 32), torch.randint(0, 5, (8,))
    if HALVES[how] is not None:
        model, x = model.to(HALVES[how]), x.to(HALVES[how])
    if wrong:
        model[5].register_full_backward_hook(lambda module, given, got: (got[0],))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=0.01)
    tracer = bpt.trace(model, folder, optimizer=optimizer, samples=samples)
    for _ in range(2):
        with tracer:
            with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return folder


@pytest.mark.parametrize("samples", [None, 8])
@pytest.mark.parametrize("how", HALVES)
def test_steps_in_halves_and_under_autocast_follow_from_themselves(tmp_path, how, samples):
    folder = half_steps(tmp_path, how, samples)

    found = compare(folder, folder)

    assert [one.says for one in found.all_findings] == []
    assert sum(seen.locals[0] is not None for step in found.steps for seen in step.seen.values()) > 150


@pytest.mark.parametrize("how", HALVES)
def test_a_mistake_in_halves_is_named_on_its_side(tmp_path, how):
    right, wrong = half_steps(tmp_path / "a", how, 8), half_steps(tmp_path / "b", how, 8, wrong=True)

    found = compare(right, wrong)

    assert (found.first.place.column, found.first.side) == ("4.agrad", "b")

"""A session's step as events: in the order in which things happen, the very numbers of the session, and nothing at all without a sink."""

import numpy as np
import pytest

from backproof import Session, trace_grads, trace_weights, traced_grads
from backproof.engine.domain import domain_named
from backproof.errors import SessionError
from backproof.trace import Event, Manifest, MemorySink, SafetensorsSink, StatisticsSink, Tee, TraceWriter, open_trace
from backproof.trace.session import probes_of
from backproof.verify.traces.compare import compare


def network(domain="float64", *, frozen=False):
    """A session with x → fc1 → act → fc2 → loss, its layers and its loss."""
    rng = np.random.default_rng(0)
    s = Session(domain)
    held = {
        name: s.param(rng.standard_normal(shape), name=name)
        for name, shape in (("fc1.weight", (5, 3)), ("fc1.bias", (5,)), ("fc2.weight", (2, 5)))
    }
    if frozen:
        held["fc1.bias"].requires_grad = False
    x, y = s.input(rng.standard_normal((4, 3)), "input"), s.input(rng.standard_normal((4, 2)), "label")
    leaf = {name: s.use(param) for name, param in held.items()}
    layers = {"input": x, "label": y}
    layers["fc1"] = s.linear(x, leaf["fc1.weight"], leaf["fc1.bias"])
    layers["act"] = s.tanh(layers["fc1"])
    layers["fc2"] = s.linear(layers["act"], leaf["fc2.weight"])
    return s, layers, s.mse_loss(layers["fc2"], y), leaf


def events(memory):
    return [f"{event.probe}.{event.phase}" for event in memory.events]


def same_bits(a, b):
    return all(
        (x is None) is (y is None) and (x is None or x.tobytes() == y.tobytes()) for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("domain", ["float64", "float32"])
def test_without_a_sink_and_with_one_the_gradients_are_those_of_the_session_to_the_last_bit(domain):
    s, layers, loss, _ = network(domain)
    plain = s.backward_scalar_dense_all(loss)

    assert same_bits(traced_grads(s, loss), plain)
    assert same_bits(traced_grads(s, loss, None, layers), plain)
    assert same_bits(traced_grads(s, loss, MemorySink(), layers), plain)


def test_without_a_sink_it_is_the_call_that_a_program_without_traces_makes(monkeypatch):
    s, layers, loss, _ = network()
    made = []
    monkeypatch.setattr(Session, "backward_scalar_dense_all", lambda *given: made.append(given) or "the gradients")

    assert traced_grads(s, loss, None, layers) == "the gradients"
    assert made == [(s, loss)]


def test_events_come_in_the_order_in_which_things_happen():
    s, layers, loss, _ = network()
    memory = MemorySink()
    trace_weights(s, memory, "w_before")
    gradients = traced_grads(s, loss, memory, layers)
    trace_grads(s, gradients, memory, "grad_raw")

    assert events(memory) == [
        "fc1.w_before", "fc1.w_before", "fc2.w_before",
        "input.fwd", "label.fwd", "fc1.fwd", "act.fwd", "fc2.fwd", "loss.fwd",
        "loss.lossgrad", "fc2.agrad", "act.agrad", "fc1.agrad", "label.agrad", "input.agrad",
        "fc1.grad_raw", "fc1.grad_raw", "fc2.grad_raw",
    ]  # fmt: skip


def test_the_numbers_are_those_of_the_mathematics():
    s, layers, loss, leaf = network()
    memory = MemorySink()
    gradients = traced_grads(s, loss, memory, layers)
    trace_grads(s, gradients, memory)
    seen = memory.tensors

    dy = (seen["fc2.fwd"] - seen["label.fwd"]) / 4
    assert np.allclose(seen["loss.fwd"], np.mean((seen["fc2.fwd"] - seen["label.fwd"]) ** 2))
    assert np.allclose(seen["loss.lossgrad"], dy)
    assert np.allclose(seen["fc2.agrad"], dy)
    assert np.allclose(seen["act.agrad"], dy @ s.value(leaf["fc2.weight"]))
    assert np.allclose(seen["fc1.agrad"], seen["act.agrad"] * (1 - seen["act.fwd"] ** 2))
    assert np.allclose(seen["fc1.grad_raw.weight"], seen["fc1.agrad"].T @ seen["input.fwd"])


def test_what_is_frozen_is_no_parameter_of_the_trace():
    s, layers, loss, _ = network(frozen=True)
    memory = MemorySink()
    trace_weights(s, memory)
    trace_grads(s, traced_grads(s, loss, memory, layers), memory)

    assert [key for key in memory.tensors if ".w_before." in key or ".grad_raw." in key] == [
        "fc1.w_before.weight", "fc2.w_before.weight", "fc1.grad_raw.weight", "fc2.grad_raw.weight",
    ]  # fmt: skip


def test_parameters_without_a_sink_are_not_even_looked_at():
    trace_weights(None, None)
    trace_grads(None, None, None)


def test_a_graph_of_its_own_is_traced_node_by_node():
    s, _, loss, _ = network()
    graph = s.graph()
    leaves = [s.domain.array(value) for value in s.compile_tape().values[: len(graph.leaves)]]
    memory = MemorySink()

    found = traced_grads(graph, loss, memory, leaves=leaves, domain=domain_named("float64"))

    assert same_bits(found, s.backward_scalar_dense_all(loss))
    assert same_bits(traced_grads(graph, loss, leaves=leaves), found)
    forward = [event for event in memory.events if event.phase == "fwd"]
    assert len(forward) == len(graph.nodes)
    assert [event.index for event in forward] == sorted(event.index for event in forward)


def test_every_sink_at_once_sees_the_same_and_the_folder_follows_from_itself(tmp_path):
    s, layers, loss, _ = network("float32")
    named = {leaf: param.name for leaf, param in s.parameters.items()}
    manifest = Manifest(batch=4, probes=probes_of(s.graph(), layers, loss, named))
    memory, statistics, whole = (
        MemorySink(),
        StatisticsSink(),
        SafetensorsSink(tmp_path / "other" / "step000.safetensors"),
    )
    with TraceWriter(tmp_path / "npy", manifest).step(0) as sink:
        everything = Tee(sink, memory, statistics, whole)
        trace_weights(s, everything)
        trace_grads(s, traced_grads(s, loss, everything, layers), everything)
    whole.close()

    npy, safe = open_trace(tmp_path / "npy"), open_trace(tmp_path / "other")
    for place, key in npy.steps[0].places.items():
        assert npy.steps[0].tensor(place).tobytes() == memory.tensors[key].tobytes()
        assert safe.steps[0].tensor(place).tobytes() == memory.tensors[key].tobytes()
        assert statistics.found[key].largest == memory.tensors[key].max()
    assert npy.steps[0].places.keys() == safe.steps[0].places.keys()
    assert [probe.parents for probe in manifest.probes] == [("input",), ("fc1",), ("act",), ("fc2", "label")]
    assert compare(tmp_path / "npy", tmp_path / "other").exit_code(strict=True) == 0


@pytest.mark.parametrize("loss", [0, 10_000, -1])
def test_a_loss_that_is_none_is_refused(loss):
    s, layers, _, _ = network()
    with pytest.raises(SessionError, match="scalar"):
        traced_grads(s, loss, MemorySink(), layers)


def test_a_layer_that_is_none_is_refused():
    s, layers, loss, _ = network()
    with pytest.raises(SessionError, match="nowhere"):
        traced_grads(s, loss, MemorySink(), {**layers, "nowhere": 10_000})


def test_a_sink_that_fails_fails_the_step_and_leaves_nothing(tmp_path):
    s, layers, loss, _ = network()

    def full(event: Event):
        raise OSError(28, "no space left")

    with pytest.raises(OSError, match="no space"), TraceWriter(tmp_path, Manifest()).step(0) as sink:
        traced_grads(s, loss, Tee(sink, full), layers)
    assert not (tmp_path / "step000").exists()

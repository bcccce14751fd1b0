"""Traces of JAX: every tap's value and gradient in one pass, nothing changed by them, and every trace follows from itself."""

import json

import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402 # after jax is known to be there

import backproof.jax as bpj  # noqa: E402
from backproof.errors import InputError, UsageError  # noqa: E402
from backproof.jax import tap  # noqa: E402
from backproof.trace import MemorySink, Place, open_trace  # noqa: E402
from backproof.verify.traces.compare import compare  # noqa: E402

BATCH = 6


def made(seed=0):
    """Parameters, and one batch."""
    random = np.random.default_rng(seed)
    shapes = {"fc1": {"weight": (5, 3), "bias": (5,)}, "fc2": {"weight": (2, 5), "bias": (2,)}}
    params = {
        n: {k: jnp.asarray(random.standard_normal(v), jnp.float32) for k, v in p.items()} for n, p in shapes.items()
    }
    x, y = (jnp.asarray(random.standard_normal((BATCH, n)), jnp.float32) for n in (3, 2))
    return params, x, y


def linear(p, x):
    return x @ p["weight"].T + p["bias"]


def loss(p, x, y, *, act=jnp.tanh, tap=tap):
    h = tap("fc1", linear(p["fc1"], x), "linear")
    a = tap("act", act(h), "tanh")
    z = tap("fc2", linear(p["fc2"], a), "linear")
    return tap("loss", jnp.mean((z - y) ** 2), "mse_loss")


def plain(p, x, y):
    return loss(p, x, y, tap=lambda name, x, *_: x)


def checked(folder):
    """A trace beside itself: what does not follow, and how many equations were derived."""
    found = compare(folder, folder)
    derived = sum(seen.locals[0] is not None for step in found.steps for seen in step.seen.values())
    return [one.says for one in found.all_findings], derived


@pytest.mark.parametrize("samples", [None, 2, BATCH])
@pytest.mark.parametrize("store", ["npy", "safetensors"])
def test_a_step_follows_from_itself(tmp_path, samples, store):
    params, x, y = made()
    given = {"scale": "mean", "optimizer": optax.sgd(0.1), "settings": {"name": "sgd", "lr": 0.1}}

    bpj.trace(loss, params, x, y, out=tmp_path, samples=samples, store=store, **given)

    findings, derived = checked(tmp_path)
    assert findings == []
    assert derived >= (4 * (samples or 1) + 3)
    told = open_trace(tmp_path).manifest
    assert (told.batch, told.scale) == (BATCH, {"lossgrad": 6.0, "agrad": 6.0, "grad_raw": 6.0})
    assert [(p.name, p.parents, p.kind, p.parameters) for p in told.probes] == [
        ("fc1", ("input",), "linear", ("bias", "weight")),
        ("act", ("fc1",), "tanh", ()),
        ("fc2", ("act",), "linear", ("bias", "weight")),
        ("loss", ("fc2", "label"), "mse_loss", ()),
    ]


@pytest.mark.parametrize("jit", [True, False])
def test_values_and_gradients_are_those_of_jax(jit):
    params, x, y = made()
    memory = MemorySink()

    found = bpj.trace(loss, params, x, y, sink=memory, jit=jit)

    value, grads = jax.value_and_grad(plain)(params, x, y)
    assert np.allclose(found.loss, value)
    jax.tree_util.tree_map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found.grads, grads)
    dz = 2 * (memory.tensors["fc2.fwd"] - np.asarray(y)) / y.size
    np.testing.assert_allclose(memory.tensors["fc2.agrad"], dz, rtol=1e-5)
    np.testing.assert_allclose(memory.tensors["loss.lossgrad"], dz, rtol=1e-5)
    np.testing.assert_allclose(
        memory.tensors["act.agrad"], dz @ np.asarray(params["fc2"]["weight"]), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(memory.tensors["input.agrad"], jax.grad(plain, 1)(params, x, y), rtol=1e-4, atol=1e-6)
    order = [f"{event.probe}.{event.phase}" for event in memory.events if event.phase in ("fwd", "lossgrad", "agrad")]
    assert (
        order
        == "input.fwd label.fwd fc1.fwd act.fwd fc2.fwd loss.fwd loss.lossgrad fc2.agrad act.agrad fc1.agrad input.agrad".split()
    )


def test_a_tap_changes_nothing_of_what_is_computed():
    params, x, y = made()

    tapped, bare = (jax.jit(jax.value_and_grad(fun))(params, x, y) for fun in (loss, plain))

    assert jax.tree_util.tree_all(jax.tree_util.tree_map(lambda a, b: bool((a == b).all()), tapped, bare))


def test_taps_are_found_inside_of_jit_checkpoint_and_vmap(tmp_path):
    params, x, y = made()

    @jax.jit
    def hidden(p, x):
        return jax.checkpoint(lambda p, x: tap("act", jnp.tanh(tap("fc1", linear(p, x), "linear")), "tanh"))(p, x)

    def nested(p, x, y):
        z = tap("fc2", jax.vmap(lambda row: linear(p["fc2"], row))(hidden(p["fc1"], x)), "linear")
        return tap("loss", jnp.mean((z - y) ** 2), "mse_loss")

    bpj.trace(nested, params, x, y, out=tmp_path / "nested", scale="mean")
    bpj.trace(loss, params, x, y, out=tmp_path / "plain", scale="mean")

    found = compare(tmp_path / "nested", tmp_path / "plain")
    assert [one.says for one in found.all_findings] == []
    assert checked(tmp_path / "nested")[0] == []


def test_a_layer_that_is_called_twice_has_two_places(tmp_path):
    params, x, y = made()
    shared = {"fc": {"weight": params["fc1"]["weight"][:3], "bias": params["fc1"]["bias"][:3]}}

    def twice(p, x, y):
        h = tap("fc", linear(p["fc"], x), "linear")
        z = tap("fc", linear(p["fc"], tap("act", jnp.tanh(h), "tanh")), "linear")
        return tap("loss", jnp.mean((z[:, :2] - y) ** 2))

    bpj.trace(twice, shared, x, y, out=tmp_path, scale="mean")

    trace = open_trace(tmp_path)
    assert [(p.name, p.parents) for p in trace.manifest.probes][:3] == [
        ("fc", ("input",)),
        ("act", ("fc",)),
        ("fc#2", ("act",)),
    ]
    found = compare(tmp_path, tmp_path)
    assert found.all_findings == []
    weight = found.steps[0].seen[Place("fc", "grad_raw", "weight")].locals[0]
    assert weight is not None
    assert weight.verdict != "broken"


def test_steps_go_into_one_folder_and_are_linked(tmp_path):
    params, x, y = made()
    optimizer = optax.adam(0.01)
    state, settings = optimizer.init(params), {"name": "adam", "lr": 0.01}
    for step in range(3):
        found = bpj.trace(
            loss, params, x, y, out=tmp_path, step=step, scale="mean", optimizer=optimizer, opt_state=state, settings=settings
        )  # fmt: skip
        params, state = found.params, found.opt_state

    trace = open_trace(tmp_path)
    assert list(trace.steps) == [0, 1, 2]
    assert Place("fc1", "opt_after", "weight.exp_avg_sq") in trace.steps[2].places
    findings, derived = checked(tmp_path)
    assert findings == []
    assert derived > 100


def test_a_scale_that_is_not_known_is_not_guessed(tmp_path):
    params, x, y = made()
    bpj.trace(loss, params, x, y, out=tmp_path)

    told = json.loads((tmp_path / "trace.json").read_text())
    assert (told["scale"], told["handled"]) == ({}, True)
    assert "scale" in told["notes"]
    found = compare(tmp_path, tmp_path)
    assert found.all_findings == []
    assert {place.phase for place in found.steps[0].unchecked["a"]} >= {"lossgrad", "grad_scaled"}


def test_the_derivative_of_tanh_as_jax_computes_it_follows(tmp_path):
    """(1 + y)·(1 − y): one rounding more than 1 − y² has, which shows once in some thousand numbers."""
    random = np.random.default_rng(0)
    params = {
        "fc": {"weight": jnp.asarray(0.1 * random.standard_normal((500, 40)), jnp.float32), "bias": jnp.zeros(500)}
    }
    x, y = (jnp.asarray(random.standard_normal((200, n)), jnp.float32) for n in (40, 500))

    def wide(p, x, y):
        a = tap("act", jnp.tanh(tap("fc", linear(p["fc"], x), "linear")), "tanh")
        return tap("loss", jnp.mean((a - y) ** 2), "mse_loss")

    bpj.trace(wide, params, x, y, out=tmp_path, scale="mean")
    assert checked(tmp_path)[0] == []


def test_a_wrong_derivative_is_found_on_its_side(tmp_path):
    @jax.custom_vjp
    def square_forgotten(x):
        return jnp.tanh(x)

    square_forgotten.defvjp(lambda x: (jnp.tanh(x), jnp.tanh(x)), lambda y, g: (g * (1 - y),))
    params, x, y = made()
    bpj.trace(loss, params, x, y, out=tmp_path / "right", scale="mean")
    bpj.trace(lambda *a: loss(*a, act=square_forgotten), params, x, y, out=tmp_path / "wrong", scale="mean")

    found = compare(tmp_path / "wrong", tmp_path / "right")

    assert (found.first.kind, str(found.first.place), found.first.side) == ("bug", "fc1.agrad", "a")


def test_a_mean_that_is_a_sum_is_found_by_its_scale(tmp_path):
    params, x, y = made()

    def summed(p, x, y):
        return loss(p, x, y) * BATCH

    bpj.trace(loss, params, x, y, out=tmp_path / "right", scale="mean")
    bpj.trace(summed, params, x, y, out=tmp_path / "wrong", scale="mean")

    found = compare(tmp_path / "wrong", tmp_path / "right")

    assert found.first.place.phase in ("fwd", "lossgrad")
    assert found.first.place.probe == "loss"
    assert any("is 6 (the batch) times" in hint for one in found.all_findings for hint in one.hints)


def test_half_precision_and_auxiliary_results(tmp_path):
    params, x, y = made()
    half = jax.tree_util.tree_map(lambda leaf: leaf.astype(jnp.bfloat16), params)

    def with_aux(p, x, y):
        return loss(p, x, y), {"seen": x.sum()}

    found = bpj.trace(
        with_aux, half, x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), out=tmp_path, scale="mean", has_aux=True
    )

    assert found.aux["seen"].shape == ()
    assert open_trace(tmp_path).steps[0].dtype(Place("fc1", "fwd")) == "bfloat16"
    assert checked(tmp_path)[0] == []


def test_misuse_is_said(tmp_path):
    params, x, y = made()
    with pytest.raises(InputError, match="no tap"):
        bpj.trace(plain, params, x, y, out=tmp_path)
    with pytest.raises(UsageError, match="out=FOLDER"):
        bpj.trace(loss, params, x, y)
    with pytest.raises(UsageError, match="samples"):
        bpj.trace(loss, params, x, y, out=tmp_path, samples=-1)
    with pytest.raises(UsageError, match="mean"):
        bpj.trace(loss, params, x, y, out=tmp_path, scale="sum")

    def scanned(p, x, y):
        found, _ = jax.lax.scan(lambda c, _: (tap("h", jnp.tanh(c)), None), x, None, length=3)
        return jnp.mean(found) + 0 * p["fc1"]["bias"].sum()

    with pytest.raises(InputError, match="scan"):
        bpj.trace(scanned, params, x, y, out=tmp_path)
    assert not (tmp_path / "step000").exists()

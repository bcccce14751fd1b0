"""The JAX helper runs the step it records; its numbers are those that JAX and optax give without it."""

import io
import json

import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed: its helper cannot be tried")
np = pytest.importorskip("numpy")
import jax.numpy as jnp  # noqa: E402

from backproof.adapters.classic.jax_helper import (  # noqa: E402
    HelperError,
    HelperUnsupportedError,
    TraceDumper,
)
from backproof.receipt import sidecar_deviations  # noqa: E402

SHAPES = {"W_ih": (3, 2), "b_h": (3,), "W_ho": (2, 3), "b_o": (2,)}
X, Y = {"i1": 0.6, "i2": 0.9}, {"o1": 0.2, "o2": 0.75}


@pytest.fixture(autouse=True)
def _sixty_four_bits():
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def parameters(dtype="float64"):
    rng = np.random.default_rng(4)
    return {key: jnp.asarray(rng.normal(size=shape), dtype) for key, shape in SHAPES.items()}


def record(params, steps=3, inputs=X, targets=Y, **settings):
    stream = io.StringIO()
    dumper = TraceDumper(params, out=stream, **({"learning_rate": 0.05} | settings))
    for _ in range(steps):
        with dumper.step(inputs=inputs, targets=targets) as ctx:
            params = ctx.run(params)
    return params, [json.loads(line) for line in stream.getvalue().splitlines()]


def loss(params, x, y):
    hidden = jax.nn.sigmoid(x @ params["W_ih"].T + params["b_h"])
    return (0.5 * (y - jax.nn.sigmoid(hidden @ params["W_ho"].T + params["b_o"])) ** 2).sum(axis=1).mean()


OPTAX = {
    "sgd": ({}, lambda o: o.sgd(0.05)),
    "momentum": ({"momentum": 0.9}, lambda o: o.sgd(0.05, momentum=0.9)),
    "nesterov": ({"momentum": 0.9, "nesterov": True}, lambda o: o.sgd(0.05, momentum=0.9, nesterov=True)),
    "decay": ({"weight_decay": 0.01}, lambda o: o.chain(o.add_decayed_weights(0.01), o.sgd(0.05))),
    "adam": ({"optimizer": "adam"}, lambda o: o.adam(0.05)),
    "adamw": ({"optimizer": "adamw", "weight_decay": 0.1}, lambda o: o.adamw(0.05, weight_decay=0.1)),
}


@pytest.mark.parametrize("name", OPTAX)
def test_a_recorded_step_trains_as_jax_and_optax_do(name):
    optax = pytest.importorskip("optax", reason="optax is not installed: nothing to train beside")
    settings, make = OPTAX[name]
    transformation, plain = make(optax), parameters()
    state = transformation.init(plain)
    x, y = (jnp.asarray([list(row.values())]) for row in (X, Y))
    for _ in range(3):
        updates, state = transformation.update(jax.grad(loss)(plain, x, y), state, plain)
        plain = optax.apply_updates(plain, updates)

    recorded, sidecars = record(parameters(), **settings)

    for key in SHAPES:
        assert np.asarray(recorded[key]) == pytest.approx(np.asarray(plain[key]), rel=1e-12)
    assert sidecars[-1]["parameters_after"]["w_i2_h1"] == recorded["W_ih"][0, 1].item()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*OPTAX, "dampening"])
def test_every_sidecar_is_valid_chained_and_names_its_program(name, dtype):
    settings = {"momentum": 0.9, "dampening": 0.3} if name == "dampening" else OPTAX[name][0]

    _, sidecars = record(parameters(dtype), trace_id="c" * 32, **settings)

    assert [s["step_index"] for s in sidecars] == [0, 1, 2]
    for sidecar in sidecars:
        assert sidecar_deviations(sidecar) == []
        assert "#jaxpr_sha256=" in sidecar["helper"]["source_uri"]
    assert sidecars[0]["parameters_after"] == sidecars[1]["parameters_before"]


def test_the_zeros_that_show_the_signals_change_no_bit_of_the_gradient():
    params = parameters()
    dumper = TraceDumper(params, learning_rate=0.05, out=io.StringIO())
    x, y = (jnp.asarray([list(row.values())]) for row in (X, Y))

    added = dumper._added(params, x)
    with_signals, _ = jax.grad(dumper._loss, argnums=(0, 1), has_aux=True)(params, added, x, y)

    plain = jax.grad(loss)(params, x, y)
    assert all((with_signals[0][key] == plain[key]).all() for key in SHAPES)


def test_a_batch_of_a_classifier_is_recorded():
    rng = np.random.default_rng(0)
    targets = np.eye(2)[[0, 1, 1, 0]]

    _, (sidecar, *_) = record(
        parameters(), inputs=rng.normal(size=(4, 2)), targets=targets, topology_loss="cross_entropy_softmax"
    )

    assert sidecar_deviations(sidecar) == []
    assert sidecar["batch"] == {"size": 4, "sample_order": ["s0", "s1", "s2", "s3"], "reduction": "mean"}


def test_a_block_that_raises_or_runs_nothing_or_runs_twice_writes_nothing():
    stream, params = io.StringIO(), parameters()
    dumper = TraceDumper(params, learning_rate=0.05, out=stream)

    def twice():
        with dumper.step(inputs=X, targets=Y) as ctx:
            ctx.run(ctx.run(params))

    def never():
        with dumper.step(inputs=X, targets=Y):
            pass

    with pytest.raises(HelperError, match="called twice"):
        twice()
    with pytest.raises(HelperError, match=r"without ctx\.run"):
        never()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"optimizer": "lion"}, "lion"),
        ({"optimizer": "adam", "weight_decay": 0.1}, "adamw"),
        ({"momentum": 0.9, "nesterov": True, "dampening": 0.1}, "exclude"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"topology_loss": "hinge"}, "hinge"),
    ],
)
def test_what_a_classic_receipt_cannot_carry_is_refused_by_name(settings, names):
    with pytest.raises(HelperUnsupportedError, match=names):
        record(parameters(), **settings)


def test_other_parameters_and_thirty_two_bit_jax_are_refused():
    with pytest.raises(HelperUnsupportedError, match="exactly W_ih"):
        record(parameters() | {"extra": jnp.zeros(2)})
    with pytest.raises(HelperUnsupportedError, match="shapes"):
        record(parameters() | {"b_h": jnp.zeros(2)})
    with pytest.raises(HelperUnsupportedError, match="float16"):
        record(parameters("float16"))
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(HelperUnsupportedError, match="jax_enable_x64"):
        record(parameters("float32"))

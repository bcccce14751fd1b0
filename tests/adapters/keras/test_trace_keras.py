"""Traces of Keras: every layer's value and gradient, a step that is Keras's own to the last bit, and every trace follows from itself."""

import os

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
pytest.importorskip("jax")

import backproof.keras as bpk  # noqa: E402 # after keras is known to be there
from backproof.errors import UsageError  # noqa: E402
from backproof.trace import MemorySink, Place, open_trace  # noqa: E402
from backproof.verify.traces.compare import compare  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)  # Keras has it of its own variables
BATCH = 6
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def data():
    random = np.random.default_rng(0)
    return random.standard_normal((BATCH, 3, 16)).astype("float32"), random.integers(0, 4, BATCH)


def made(policy="float32", relu=None):
    """A small network, channels first as its kinds are."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    given = {"dtype": policy}
    return keras.Sequential(
        [
            keras.Input((3, 16)),
            layers.Conv1D(8, 3, padding="same", data_format="channels_first", name="conv", **given),
            layers.LayerNormalization(axis=(1, 2), name="norm", **given),
            relu or layers.ReLU(name="relu", **given),
            layers.MaxPooling1D(2, data_format="channels_first", name="pool", **given),
            layers.Flatten(name="flat", **given),
            layers.Dense(4, name="fc", **given),
        ]
    )


def recorded(folder, model, *, steps=1, **given):
    x, y = data()
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    for step in range(steps):
        bpk.trace(model, x, y, LOSS, optimizer, out=folder, step=step, **given)
    return folder


def checked(folder):
    """What does not follow in a trace, and how many equations were derived."""
    found = compare(folder, folder)
    derived = sum(seen.locals[0] is not None for step in found.steps for seen in step.seen.values())
    return [one.says for one in found.all_findings], derived


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "bfloat16", "mixed_float16"])
@pytest.mark.parametrize("samples", [None, BATCH])
def test_two_steps_follow_from_themselves(tmp_path, policy, samples):
    recorded(tmp_path, made(policy), steps=2, samples=samples)

    findings, derived = checked(tmp_path)

    assert findings == []
    assert derived >= 2 * (14 if samples is None else 14 * BATCH)
    told = open_trace(tmp_path).manifest
    assert (told.batch, told.scale["agrad"]) == (BATCH, BATCH)
    assert [probe.kind for probe in told.probes] == [
        "conv1d", "layer_norm", "relu", "max_pool1d", "flatten", "linear", "cross_entropy",
    ]  # fmt: skip


def test_a_step_is_that_of_keras_to_the_last_bit():
    x, y = data()
    traced, plain = made(), made()
    memory = MemorySink()

    loss = bpk.trace(traced, x, y, LOSS, keras.optimizers.SGD(0.05), sink=memory)
    plain.compile(optimizer=keras.optimizers.SGD(0.05), loss=LOSS, jit_compile=False, run_eagerly=True)
    before = plain.evaluate(x, y, verbose=0)
    plain.train_on_batch(x, y)

    assert loss == pytest.approx(before, rel=1e-6)
    for mine, theirs in zip(traced.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)
    kernel = memory.tensors["fc.w_after.weight"]
    np.testing.assert_array_equal(kernel.T, traced.get_layer("fc").kernel.numpy())


def test_a_layer_that_computes_otherwise_is_named(tmp_path):
    class Leaking(keras.layers.ReLU):
        """It says that it is a relu, and hands gradients on below zero."""

        def call(self, inputs):
            return super().call(inputs) + 1e-3 * inputs

    Leaking.__module__, Leaking.__name__ = "keras.layers", "ReLU"
    right = recorded(tmp_path / "right", made(), samples=BATCH)
    wrong = recorded(tmp_path / "wrong", made(relu=Leaking(name="relu")), samples=BATCH)

    found = compare(wrong, right)

    assert (found.first.kind, found.first.place.column, found.first.side) == ("bug", "relu.fwd", "a")


def test_layers_inside_of_layers_have_dotted_names_and_shared_ones_are_called_twice(tmp_path):
    inner = keras.Sequential([keras.layers.Dense(16, name="d"), keras.layers.ReLU(name="r")], name="block")
    given = keras.Input((3, 16))
    whole = keras.Model(given, keras.layers.Dense(4, name="fc")(keras.layers.Flatten(name="flat")(inner(inner(given)))))

    recorded(tmp_path, whole, samples=2)

    trace = open_trace(tmp_path)
    names = {probe.name: probe.parents for probe in trace.manifest.probes}
    assert names["block.d"] == ("input",)
    assert names["block.d#2"] == ("block.r",)
    assert Place("block.d#2", "agrad", sample=1) in trace.steps[0].places
    assert checked(tmp_path)[0] == []


def test_misuse_is_said(tmp_path):
    x, y = data()
    with pytest.raises(UsageError, match="out=FOLDER"):
        bpk.trace(made(), x, y, LOSS)
    with pytest.raises(UsageError, match="samples"):
        bpk.trace(made(), x, y, LOSS, out=tmp_path, samples=-1)
    with pytest.raises(UsageError, match="mean"):
        bpk.trace(made(), x, y, LOSS, out=tmp_path, scale="sum")
    assert not (tmp_path / "step000").exists()

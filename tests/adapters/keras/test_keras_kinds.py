"""Keras's layers with channels last and its optimizers: each side is derived from its own recorded inputs, and who is wrong is named."""

import os

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
pytest.importorskip("jax")

import backproof.keras as bpk  # noqa: E402 # after keras is known to be there
from backproof.trace import open_trace  # noqa: E402
from backproof.verify.traces.compare import compare  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning"
)  # Keras has it of its own variables
BATCH = 4
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
layers, optimizers = keras.layers, keras.optimizers


def conv(**given):
    return layers.Conv2D(4, 3, name="conv", **given)


def recorded(folder, *parts, shape=(9, 8, 3), optimizer=None, steps=1, samples=None):
    """Some layers, then a dense one, in training."""
    keras.utils.set_random_seed(0)
    ending = [layers.Flatten(name="flat"), layers.Dense(4, name="fc")]
    model = keras.Sequential([keras.Input(shape), *parts, *ending])
    random = np.random.default_rng(0)
    x = (random.standard_normal((BATCH, *shape)) - 0.5).astype("float32")
    for step in range(steps):
        bpk.trace(model, x, random.integers(0, 4, BATCH), LOSS, optimizer, out=folder, step=step, samples=samples)
    return folder


def checked(folder, but=()):
    """What does not follow from a trace's own inputs, and what was not derived, but for these phases."""
    found = compare(folder, folder)
    left = [str(place) for step in found.steps for place in step.unchecked["a"] if place.phase not in but]
    return [one.says for one in found.all_findings], left


# ── layers ──────────────────────────────────────────────────────────────────────────────────────────────────────────

LAST = {"layout": "channels_last"}
WITHIN = {"padding": [0, 0], "dilation": [1, 1], "groups": 1}
LAYERS = {
    "conv valid": (conv, "conv2d", {"stride": [1, 1], **WITHIN, **LAST}),
    "conv same": (lambda: conv(padding="same"), "conv2d", {"stride": [1, 1], **WITHIN, "padding": [1, 1], **LAST}),
    "conv same, more behind": (
        lambda: conv(padding="same", strides=2),
        "conv2d",
        {"stride": [2, 2], **WITHIN, **LAST, "pads": [[1, 1], [0, 1]]},
    ),
    "conv of groups": (lambda: layers.Conv2D(6, 3, groups=3), "conv2d", {"stride": [1, 1], **WITHIN, "groups": 3, **LAST}),
    "conv with gaps": (lambda: conv(dilation_rate=2), "conv2d", {"stride": [1, 1], **WITHIN, "dilation": [2, 2], **LAST}),
    "max pool": (lambda: layers.MaxPooling2D(2), "max_pool2d", {"kernel_size": [2, 2], "stride": [2, 2], **LAST}),
    "max pool same": (
        lambda: layers.MaxPooling2D(2, padding="same"),
        "max_pool2d",
        {"kernel_size": [2, 2], "stride": [2, 2], "ceil_mode": True, **LAST},
    ),
    "max pool same on both sides": (
        lambda: layers.MaxPooling2D(3, 1, padding="same"),
        "max_pool2d",
        {"kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1], **LAST},
    ),
    "mean pool": (lambda: layers.AveragePooling2D(2), "avg_pool2d", {"kernel_size": [2, 2], "stride": [2, 2], **LAST}),
    "mean pool same": (
        lambda: layers.AveragePooling2D(3, 1, padding="same"),
        "avg_pool2d",
        {"kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1], "count_include_pad": False, **LAST},
    ),
    "mean": (layers.GlobalAveragePooling2D, "mean", {"dim": [1, 2], "keepdim": False}),
    "batch norm": (layers.BatchNormalization, "batch_norm", {"training": True, "eps": 1e-3, **LAST}),
    "batch norm without a scale": (
        lambda: layers.BatchNormalization(scale=False),
        "batch_norm",
        {"training": True, "eps": 1e-3, **LAST},
    ),
    "group norm": (lambda: layers.GroupNormalization(3), "group_norm", {"num_groups": 3, "eps": 1e-3, **LAST}),
    "layer norm": (layers.LayerNormalization, "layer_norm", {"normalized_shape": [3], "eps": 1e-3}),
    "layer norm without a shift": (
        lambda: layers.LayerNormalization(center=False),
        "layer_norm",
        {"normalized_shape": [3], "eps": 1e-3},
    ),
    "dense": (lambda: layers.Dense(5), "linear", {}),
}  # fmt: skip


@pytest.mark.parametrize("samples", [None, BATCH])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_told_and_derived_from_what_it_reads(name, samples, tmp_path):
    made, kind, hyper = LAYERS[name]

    recorded(tmp_path, made(), samples=samples)

    told = open_trace(tmp_path).manifest.probes[0]
    assert (told.kind, told.hyper) == (kind, hyper)
    findings, left = checked(tmp_path, but=("w_after",))
    assert findings == []
    across = kind == "batch_norm" and samples is not None  # there a sample alone does not say what the batch was
    assert bool(left) == across


@pytest.mark.parametrize("samples", [None, BATCH])
def test_one_dimension_padded_before_and_pooled(samples, tmp_path):
    parts = layers.Conv1D(4, 3, padding="causal", name="conv"), layers.ReLU(), layers.MaxPooling1D(2, padding="same")

    recorded(tmp_path, *parts, shape=(9, 3), samples=samples)

    assert open_trace(tmp_path).manifest.by_name["conv"].hyper["pads"] == [[2, 0]]
    assert checked(tmp_path, but=("w_after",)) == ([], [])


def test_an_activation_is_a_place_of_its_own(tmp_path):
    recorded(tmp_path, conv(activation="relu"), layers.Dense(3, activation="silu", name="d"))

    told = [(p.name, p.parents, p.kind, p.parameters) for p in open_trace(tmp_path).manifest.probes]
    assert told[:4] == [
        ("conv", ("input",), "conv2d", ("weight", "bias")),
        ("conv.relu", ("conv",), "relu", ()),
        ("d", ("conv.relu",), "linear", ("weight", "bias")),
        ("d.silu", ("d",), "silu", ()),
    ]
    assert checked(tmp_path, but=("w_after",)) == ([], [])


def test_what_is_not_known_is_not_told(tmp_path):
    def relu(x):
        return keras.ops.relu(x) * 2

    recorded(tmp_path, conv(activation=relu), layers.BatchNormalization(name="bn", trainable=False))

    told = open_trace(tmp_path).manifest.by_name
    assert (told["conv"].kind, told["conv.relu"].kind, told["bn"].kind) == ("conv2d", "", "")


# ── layers that are wrong ───────────────────────────────────────────────────────────────────────────────────────────


def of_keras(kind):
    """A class that passes for Keras's own."""
    kind.__module__, kind.__name__ = "keras.layers", kind.__mro__[1].__name__
    return kind


@of_keras
class OtherEpsilon(layers.BatchNormalization):
    """It says one ε, and computes with another."""

    def call(self, inputs, training=None, mask=None):
        said, self.epsilon = self.epsilon, 10 * self.epsilon
        try:
            return super().call(inputs, training=training, mask=mask)
        finally:
            self.epsilon = said


@of_keras
class OtherLayerEpsilon(layers.LayerNormalization):
    """It says one ε, and computes with another."""

    def call(self, inputs):
        said, self.epsilon = self.epsilon, 2 * self.epsilon
        try:
            return super().call(inputs)
        finally:
            self.epsilon = said


@of_keras
class OffByOne(layers.Conv2D):
    """It says `same`, and stands one cell further."""

    def call(self, inputs):
        return super().call(keras.ops.pad(inputs, [[0, 0], [0, 1], [0, 0], [0, 0]])[:, 1:])


@of_keras
class PaddedBehind(layers.Conv1D):
    """It says `causal`, and looks ahead."""

    def call(self, inputs):
        return keras.ops.flip(super().call(keras.ops.flip(inputs, 1)), 1)


@of_keras
class ZerosCount(layers.MaxPooling2D):
    """The zeros around an array are taken for numbers."""

    def call(self, inputs):
        return keras.ops.maximum(super().call(inputs), -0.1)


@of_keras
class PaddingCounts(layers.AveragePooling2D):
    """The mean of a window at the border is by its cells, and not by what is in them."""

    def call(self, inputs):
        full = super().call(keras.ops.ones_like(inputs[:1]))
        here = keras.ops.average_pool(keras.ops.pad(full, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 1, "valid")
        return super().call(inputs) * here


@of_keras
class MoreThanBias(layers.Dense):
    """It adds a little more than its bias."""

    def call(self, inputs, training=None):
        return super().call(inputs, training=training) + 1e-3


@of_keras
class OneMore(layers.GlobalAveragePooling2D):
    """A mean by n − 1."""

    def call(self, inputs):
        n = inputs.shape[1] * inputs.shape[2]
        return super().call(inputs) * (n / (n - 1))


WRONG = {
    "batch norm": ((9, 8, 3), lambda kind: kind(name="it"), layers.BatchNormalization, OtherEpsilon),
    "layer norm": ((9, 8, 3), lambda kind: kind(name="it"), layers.LayerNormalization, OtherLayerEpsilon),
    "conv": ((9, 8, 3), lambda kind: kind(4, 3, padding="same", name="it"), layers.Conv2D, OffByOne),
    "causal": ((9, 3), lambda kind: kind(4, 3, padding="causal", name="it"), layers.Conv1D, PaddedBehind),
    "max pool": ((9, 8, 3), lambda kind: kind(2, padding="same", name="it"), layers.MaxPooling2D, ZerosCount),
    "mean pool": (
        (9, 8, 3),
        lambda kind: kind(3, 1, padding="same", name="it"),
        layers.AveragePooling2D,
        PaddingCounts,
    ),
    "dense": ((9, 8, 3), lambda kind: kind(5, name="it"), layers.Dense, MoreThanBias),
    "mean": ((9, 8, 3), lambda kind: kind(name="it"), layers.GlobalAveragePooling2D, OneMore),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_layer_that_computes_otherwise_is_named_with_its_side(name, tmp_path):
    shape, make, honest, wrong = WRONG[name]
    right = recorded(tmp_path / "right", make(honest), shape=shape)
    other = recorded(tmp_path / "wrong", make(wrong), shape=shape)

    found = compare(other, right)

    assert (found.first.kind, found.first.place.column, found.first.side) == ("bug", "it.fwd", "a")
    assert {one.side for one in found.all_findings if one.kind == "bug"} == {"a"}
    assert checked(right)[0] == []


def test_an_activation_that_leaks_is_named_and_not_its_layer(tmp_path):
    def relu(x):
        return keras.ops.relu(x) + 1e-3 * x

    relu.__module__ = "keras.activations"
    right, wrong = (
        recorded(tmp_path / "right", conv(activation="relu")),
        recorded(tmp_path / "wrong", conv(activation=relu)),
    )

    found = compare(right, wrong)

    assert (found.first.place.column, found.first.side) == ("conv.relu.fwd", "b")


# ── optimizers ──────────────────────────────────────────────────────────────────────────────────────────────────────

OPTIMIZERS = {
    "sgd": lambda: optimizers.SGD(0.05),
    "momentum": lambda: optimizers.SGD(0.05, momentum=0.9),
    "nesterov": lambda: optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: optimizers.Adam(1e-2),
    "adam that decays": lambda: optimizers.Adam(1e-2, weight_decay=0.1),
    "amsgrad": lambda: optimizers.Adam(1e-2, amsgrad=True, epsilon=1e-3),
    "adamw": optimizers.AdamW,
    "lion": lambda: optimizers.Lion(weight_decay=0.1),
    "adadelta": lambda: optimizers.Adadelta(0.5),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_follows_from_gradient_and_state(name, tmp_path):
    recorded(tmp_path, conv(activation="relu"), optimizer=OPTIMIZERS[name](), steps=3)

    assert checked(tmp_path) == ([], [])


UNTOLD = {
    "its gradients are clipped": lambda: optimizers.Adam(clipnorm=1e-3),
    "its rate follows a schedule": lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
    "its decay is Keras's own": lambda: optimizers.SGD(0.1, weight_decay=0.1),
    "it is not in the table": lambda: optimizers.RMSprop(1e-2),
}


@pytest.mark.parametrize("name", UNTOLD)
def test_an_update_of_which_not_all_is_known_is_not_derived(name, tmp_path):
    recorded(tmp_path, conv(), optimizer=UNTOLD[name](), steps=2)

    findings, left = checked(tmp_path)

    assert findings == []
    assert "conv.w_after.weight" in left


def of_optimizers(kind):
    """A class that passes for Keras's own."""
    kind.__module__, kind.__name__ = "keras.optimizers", kind.__mro__[1].__name__
    return kind


@of_optimizers
class Forgetful(optimizers.SGD):
    """It says Nesterov, and does not look ahead."""

    def update_step(self, gradient, variable, learning_rate):
        said, self.nesterov = self.nesterov, False
        super().update_step(gradient, variable, learning_rate)
        self.nesterov = said


@of_optimizers
class Short(optimizers.Adam):
    """Its steps are a thousandth too short."""

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate * (1 - 1e-3))


WRONG_UPDATES = {
    "nesterov": (lambda kind: kind(0.05, momentum=0.9, nesterov=True), optimizers.SGD, Forgetful),
    "adam": (lambda kind: kind(1e-2), optimizers.Adam, Short),
}


@pytest.mark.parametrize("name", WRONG_UPDATES)
def test_an_optimizer_that_does_otherwise_is_named_with_its_side(name, tmp_path):
    make, honest, wrong = WRONG_UPDATES[name]
    right = recorded(tmp_path / "right", conv(), optimizer=make(honest), steps=2)
    other = recorded(tmp_path / "wrong", conv(), optimizer=make(wrong), steps=2)

    found = compare(right, other)

    assert (found.first.kind, found.first.place.phase, found.first.side) == ("bug", "w_after", "b")
    assert checked(right) == ([], [])

"""The network of examples/c written for every recorder: one step from the same weights and samples, one trace for each mistake.

    one_network.py SIDE DATA OUT

writes OUT/honest, and OUT/relu, OUT/variance and OUT/rate with a mistake each, which every side makes in its own way: a relu that leaks,
forward or backward; a layer norm with another variance or epsilon; a learning rate that is not the one that is told.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

BATCH, RATE, MOMENTUM = 6, 0.05, 0.9
SHAPES = {
    "conv1": ((8, 2, 3), (8,)),
    "ln1": ((8, 48), (8, 48)),
    "conv2": ((12, 8, 5), (12,)),
    "ln2": ((12, 12), (12, 12)),
    "fc": ((4, 48), (4,)),
}
KINDS = {
    "conv1": ("conv1d", {"padding": 1}),
    "ln1": ("layer_norm", {"normalized_shape": [8, 48]}),
    "relu1": ("relu", {}),
    "pool1": ("max_pool1d", {"kernel_size": 2}),
    "conv2": ("conv1d", {"stride": 2, "padding": 2}),
    "ln2": ("layer_norm", {"normalized_shape": [12, 12]}),
    "relu2": ("relu", {}),
    "pool2": ("max_pool1d", {"kernel_size": 3}),
    "flatten": ("flatten", {"start_dim": 1}),
    "fc": ("linear", {}),
    "loss": ("cross_entropy", {}),
}


def load(data):
    """{layer: {weight, bias}}, samples and labels of one batch."""
    weights = {
        name: {
            part: np.load(data / f"{name}.{part}.npy").reshape(shape)
            for part, shape in zip(("weight", "bias"), shapes, strict=True)
        }
        for name, shapes in SHAPES.items()
    }
    samples = np.load(data / "samples.npy").reshape(-1, 2, 48)[:BATCH]
    return weights, samples, np.load(data / "labels.npy")[:BATCH].astype(np.int64)


def on_jax(data, out, wrong=""):
    import jax
    import jax.numpy as jnp
    import optax

    import backproof.jax as bpj
    from backproof.jax import tap

    def conv(p, x, stride, padding):
        dims = ("NCH", "OIH", "NCH")
        y = jax.lax.conv_general_dilated(x, p["weight"], (stride,), [(padding, padding)], dimension_numbers=dims)
        return y + p["bias"][:, None]

    def norm(p, x):
        mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True, ddof=wrong == "variance")
        return (x - mean) / jnp.sqrt(variance + 1e-5) * p["weight"] + p["bias"]

    def relu(x):
        return x * jax.lax.stop_gradient(x > 0) if wrong != "relu" else x + jax.lax.stop_gradient(jnp.maximum(x, 0) - x)

    def pool(x, k):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, k), (1, 1, k), "VALID")

    def told(name, value):
        return tap(name, value, KINDS[name][0], **KINDS[name][1])

    def loss(p, x, y):
        for n, (stride, padding, width) in enumerate([(1, 1, 2), (2, 2, 3)], 1):
            x = told(f"conv{n}", conv(p[f"conv{n}"], x, stride, padding))
            x = told(f"ln{n}", norm(p[f"ln{n}"], x))
            x = told(f"relu{n}", relu(x))
            x = told(f"pool{n}", pool(x, width))
        x = told("flatten", x.reshape(x.shape[0], -1))
        z = told("fc", x @ p["fc"]["weight"].T + p["fc"]["bias"])
        found = optax.softmax_cross_entropy_with_integer_labels(z, y).mean()
        return told("loss", found)

    weights, x, y = load(data)
    optimizer = optax.sgd(RATE * (1.05 if wrong == "rate" else 1), momentum=MOMENTUM)
    settings = {"name": "sgd", "lr": RATE, "momentum": MOMENTUM}
    params = jax.tree_util.tree_map(jnp.asarray, weights)
    bpj.trace(loss, params, x, y, out=out, samples=BATCH, scale="mean", optimizer=optimizer, settings=settings)


def on_torch(data, out, wrong=""):
    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "c"))
    import mirror

    import backproof.torch as bpt

    model = mirror.network()
    _, x, y = load(data)
    mirror.load(data, model)
    if wrong == "relu":
        model.relu1 = torch.nn.LeakyReLU(0.01)
    if wrong == "variance":
        model.ln1.eps = 1e-3
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    with bpt.trace(model, out, optimizer=optimizer, samples=BATCH):
        given = torch.from_numpy(x).requires_grad_()
        loss = torch.nn.functional.cross_entropy(model(given), torch.from_numpy(y))
        loss.backward()
        if wrong == "rate":
            optimizer.param_groups[0]["lr"] *= 1.05
        optimizer.step()
        optimizer.param_groups[0]["lr"] = RATE


def on_keras(data, out, wrong=""):
    import keras

    import backproof.keras as bpk

    keras.config.set_image_data_format("channels_first")
    layers = keras.layers

    class Padded(layers.Conv1D):
        """Two zeros at either end; Keras's own padding is uneven for a stride."""

        def call(self, inputs):
            return super().call(keras.ops.pad(inputs, ((0, 0), (0, 0), (2, 2))))

        def compute_output_shape(self, shape):
            return (shape[0], self.filters, shape[2] // 2)

    def norm(name):
        return layers.LayerNormalization(axis=[1, 2], epsilon=1e-3 if wrong == "variance" else 1e-5, name=name)

    model = keras.Sequential(
        [
            layers.Input((2, 48)),
            layers.Conv1D(8, 3, padding="same", name="conv1"),
            norm("ln1"),
            layers.ReLU(name="relu1", negative_slope=0.01 if wrong == "relu" else 0.0),
            layers.MaxPooling1D(2, name="pool1"),
            Padded(12, 5, strides=2, name="conv2"),
            norm("ln2"),
            layers.ReLU(name="relu2"),
            layers.MaxPooling1D(3, name="pool2"),
            layers.Flatten(data_format="channels_last", name="flatten"),
            layers.Dense(4, name="fc"),
        ]
    )
    weights, x, y = load(data)
    for name, parts in weights.items():
        weight = parts["weight"]
        turned = weight.transpose(2, 1, 0) if weight.ndim == 3 else weight.T if name == "fc" else weight
        model.get_layer(name).set_weights([turned, parts["bias"]])
    optimizer = keras.optimizers.SGD(RATE * (1.05 if wrong == "rate" else 1), momentum=MOMENTUM)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    bpk.trace(model, x, y, loss, optimizer, out=out, samples=BATCH)


def on_engine(data, out, wrong=""):
    from dataclasses import replace

    from backproof import Session, trace_grads, trace_weights, traced_grads
    from backproof.trace import Manifest, TraceWriter
    from backproof.trace.session import probes_of

    s = Session(domain="float32")
    weights, x, y = load(data)
    params = {f"{n}.{k}": s.param(v, f"{n}.{k}") for n, parts in weights.items() for k, v in parts.items()}
    given, label = s.input(x, "input"), s.input_nat_vec(y, "label")
    p = {name: s.use(param) for name, param in params.items()}
    layers, h = {"input": given, "label": label}, given
    for n, (stride, padding, width) in enumerate([(1, 1, 2), (2, 2, 3)], 1):
        shape = SHAPES[f"ln{n}"][0]
        h = layers[f"conv{n}"] = s.conv(h, p[f"conv{n}.weight"], p[f"conv{n}.bias"], stride=stride, padding=padding)
        eps = 1e-3 if wrong == "variance" else 1e-5
        flat, size = (BATCH, shape[0] * shape[1]), (shape[0] * shape[1],)
        gamma, beta = (s.reshape(p[f"ln{n}.{part}"], size) for part in ("weight", "bias"))
        h = layers[f"ln{n}"] = s.reshape(s.layer_norm(s.reshape(h, flat), gamma, beta, eps=eps), (BATCH, *shape))
        h = layers[f"relu{n}"] = s.leaky_relu(h, 0.01) if wrong == "relu" else s.relu(h)
        h = layers[f"pool{n}"] = s.max_pool(h, width)
    h = layers["flatten"] = s.reshape(h, (BATCH, 48))
    layers["fc"] = s.linear(h, p["fc.weight"], p["fc.bias"])
    loss = s.cross_entropy(layers["fc"], label)
    told = probes_of(s.graph(), layers, loss, {leaf: param.name for leaf, param in s.parameters.items()})
    probes = tuple(replace(one, kind=KINDS[one.name][0], hyper=KINDS[one.name][1]) for one in told)
    scale = dict.fromkeys(("lossgrad", "agrad", "grad_raw"), float(BATCH))
    optimizer = {"name": "sgd", "lr": RATE, "momentum": MOMENTUM}  # in a first step momentum has nothing to add
    manifest = Manifest(
        framework="backproof", batch=BATCH, probes=probes, scale=scale, dtype="float32", optimizer=optimizer
    )
    with TraceWriter(out, manifest).step(0) as sink:
        trace_weights(s, sink, "w_before")
        gradients = traced_grads(s, loss, sink, layers)
        trace_grads(s, gradients, sink, "grad_raw")
        trace_grads(s, gradients, sink, "grad_scaled")
        s.sgd_step_all(RATE * (1.05 if wrong == "rate" else 1), gradients)
        trace_weights(s, sink, "w_after")


SIDES = {"jax": on_jax, "torch": on_torch, "keras": on_keras, "engine": on_engine}
WRONG = ("relu", "variance", "rate")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    told = parser.parse_args()
    for mistake in ("", *WRONG):
        SIDES[told.side](told.data, told.out / (mistake or "honest"), mistake)

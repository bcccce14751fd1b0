"""Train two networks on real handwritten digits with a session, beside the same networks in PyTorch: the loss curves are equal.

python examples/digits.py            # both networks
python examples/digits.py --epochs 3 mlp
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from sklearn.datasets import load_digits

from backproof import Session

RATE, BATCH = 0.1, 64


def data():
    """1,437 digits to train on and 360 to test on, 8×8 pixels from 0 to 1."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x, y = (digits.images[order] / 16.0)[:, None], digits.target[order]
    return (x[:1437], y[:1437]), (x[1437:], y[1437:])


def uniform(rng, *shape, fan):
    """Weights as PyTorch would draw them."""
    return rng.uniform(-1, 1, shape) / np.sqrt(fan)


def mlp_parameters(rng):
    """64 → 64 → 10."""
    return {
        "w1": uniform(rng, 64, 64, fan=64),
        "b1": np.zeros(64),
        "w2": uniform(rng, 10, 64, fan=64),
        "b2": np.zeros(10),
    }


def mlp(s, x, p):
    """Two layers and a ReLU between."""
    flat = s.reshape(x, (x.shape[0], 64))
    return s.linear(s.relu(s.linear(flat, p["w1"], p["b1"])), p["w2"], p["b2"])


def conv_parameters(rng):
    """8 and 16 channels, then 10 classes."""
    return {
        "k1": uniform(rng, 8, 1, 3, 3, fan=9),
        "c1": np.zeros(8),
        "k2": uniform(rng, 16, 8, 3, 3, fan=72),
        "c2": np.zeros(16),
        "w": uniform(rng, 10, 64, fan=64),
        "b": np.zeros(10),
    }


def conv(s, x, p):
    """Two convolutions, each with a ReLU and a max-pool, then a layer."""
    h = s.max_pool(s.relu(s.conv(x, p["k1"], p["c1"], padding=1)), 2)
    h = s.max_pool(s.relu(s.conv(h, p["k2"], p["c2"], padding=1)), 2)
    return s.linear(s.reshape(h, (h.shape[0], 64)), p["w"], p["b"])


def torch_mlp(torch, x, p):
    """The same in PyTorch."""
    f = torch.nn.functional
    return f.linear(torch.relu(f.linear(x.flatten(1), p["w1"], p["b1"])), p["w2"], p["b2"])


def torch_conv(torch, x, p):
    """The same in PyTorch."""
    f = torch.nn.functional
    h = f.max_pool2d(torch.relu(f.conv2d(x, p["k1"], p["c1"], padding=1)), 2)
    h = f.max_pool2d(torch.relu(f.conv2d(h, p["k2"], p["c2"], padding=1)), 2)
    return f.linear(h.flatten(1), p["w"], p["b"])


NETWORKS = {"mlp": (mlp_parameters, mlp, torch_mlp), "conv": (conv_parameters, conv, torch_conv)}


def batches(rng, count):
    """An epoch's batches, in random order."""
    order = rng.permutation(count)
    return [order[i : i + BATCH] for i in range(0, count, BATCH)]


class BySession:
    """A network trained by a session."""

    def __init__(self, network, parameters):
        self.network = network
        self.session = Session()
        self.parameters = {name: self.session.param(value, name) for name, value in parameters.items()}

    def record(self, x):
        """A fresh tape with the network's output on x; what else are leaves is given by the caller before."""
        leaves = {name: self.session.use(parameter) for name, parameter in self.parameters.items()}
        return self.network(self.session, x, leaves)

    def step(self, x, y):
        """One step of gradient descent; the loss before it."""
        s = self.session
        s.reset_tape()
        given, labels = s.input(x, "x", requires_grad=False), s.input_nat_vec(y, "y")
        loss = s.cross_entropy(self.record(given), labels)
        s.sgd_step_all(RATE, s.backward_scalar_dense_all(loss))
        return float(s.value(loss))

    def accuracy(self, x, y):
        """The share of digits that are read right."""
        self.session.reset_tape()
        scores = self.session.value(self.record(self.session.input(x)))
        return float((scores.argmax(1) == y).mean())


class ByTorch:
    """The same network trained by PyTorch."""

    def __init__(self, network, parameters):
        import torch

        self.torch, self.network = torch, network
        self.parameters = {name: torch.tensor(value, requires_grad=True) for name, value in parameters.items()}
        self.optimizer = torch.optim.SGD(self.parameters.values(), lr=RATE)

    def step(self, x, y):
        """One step of gradient descent; the loss before it."""
        scores = self.network(self.torch, self.torch.tensor(x), self.parameters)
        loss = self.torch.nn.functional.cross_entropy(scores, self.torch.tensor(y))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def accuracy(self, x, y):
        """The share of digits that are read right."""
        with self.torch.no_grad():
            scores = self.network(self.torch, self.torch.tensor(x), self.parameters)
        return float((scores.argmax(1).numpy() == y).mean())


def train(name, epochs, say=print):
    """Both, side by side: (the largest difference of any loss, accuracy by the session, accuracy by PyTorch)."""
    (x, y), test = data()
    parameters, network, reference = NETWORKS[name]
    initial = parameters(np.random.default_rng(1))
    ours, theirs = BySession(network, initial), ByTorch(reference, initial)
    rng, worst = np.random.default_rng(2), 0.0
    say(f"{name}: epoch    loss (session)      loss (PyTorch)   largest difference so far")
    for epoch in range(epochs):
        losses = [(ours.step(x[i], y[i]), theirs.step(x[i], y[i])) for i in batches(rng, len(y))]
        worst = max([worst, *(abs(a - b) for a, b in losses)])
        a, b = np.mean(losses, axis=0)
        say(f"{name}: {epoch:5d}  {a:18.12f}  {b:18.12f}   {worst:.1e}")
    accuracies = ours.accuracy(*test), theirs.accuracy(*test)
    say(f"{name}: read right on the test digits: {accuracies[0]:.1%} (session), {accuracies[1]:.1%} (PyTorch)")
    return worst, *accuracies


def main(arguments):
    """Train, and say whether the curves were equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["mlp", "conv"], help="mlp, conv, or both")
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args(arguments)
    return max(int(train(name, args.epochs)[0] > 1e-9) for name in args.networks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

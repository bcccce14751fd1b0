"""How long does one training step take in a session, against PyTorch eager and HIPS autograd? float64, the same threads.

Goals: at most 1.5 × PyTorch's time, and less than autograd's. And: what does the tape's loop cost per node on tiny tensors? (≤ 10 µs)
"""

from __future__ import annotations

import sys

from side_by_side import race, seconds

MLP = """
import numpy as np
rng = np.random.default_rng(0)
sizes = (784, 1024, 1024, 10)
x, y = rng.normal(size=(128, 784)), rng.integers(0, 10, 128)
weights = [rng.normal(size=(m, n)) * m**-0.5 for m, n in zip(sizes, sizes[1:])]
biases = [np.zeros(n) for n in sizes[1:]]
"""

CONV = """
import numpy as np
rng = np.random.default_rng(0)
channels = (3, 16, 32, 32, 64)
x, y = rng.normal(size=(32, 3, 32, 32)), rng.integers(0, 10, 32)
kernels = [rng.normal(size=(o, i, 3, 3)) * (9 * i) ** -0.5 for i, o in zip(channels, channels[1:])]
head = rng.normal(size=(4096, 10)) / 64
"""

SESSION_MLP = """
from backproof import Session
s = Session()
W, B = [s.param(w) for w in weights], [s.param(b) for b in biases]
def step():
    s.reset_tape()
    h, t = s.input(x, requires_grad=False), s.input_nat_vec(y)
    leaves = [(s.use(w), s.use(b)) for w, b in zip(W, B)]
    for k, (w, b) in enumerate(leaves):
        h = h @ w + b
        h = s.relu(h) if k < 2 else h
    s.sgd_step_all(0.01, s.backward_scalar_dense_all(s.cross_entropy(h, t)))
"""

TORCH_MLP = """
import torch
P = [torch.tensor(p, requires_grad=True) for p in (*weights, *biases)]
X, Y = torch.tensor(x), torch.tensor(y)
optimizer = torch.optim.SGD(P, lr=0.01)
def step():
    h = X
    for k in range(3):
        h = h @ P[k] + P[3 + k]
        h = torch.relu(h) if k < 2 else h
    loss = torch.nn.functional.cross_entropy(h, Y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""

AUTOGRAD_MLP = """
import autograd, autograd.numpy as anp
P = [*weights, *biases]
def loss(P):
    h = x
    for k in range(3):
        h = anp.dot(h, P[k]) + P[3 + k]
        h = anp.maximum(h, 0) if k < 2 else h
    top = anp.max(h, axis=1, keepdims=True)
    return -anp.mean((h - top)[anp.arange(128), y] - anp.log(anp.sum(anp.exp(h - top), axis=1)))
gradient = autograd.grad(loss)
def step():
    global P
    P = [p - 0.01 * g for p, g in zip(P, gradient(P))]
"""

SESSION_CONV = """
from backproof import Session
s = Session()
K, H = [s.param(k) for k in kernels], s.param(head)
def step():
    s.reset_tape()
    h, t = s.input(x, requires_grad=False), s.input_nat_vec(y)
    leaves, last = [s.use(k) for k in K], s.use(H)
    for k, kernel in enumerate(leaves):
        h = s.relu(s.conv(h, kernel, padding=1))
        h = s.max_pool(h, 2) if k % 2 else h
    h = s.reshape(h, (32, 4096)) @ last
    s.sgd_step_all(0.01, s.backward_scalar_dense_all(s.cross_entropy(h, t)))
"""

TORCH_CONV = """
import torch
P = [torch.tensor(p, requires_grad=True) for p in (*kernels, head)]
X, Y = torch.tensor(x), torch.tensor(y)
optimizer = torch.optim.SGD(P, lr=0.01)
f = torch.nn.functional
def step():
    h = X
    for k in range(4):
        h = torch.relu(f.conv2d(h, P[k], padding=1))
        h = f.max_pool2d(h, 2) if k % 2 else h
    loss = f.cross_entropy(h.flatten(1) @ P[4], Y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""

AUTOGRAD_CONV = """
import autograd, autograd.numpy as anp
from autograd.scipy.signal import convolve
P = [*kernels, head]
def loss(P):
    h = x
    for k in range(4):
        h = anp.pad(h, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant")
        h = anp.maximum(convolve(h, P[k], axes=([2, 3], [2, 3]), dot_axes=([1], [1]), mode="valid"), 0)
        if k % 2:
            n, c, a, b = h.shape
            h = anp.max(anp.reshape(h, (n, c, a // 2, 2, b // 2, 2)), axis=(3, 5))
    h = anp.dot(anp.reshape(h, (32, 4096)), P[4])
    top = anp.max(h, axis=1, keepdims=True)
    return -anp.mean((h - top)[anp.arange(32), y] - anp.log(anp.sum(anp.exp(h - top), axis=1)))
"""
# autograd's convolve wants kernels as (in, out, ...), and turns them around; the work is the same.
AUTOGRAD_CONV = (
    AUTOGRAD_CONV.replace("P = [*kernels, head]", "P = [*(k.transpose(1, 0, 2, 3) for k in kernels), head]").replace(
        "dot_axes=([1], [1])", "dot_axes=([1], [0])"
    )
    + """
gradient = autograd.grad(loss)
def step():
    global P
    P = [p - 0.01 * g for p, g in zip(P, gradient(P))]
"""
)

LOOP = """
import numpy as np
from backproof import Session
from backproof.session.tape import backward
s = Session()
h = s.input(np.ones(2))
for _ in range(1000):
    h = s.tanh(h)
loss, one = s.sum(h), np.asarray(1.0)
tape = s.compile_tape()
def step():
    backward(tape, loss.id, one)
"""


def main() -> int:
    """Print the three tables."""
    mlp = race(
        "MLP 784-1024-1024-10, batch 128",
        {"session": MLP + SESSION_MLP, "PyTorch eager": MLP + TORCH_MLP, "HIPS autograd": MLP + AUTOGRAD_MLP},
    )
    conv = race(
        "4-layer conv net, 32×32 images, batch 32",
        {"session": CONV + SESSION_CONV, "PyTorch eager": CONV + TORCH_CONV, "HIPS autograd": CONV + AUTOGRAD_CONV},
        budget=1.0,
    )
    node = seconds(LOOP, budget=1.0) / 1000
    print(f"tape loop, two numbers a node: {node * 1e6:.2f} µs a node (goal: 10)")
    for name, found in (("MLP", mlp), ("conv net", conv)):
        ours, torch, autograd = found.values()
        print(
            f"{name}: session/PyTorch {ours / torch:.2f} (goal ≤ 1.5), session/autograd {ours / autograd:.2f} (goal < 1)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

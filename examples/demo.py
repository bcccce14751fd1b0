"""A tour of backproof on real data: train, certify, break on purpose, see what is found.

make demo            # or: python examples/demo.py
"""

from __future__ import annotations

import os

# Two libraries' thread pools in one process fight over the cores; on networks this small one thread is faster.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
from dataclasses import replace
from pathlib import Path

import digits
from backproof import Session
from backproof.cli import main as bp
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.text import to_json

OUT = Path(__file__).resolve().parent.parent / "out"


def title(text: str) -> None:
    """A heading."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}\n{'─' * len(text)}")


def shell(*arguments: str) -> int:
    """A `bp` command, shown and run."""
    print(f"$ bp {' '.join(arguments)}")
    code = bp(list(arguments))
    print(f"→ exit code {code}")
    return code


def recorded() -> Path:
    """The graph of one training step of the digits MLP, in a file."""
    s = Session()
    (x, y), _ = digits.data()
    parameters = digits.mlp_parameters(digits.np.random.default_rng(1))
    given, labels = s.input(x[:16], "x"), s.input_nat_vec(y[:16], "y")
    leaves = {name: s.input(value, name) for name, value in parameters.items()}
    loss = s.cross_entropy(digits.mlp(s, given, leaves), labels)
    path = OUT / "digits.graph.json"
    path.write_text(to_json(s.graph(loss)), encoding="utf-8")
    return path


def main() -> int:
    """Run every part; 0 when each ended as it should."""
    OUT.mkdir(exist_ok=True)
    expected: list[bool] = []

    title("1. Train on real digits with a session; the loss curve is PyTorch's")
    worst, _, _ = digits.train("mlp", 5)
    expected.append(worst <= 1e-9)

    title("2. Certify the backward pass of that step")
    graph = recorded()
    expected.append(shell("certify", str(graph), "--seed", "1") == 0)

    title("3. Break a derivative on purpose (ReLU forgets its mask on the way back), and certify again")
    right = PRIMITIVES["relu"]
    PRIMITIVES["relu"] = replace(right, vjp=(lambda D, x, y, gy: gy,))
    try:
        expected.append(shell("certify", str(graph), "--seed", "1") == 1)
    finally:
        PRIMITIVES["relu"] = right

    print(f"\n{'all as expected' if all(expected) else 'NOT as expected'}; files are in {OUT}")
    return 0 if all(expected) else 1


if __name__ == "__main__":
    sys.exit(main())

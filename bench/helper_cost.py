"""What does recording a step cost? Our PyTorch helper beside the npm package's, where that is installed.

    python bench/helper_cost.py [--peer FOLDER] [--steps 500]

FOLDER is the package's own (…/node_modules/@mcptoolshop/backprop-trace); it is installed into a cache where it is not given.
Each helper writes to a file; the figure is the best of several rounds, taken in turns, less the plain step.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from backproof.adapters.classic import pytorch_helper
from peer import peer

NETWORKS = {"2-2-2 sigmoid, half squared error": (2, 2, 2), "9-16-4 classifier, cross-entropy": (9, 16, 4)}


def peer_dumper(folder):
    path = Path(folder) / "scripts" / "extract" / "pytorch.py"
    spec = importlib.util.spec_from_file_location("peer_helper", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TraceDumper


class Training:
    """One network, its data and its loss; `seconds` runs some steps with a helper around each, or none."""

    def __init__(self, sizes):
        torch.manual_seed(1)
        inputs, hidden, outputs = sizes
        first, second = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)
        self.classifier = outputs > 2
        activations = (nn.ReLU(), nn.Softmax(-1)) if self.classifier else (nn.Sigmoid(), nn.Sigmoid())
        self.model = nn.Sequential(first, activations[0], second, activations[1]).double()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.x = torch.rand(inputs, dtype=torch.float64)
        self.y = torch.zeros(outputs, dtype=torch.float64)
        self.y[0] = 1.0
        self.kind = "cross_entropy_softmax" if self.classifier else "half_squared_error"

    def loss(self, output, target):
        if self.classifier:
            return -(target * output.log()).sum()
        return 0.5 * ((output - target) ** 2).sum()

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()

    def seconds(self, helper, steps):
        if helper is None:
            start = time.perf_counter()
            for _ in range(steps):
                self.step()
            return (time.perf_counter() - start) / steps
        said = {
            "inputs": {f"i{k + 1}": v for k, v in enumerate(self.x.tolist())},
            "targets": {f"o{k + 1}": v for k, v in enumerate(self.y.tolist())},
        }
        with tempfile.TemporaryDirectory() as folder:
            dumper = helper(
                self.model,
                self.optimizer,
                self.loss,
                out=f"{folder}/t.jsonl",
                trace_id="0" * 32,
                topology_loss=self.kind,
            )
            start = time.perf_counter()
            for _ in range(steps):
                with dumper.step(**said):
                    self.step()
            elapsed = (time.perf_counter() - start) / steps
            dumper.close()
        return elapsed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    helpers = {"plain": None, "ours": pytorch_helper.TraceDumper}
    folder = peer(options.peer)
    if folder is not None:
        helpers["peer"] = peer_dumper(folder)
    for name, sizes in NETWORKS.items():
        training = Training(sizes)
        best = dict.fromkeys(helpers, float("inf"))
        for _ in range(options.rounds):
            for key, helper in helpers.items():
                best[key] = min(best[key], training.seconds(helper, options.steps))
        cost = {key: 1e3 * (value - best["plain"]) for key, value in best.items()}
        ratio = f" · peer/ours {cost['peer'] / cost['ours']:.1f}" if "peer" in cost else ""
        columns = " · ".join(f"{key} +{cost[key]:.3f} ms" for key in helpers if key != "plain")
        print(f"{name}: plain step {1e3 * best['plain']:.3f} ms · {columns}{ratio}")


if __name__ == "__main__":
    main()

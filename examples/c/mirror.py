"""The network of train.c in PyTorch, from the same weights and samples, with the same steps and a trace of its own.

./train --export out/data && ./train --data out/data --trace out/c
python mirror.py --data out/data --trace out/torch
bp compare out/c out/torch
"""

from __future__ import annotations

import argparse
from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch
from torch import nn

import backproof.torch as bpt


def network() -> nn.Sequential:
    """The layers, under the names that train.c gives them."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv1d(2, 8, 3, padding=1),
            ln1=nn.LayerNorm((8, 48)),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool1d(2),
            conv2=nn.Conv1d(8, 12, 5, stride=2, padding=2),
            ln2=nn.LayerNorm((12, 12)),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool1d(3),
            flatten=nn.Flatten(),
            fc=nn.Linear(48, 4),
        )
    )


def load(folder: Path, model: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights into the model; the samples and their labels. Files are flat: shapes are the model's."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(np.load(folder / f"{name}.npy")).reshape(parameter.shape))
    samples = torch.from_numpy(np.load(folder / "samples.npy")).reshape(-1, 2, 48)
    return samples, torch.from_numpy(np.load(folder / "labels.npy")).long()


def main() -> None:
    """Train as train.c does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--samples", type=int, help="how many of a batch are recorded one by one (all)")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--double", action="store_true", help="compute in float64")
    given = parser.parse_args()

    model = network()
    samples, labels = load(given.data, model)
    if given.double:
        model, samples = model.double(), samples.double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=given.decay)
    recorded = given.batch if given.samples is None else given.samples
    tracer = bpt.trace(model, given.trace, optimizer=optimizer, samples=recorded)
    for step in range(given.steps):
        which = (torch.arange(given.batch) + given.start + step * given.batch) % len(samples)
        with tracer:
            x = samples[which].requires_grad_()
            loss = nn.functional.cross_entropy(model(x), labels[which])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"step {step}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

"""What does a trace of a PyTorch step cost, by hooks? A step plain, traced into a folder, and the disk's time for the same files.

    python bench/trace_step.py [--steps 5] [--samples K]

The figure that is wanted: traced ≤ 1.3 × plain + disk. The best of several steps each, taken in turns.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

import backproof.torch as bpt

Step = Callable[[], None]


def audio(batch: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The convolutional network of the traces' own tests, wider."""
    model = nn.Sequential(
        nn.Conv1d(1, 32, 9, padding=4), nn.GroupNorm(4, 32), nn.ReLU(), nn.MaxPool1d(4),
        nn.Conv1d(32, 64, 9, padding=4), nn.GroupNorm(4, 64), nn.ReLU(), nn.MaxPool1d(4),
        nn.Conv1d(64, 128, 9, padding=4), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 6),
    )  # fmt: skip
    return model, torch.randn(batch, 1, 1024), torch.randint(0, 6, (batch,))


def layered(batch: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Six wide linear layers."""
    parts = [part for _ in range(6) for part in (nn.Linear(512, 512), nn.GELU())]
    return nn.Sequential(*parts, nn.Linear(512, 10)), torch.randn(batch, 512), torch.randint(0, 10, (batch,))


NETWORKS = {"convolutions": (audio, 32), "linear layers": (layered, 256)}


def step_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor, optimizer: torch.optim.Optimizer) -> Step:
    """One training step."""

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def seconds(step: Step) -> float:
    """How long it takes."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def traced(tracer: bpt.trace, step: Step) -> None:
    """A step, recorded."""
    with tracer:
        step()


def written(folder: Path, again: Path) -> float:
    """How long the disk takes for the files of a step."""
    arrays = {path.name: np.load(path) for path in folder.glob("*.npy")}
    again.mkdir()

    def write() -> None:
        for name, array in arrays.items():
            np.save(again / name, array)

    return seconds(write)


def main() -> None:
    """Print plain, traced and disk for each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--samples", type=int, help="record so many samples one by one")
    args = parser.parse_args()
    for name, (make, batch) in NETWORKS.items():
        torch.manual_seed(1)
        model, x, y = make(batch)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        step = step_of(model, x, y, optimizer)
        step()
        best: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as root:
            for i in range(args.steps):
                folder = Path(root) / "trace"
                tracer = bpt.trace(model, folder, optimizer=optimizer, samples=args.samples)

                found = {"plain": seconds(step), "traced": seconds(partial(traced, tracer, step))}
                found["disk"] = written(folder / "step000", Path(root) / f"again{i}")
                size = sum(path.stat().st_size for path in (folder / "step000").iterdir())
                shutil.rmtree(folder)
                shutil.rmtree(Path(root) / f"again{i}")
                best = {key: min(value, best.get(key, value)) for key, value in found.items()}
        rest = (best["traced"] - best["disk"]) / best["plain"]
        row = {key + "_ms": round(1e3 * value, 1) for key, value in best.items()}
        print(
            json.dumps(
                {
                    "network": name,
                    "megabytes": round(size / 2**20, 1),
                    **row,
                    "without_disk": round(rest, 2),
                    "wanted": 1.3,
                }
            )
        )


if __name__ == "__main__":
    main()

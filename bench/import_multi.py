"""How fast are streams of sidecars imported? Ours beside the npm package's, in one run, with the ratio.

    python bench/import_multi.py [--peer FOLDER] [--steps 10000] [--classifier-steps 1000]

The streams are recorded by our own PyTorch helper. Each command is run as a user runs it, start-up and all; the rate
is also given without start-up (the time of a stream less that of its first line), and the memory at its highest.
FOLDER is the package's own (…/node_modules/@mcptoolshop/backprop-trace); it is installed into a cache where it is not given.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch

from backproof.adapters.classic.pytorch_helper import TraceDumper
from helper_cost import Training
from peer import command, installed, peer

STREAMS = {"2-2-2": (2, 2, 2), "9-16-4": (9, 16, 4)}


def record(path, sizes, steps):
    training = Training(sizes)
    with TraceDumper(
        training.model, training.optimizer, training.loss, out=path, trace_id="0" * 32, topology_loss=training.kind
    ) as dumper:
        for _ in range(steps):
            with dumper.step(targets=training.y):
                training.step()


LAUNCHER = """
import os, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


class Run(NamedTuple):
    """What one command took."""

    seconds: float
    processor: float  # seconds of all cores together: what a busy machine distorts least
    megabytes: float


def measured(line, path):
    """One command with its output thrown away.

    A small launcher starts it: a child begins with its parent's memory, and this process holds a framework.
    """
    launched = [sys.executable, "-S", "-c", LAUNCHER, *line, str(path)]
    said = subprocess.run(launched, capture_output=True, check=True, text=True, env=installed()).stdout.split()
    seconds, processor, peak = map(float, said)
    return Run(seconds, processor, peak / (1024 if sys.platform == "linux" else 1 << 20))


def least(runs):
    """The best of each figure, the worst of memory."""
    columns = list(zip(*runs, strict=True))
    return Run(min(columns[0]), min(columns[1]), max(columns[2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--classifier-steps", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    commands = {"bp": [sys.executable, "-m", "backproof", "import", "pytorch", "multi"]}
    folder = peer(options.peer)
    if folder is not None:
        commands["npm"] = [*command(folder), "import", "pytorch", "multi"]
    with tempfile.TemporaryDirectory() as folder:
        for name, sizes in STREAMS.items():
            steps = options.steps if name == "2-2-2" else options.classifier_steps
            path, one = Path(folder) / "stream.jsonl", Path(folder) / "one.jsonl"
            record(path, sizes, steps)
            with path.open("rb") as stream:
                one.write_bytes(stream.readline())
            found = {}
            for tool, line in commands.items():
                measured(line, one)  # so that what is compiled once, is
                start = least([measured(line, one) for _ in range(3)])
                whole = least([measured(line, path) for _ in range(3 if tool == "bp" else 1)])
                found[tool] = whole, start
                print(
                    f"{name}, {steps} steps, {path.stat().st_size / 1e6:.0f} MB: {tool} {whole.seconds:.2f} s "
                    f"({start.seconds:.2f} s of it start-up), {whole.processor:.2f} s of processor "
                    f"({start.processor:.2f}), {whole.megabytes:.0f} MB"
                )
            if "npm" in found:
                (npm, npm_start), (bp, bp_start) = found["npm"], found["bp"]
                rates = (npm.seconds - npm_start.seconds) / (bp.seconds - bp_start.seconds)
                work = (npm.processor - npm_start.processor) / (bp.processor - bp_start.processor)
                print(
                    f"  npm/bp: {npm.seconds / bp.seconds:.1f} in all, {rates:.1f} a step, {work:.1f} in processor time"
                )


if __name__ == "__main__":
    main()

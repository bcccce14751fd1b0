"""How fast are streams of sidecars imported? Ours beside the npm package's, in one run, with the ratio.

    python bench/import_multi.py [--peer FOLDER] [--steps 10000] [--classifier-steps 500]

The streams are recorded by our own PyTorch helper. Each command is run as a user runs it, start-up and all; the rate
is also given without start-up (the time of a stream less that of its first line), and the memory at its highest.
FOLDER is the package's own (…/node_modules/@mcptoolshop/backprop-trace), or the environment's BACKPROOF_PEER.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import torch

from backproof.adapters.classic.pytorch_helper import TraceDumper
from helper_cost import Training

STREAMS = {"2-2-2": (2, 2, 2), "9-16-4": (9, 16, 4)}


def record(path, sizes, steps):
    training = Training(sizes)
    with TraceDumper(
        training.model, training.optimizer, training.loss, out=path, trace_id="0" * 32, topology_loss=training.kind
    ) as dumper:
        for _ in range(steps):
            with dumper.step(targets=training.y):
                training.step()


def measured(command, path):
    """Seconds and the highest resident megabytes of one command, its output thrown away."""
    start = time.perf_counter()
    child = os.posix_spawnp(
        command[0],
        [*command, str(path)],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(child, 0)
    assert status == 0, f"{command} ended with {status}"
    return time.perf_counter() - start, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=os.environ.get("BACKPROOF_PEER"))
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--classifier-steps", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    commands = {"bp": [sys.executable, "-m", "backproof", "import", "pytorch", "multi"]}
    if options.peer:
        commands["npm"] = ["node", f"{options.peer}/dist/bin/bp.js", "import", "pytorch", "multi"]
    else:
        print("the peer is not installed (--peer or BACKPROOF_PEER): its figures are missing")
    with tempfile.TemporaryDirectory() as folder:
        for name, sizes in STREAMS.items():
            steps = options.steps if name == "2-2-2" else options.classifier_steps
            path, one = Path(folder) / "stream.jsonl", Path(folder) / "one.jsonl"
            record(path, sizes, steps)
            with path.open("rb") as stream:
                one.write_bytes(stream.readline())
            seconds = {}
            for tool, command in commands.items():
                measured(command, one)  # so that what is compiled once, is
                startup = min(measured(command, one)[0] for _ in range(3))
                whole, memory = min(measured(command, path) for _ in range(3 if tool == "bp" else 1))
                seconds[tool] = (whole, whole - startup)
                rate = steps / (whole - startup)
                print(
                    f"{name}, {steps} steps, {path.stat().st_size / 1e6:.0f} MB: {tool} {whole:.2f} s "
                    f"({startup:.2f} s of it start-up), {rate:.0f} steps/s, {memory:.0f} MB"
                )
            if "npm" in seconds:
                ratios = [seconds["npm"][k] / seconds["bp"][k] for k in (0, 1)]
                print(f"  npm/bp: {ratios[0]:.1f} with start-up, {ratios[1]:.1f} without")


if __name__ == "__main__":
    main()

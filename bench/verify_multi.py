"""How fast is `bp verify multi`? Bundles of our own engine through our command and the npm package's, in turns, in one run.

    python bench/verify_multi.py [--steps 10000] [--classifier-steps 1000] [--rounds 3] [--peer FOLDER] [--cache FOLDER]

The peer (FOLDER holds its node_modules) is installed into the cache where it is missing; without node or npm its column
is left out, and that is said. A figure is the best of the rounds: records a second of the whole command, start included,
and the most memory that it held. `start` is one record from a cold start. Ours checks every rule and runs the engine
again on every record; the peer does not run its engine in this mode.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from backproof.receipt.authoring import BUILTIN, author_step
from backproof.receipt.authoring.builtin import dense_topology, numeric_policy
from backproof.receipt.emission import emit

PACKAGE = "@mcptoolshop/backprop-trace@1.0.0"
TOLERANCE = {"atol": 1e-8, "rtol": 1e-6}  # the widest that the peer accepts; it takes the file's word for its bounds
GOAL = 20.0
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "backproof"


class Cost(NamedTuple):
    """What one run of a command cost."""

    seconds: float
    megabytes: float
    exit: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--classifier-steps", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--peer", type=Path)
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    peer = peer_command(args.peer or args.cache / "peer-1.0.0")
    print(
        f"{'':34} {'records/s':>10} {'MB/s':>6} {'RSS MB':>7}    {'peer':>8} {'RSS MB':>7}   ratio  (goal {GOAL:.0f})"
    )
    for title, steps, given in (
        ("Mazur 2-2-2", args.steps, mazur()),
        ("9-16-4 classifier", args.classifier_steps, classifier()),
    ):
        path = bundle(args.cache, title, given, steps)
        compare(f"{title}, {steps} steps", path, steps, peer, args.rounds)
    start(peer, args.rounds)
    return 0


def compare(title: str, path: Path, records: int, peer: list[str] | None, rounds: int) -> None:
    """One row: our command, the peer's, and their ratio."""
    commands = {"ours": [sys.executable, "-m", "backproof"], "peer": peer}
    best = race(
        {name: [*command, "verify", "multi", str(path)] for name, command in commands.items() if command}, rounds
    )
    ours = best["ours"]
    size = path.stat().st_size / 1e6
    row = f"{title:34} {records / ours.seconds:10.0f} {size / ours.seconds:6.0f} {ours.megabytes:7.0f}"
    if "peer" in best:
        theirs = best["peer"]
        row += f"    {records / theirs.seconds:8.0f} {theirs.megabytes:7.0f} {theirs.seconds / ours.seconds:6.1f} x"
    print(row + ("" if ours.exit == 0 else f"   (exit {ours.exit})"), flush=True)


def start(peer: list[str] | None, rounds: int) -> None:
    """A cold start: one built-in receipt."""
    commands = {"ours": [sys.executable, "-m", "backproof", "verify", "mazur"]}
    if peer:
        commands["peer"] = [*peer, "verify", "mazur"]
    best = race(commands, 2 * rounds)
    theirs = f", the peer {best['peer'].seconds:.2f} s" if "peer" in best else ""
    print(f"start: bp verify mazur {best['ours'].seconds:.2f} s{theirs}")


def race(commands: dict[str, list[str]], rounds: int) -> dict[str, Cost]:
    """Each command's best, in turns."""
    best: dict[str, Cost] = {}
    for _ in range(rounds):
        for name, command in commands.items():
            cost = run(command)
            if name not in best or cost.seconds < best[name].seconds:
                best[name] = cost
    return best


def run(command: list[str]) -> Cost:
    """Run a command to its end in a process of its own, which measures its one child."""
    begin = time.perf_counter()
    probe = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    script = [sys.executable, "-I", "-S", "-c", probe, *command]
    told = subprocess.run(script, capture_output=True, text=True, check=True, env=os.environ).stdout.split()
    return Cost(time.perf_counter() - begin, int(told[1]) / 1024, int(told[0]))


def peer_command(folder: Path) -> list[str] | None:
    """The peer's command, installed if need be; None, and a word why, where that cannot be."""
    if shutil.which("node") is None:
        print("the peer is left out: there is no node")
        return None
    program = folder / "node_modules" / ".bin" / "bp"
    if not program.exists():
        npm = shutil.which("npm")
        done = npm and subprocess.run([npm, "install", "--silent", "--prefix", str(folder), PACKAGE], check=False)
        if not npm or (done and done.returncode) or not program.exists():
            print("the peer is left out: npm cannot install it here")
            return None
    return ["node", str(program.resolve())]


def mazur() -> dict[str, Any]:
    """Mazur's published network."""
    return BUILTIN["mazur"]()


def classifier() -> dict[str, Any]:
    """9 inputs, 16 ReLU units, 4 classes."""
    inputs, hidden, outputs = (
        [f"{letter}{i}" for i in range(1, n + 1)] for letter, n in (("x", 9), ("h", 16), ("c", 4))
    )
    topology = dense_topology(inputs, hidden, outputs, lambda a, b: f"w_{a}_{b}")
    topology |= {"activation_hidden": "relu", "activation_output": "softmax", "loss": "cross_entropy_softmax"}
    draw = random.Random(1)
    return {
        "topology": topology,
        "learning_rate": 0.01,
        "inputs": {unit: round(draw.random(), 3) for unit in inputs},
        "targets": dict(zip(outputs, (1, 0, 0, 0), strict=True)),
        "parameters_before": {name: round(draw.uniform(-0.3, 0.3), 4) for name in topology["parameter_order"]},
        "bias_policy": {"mode": "constant", "updated_in_step": False},
        "fixture": "classifier-9-16-4",
        "metadata": {"source": "bench", "gradient_convention": "descent_direction"},
    }


def steps_of(given: dict[str, Any], steps: int) -> Iterator[bytes]:
    """The canonical lines of a run, each step from the parameters that the step before it wrote."""
    given = {**given, "trace_id": "0123456789abcdef0123456789abcdef", "numeric_policy": numeric_policy(dict(TOLERANCE))}
    for index in range(steps):
        line = emit(author_step({**given, "step_index": index}))
        given["parameters_before"] = json.loads(line)["parameters_after"]
        yield line


def bundle(cache: Path, title: str, given: dict[str, Any], steps: int) -> Path:
    """A bundle in the cache, made if it is not there."""
    path = cache / f"{title.replace(' ', '-')}-{steps}.jsonl"
    if not path.exists():
        print(f"making {path}", file=sys.stderr)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            file.writelines(steps_of(given, steps))
        partial.replace(path)
    return path


if __name__ == "__main__":
    sys.exit(main())

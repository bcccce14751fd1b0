"""How fast is `bp verify multi`? Bundles through our command and the npm package's, in turns, in one run.

    python bench/verify_multi.py [--steps 10000] [--classifier-steps 1000] [--rounds 3] [--peer FOLDER] [--cache FOLDER]

The peer (FOLDER is the package's own) is installed into the cache where it is missing; without node or npm its column
is left out, and that is said. *Imported* bundles are what users have: steps that our PyTorch helper recorded, imported,
bound by a digest. *Authored* ones are the engine's own, without a digest; on these the peer runs no engine, and ours
does. A figure is the best of the rounds: records a second of the whole command, start included, and the most memory
that it held; `less start` is the ratio of what each needs beyond its own start, which is one record from cold.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from backproof.receipt.authoring import BUILTIN, author_step
from backproof.receipt.authoring.builtin import dense_topology, numeric_policy
from backproof.receipt.emission import emit
from peer import CACHE, command, installed, peer

TOLERANCE = {"atol": 1e-8, "rtol": 1e-6}  # the widest that the peer accepts; it takes the file's word for its bounds
GOAL = 20.0


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
    parser.add_argument("--peer")
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    folder = peer(args.peer)
    commands = {"ours": [sys.executable, "-m", "backproof"]} | ({"peer": command(folder)} if folder else {})
    starts = start(commands, args.rounds)
    print(
        f"{'':46} {'records/s':>9} {'MB/s':>5} {'RSS MB':>6} {'peer':>7} {'RSS MB':>6}  ratio (goal {GOAL:.0f})  less start"
    )
    networks = (
        ("Mazur 2-2-2", args.steps, (2, 2, 2), mazur),
        ("9-16-4 classifier", args.classifier_steps, (9, 16, 4), classifier),
    )
    for title, steps, sizes, given in networks:
        imported = made(
            args.cache / f"imported-{steps}-{sizes[0]}.jsonl", lambda out, n=steps, s=sizes: recorded(out, s, n)
        )
        compare(f"{title}, imported, {steps} steps", imported, steps, commands, starts, args.rounds)
        authored = made(
            args.cache / f"authored-{steps}-{sizes[0]}.jsonl", lambda out, n=steps, g=given: author(out, g(), n)
        )
        compare(f"{title}, authored, {steps} steps", authored, steps, commands, starts, args.rounds)
    return 0


def compare(
    title: str, path: Path, records: int, commands: dict[str, list[str]], starts: dict[str, Cost], rounds: int
) -> None:
    """One row: our command, the peer's, and their ratio."""
    best = race({name: [*command, "verify", "multi", str(path)] for name, command in commands.items()}, rounds)
    ours = best["ours"]
    size = path.stat().st_size / 1e6
    row = (
        f"{f'{title}, {size:.0f} MB':46} {records / ours.seconds:9.0f} {size / ours.seconds:5.0f} {ours.megabytes:6.0f}"
    )
    if "peer" in best:
        theirs = best["peer"]
        rest = (theirs.seconds - starts["peer"].seconds) / (ours.seconds - starts["ours"].seconds)
        ratio = f"{theirs.seconds / ours.seconds:6.1f}            {rest:6.1f}"
        row += f" {records / theirs.seconds:7.0f} {theirs.megabytes:6.0f} {ratio}"
    exits = {name: cost.exit for name, cost in best.items() if cost.exit}
    print(row + (f"   (exit codes {exits})" if exits else ""), flush=True)


def start(commands: dict[str, list[str]], rounds: int) -> dict[str, Cost]:
    """A cold start: one built-in receipt."""
    best = race({name: [*command, "verify", "mazur"] for name, command in commands.items()}, 2 * rounds)
    theirs = f", the peer {best['peer'].seconds:.2f} s" if "peer" in best else ""
    print(f"start: bp verify mazur {best['ours'].seconds:.2f} s{theirs}", flush=True)
    return best


def race(commands: dict[str, list[str]], rounds: int) -> dict[str, Cost]:
    """Each command's best, in turns."""
    best: dict[str, Cost] = {}
    for _ in range(rounds):
        for name, line in commands.items():
            cost = run(line)
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
    told = subprocess.run(script, capture_output=True, text=True, check=True, env=installed()).stdout.split()
    return Cost(time.perf_counter() - begin, int(told[1]) / 1024, int(told[0]))


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


def author(out: Path, given: dict[str, Any], steps: int) -> None:
    """A bundle of the engine's own."""
    with out.open("wb") as file:
        file.writelines(steps_of(given, steps))


def recorded(out: Path, sizes: tuple[int, ...], steps: int) -> None:
    """A bundle of steps that PyTorch took."""
    from import_multi import record

    sidecars = out.with_suffix(".sidecars")
    record(sidecars, sizes, steps)
    subprocess.run(
        [sys.executable, "-m", "backproof", "import", "pytorch", "multi", sidecars, "--out", out], check=True
    )
    sidecars.unlink()


def made(path: Path, make: Callable[[Path], None]) -> Path:
    """A bundle in the cache, made if it is not there."""
    if not path.exists():
        print(f"making {path}", file=sys.stderr)
        partial = path.with_suffix(".partial")
        make(partial)
        partial.replace(path)
    return path


if __name__ == "__main__":
    sys.exit(main())

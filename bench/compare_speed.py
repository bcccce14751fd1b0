"""How fast is `bp compare`, beside NumPy loading the same files and taking their largest difference; and does its memory stay flat?

    python bench/compare_speed.py [--gigabytes 1] [--megabytes-per-file 4] [--folder DIR]

The traces are made first (and left in DIR, if one is named). Both readings run in a process of their own, the files in the page cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

NUMPY = """
import sys, time, resource
from pathlib import Path
import numpy as np
a, b = map(Path, sys.argv[1:3])
began = time.perf_counter()
worst = max(float(np.max(np.abs(np.load(path) - np.load(b / path.name)))) for path in sorted(a.glob("*.npy")))
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
OURS = """
import sys, time, resource
from backproof.verify.traces.compare import Options, compare
began = time.perf_counter()
found = compare(sys.argv[1], sys.argv[2], Options(derive=sys.argv[3] == "derive"))
assert found.verdict == "agree", found.first
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def make(folder: Path, files: int, numbers: int) -> None:
    """Two traces of a chain of layers whose numbers agree but for rounding."""
    from backproof.trace import Event, Manifest, Probe, TraceWriter

    rng = np.random.default_rng(0)
    names = [f"layer{i:05d}" for i in range(files)]
    probes = tuple(Probe(name, (names[i - 1],) if i else ("input",)) for i, name in enumerate(names))
    writers = [TraceWriter(folder / side, Manifest(probes=probes)) for side in "ab"]
    with writers[0].step(0) as left, writers[1].step(0) as right:
        for name in names:
            x = rng.standard_normal(numbers, dtype=np.float32)
            left(Event(name, "fwd", tensor=x))
            right(Event(name, "fwd", tensor=x * (1 + 1e-7 * rng.standard_normal(numbers, dtype=np.float32))))


def measure(code: str, *arguments: str) -> tuple[float, float]:
    """(seconds, megabytes at most) of a process of its own; the better of three."""
    runs = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        seconds, kilobytes = map(float, done.stdout.split())
        runs.append((seconds, kilobytes / 1024))
    return min(runs)


def main() -> None:
    """Print the ratio, and the memory for few files and for many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of both traces together")
    parser.add_argument("--megabytes-per-file", type=float, default=4.0)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = args.folder or Path(temporary)
        numbers = int(args.megabytes_per_file * 2**20 / 4)
        many = max(int(args.gigabytes * 2**30 / (8 * numbers)), 2)
        for files in (max(many // 8, 1), many):
            folder = root / f"{files}x{numbers}"
            if not (folder / "b" / "trace.json").is_file():
                make(folder, files, numbers)
            size = 8 * numbers * files / 2**30
            numpy_time, numpy_memory = measure(NUMPY, *(str(folder / side / "step000") for side in "ab"))
            our_time, our_memory = measure(OURS, str(folder / "a"), str(folder / "b"), "compare")
            print(
                json.dumps(
                    {
                        "gigabytes": round(size, 3),
                        "files": 2 * files,
                        "numpy_s": round(numpy_time, 3),
                        "compare_s": round(our_time, 3),
                        "speed_of_numpy": round(numpy_time / our_time, 3),
                        "wanted": 0.7,
                        "gigabytes_per_s": round(size / our_time, 2),
                        "numpy_MB": round(numpy_memory),
                        "compare_MB": round(our_memory),
                    }
                )
            )


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"# {time.perf_counter() - began:.0f} s", file=sys.stderr)

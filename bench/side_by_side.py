"""What every bench shares: run the contenders in processes of their own, in turns, and print the ratio.

A contender is a Python snippet that defines `step()`. Each runs alone in a fresh process with the same number of threads, since two
libraries' thread pools in one process fight over the cores; rounds alternate, so that a busy machine is busy for all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

HARNESS = """
import json, sys, time
namespace = {}
exec(sys.stdin.read(), namespace)
step, times = namespace["step"], []
step()
deadline = time.perf_counter() + float(sys.argv[1])
while len(times) < 3 or time.perf_counter() < deadline:
    begin = time.perf_counter()
    step()
    times.append(time.perf_counter() - begin)
print(json.dumps(min(times)))
"""


def seconds(snippet: str, *, threads: int = 2, budget: float = 2.0) -> float:
    """The best time of `step()` in a process of its own."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    run = subprocess.run(
        [sys.executable, "-c", HARNESS, str(budget)],
        input=snippet,
        env={**os.environ, **limits},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise SystemExit(f"a contender failed:\n{run.stderr}")
    return float(json.loads(run.stdout))


def race(
    title: str, contenders: dict[str, str], *, rounds: int = 3, threads: int = 2, budget: float = 2.0
) -> dict[str, float]:
    """Every contender's best over alternating rounds, printed with its ratio to the first."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, snippet in contenders.items():
            best[name] = min(best[name], seconds(snippet, threads=threads, budget=budget))
    first = best[next(iter(contenders))]
    print(title)
    for name, time in best.items():
        print(f"  {name:<22} {time * 1e3:10.2f} ms   {first / time:6.2f} × as long for the first")
    return best

"""How long does it take to start? `import backproof` and `bp --version` (goal: 0.15 s), and a verdict from cold (goal: 0.3 s).

Beside each, what the interpreter takes for nothing at all; a figure is the best of some rounds, which alternate.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from peer import installed

BP = str(Path(sys.executable).with_name("bp"))
STARTS = {
    "python -c pass": ([sys.executable, "-c", "pass"], None),
    "import backproof": ([sys.executable, "-c", "import backproof"], 0.15),
    "bp --version": ([BP, "--version"], 0.15),
    "bp verify mazur": ([BP, "verify", "mazur"], 0.3),
}


def once(command: list[str]) -> float:
    """One run, in seconds."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=installed())
    return time.perf_counter() - begin


def main(rounds: int = 15) -> int:
    """Print the table."""
    best = dict.fromkeys(STARTS, float("inf"))
    for _ in range(rounds):
        for name, (command, _) in STARTS.items():
            best[name] = min(best[name], once(command))
    nothing = best["python -c pass"]
    for name, (_, goal) in STARTS.items():
        wanted = f"   (goal {goal})" if goal else ""
        print(f"{name:<18} {best[name]:6.3f} s   {best[name] / nothing:5.2f} × an empty interpreter{wanted}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

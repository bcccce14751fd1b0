"""Do recording and verifying grow linearly, with depth and with steps? Two curves, and the peak of memory, which steps must not raise."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DEPTHS, STEPS = (2, 4, 8, 16, 32), (5, 10, 20, 40, 80)
WIDTH, BATCH = 128, 256


def record(out: str, depth: int, steps: int) -> None:
    """Blocks of a residual network under AdamW; the seconds of processors of the steps, recorded and written."""
    import torch

    import backproof.torch as bpt

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 4 * WIDTH)
            self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(depth)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    used = time.process_time()
    with bpt.Recorder(model, optimizer, out=out) as recorder:
        for _ in range(steps):
            with recorder.step():
                optimizer.zero_grad()
                model(torch.randn(BATCH, WIDTH)).square().mean().backward()
                optimizer.step()
    print(time.process_time() - used, _peak())


def verify(run: str) -> None:
    """Every step, as it is reached."""
    from backproof.diagnose.run import Workers, verdicts
    from backproof.verify.run import open_run
    from backproof.verify.step import Options

    used = time.process_time()
    for verdict in verdicts(open_run(run), Options(), Workers()):
        assert verdict.verdict == "holds"
    print(time.process_time() - used, _peak())


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(depth: int, steps: int) -> list[float]:
    """Seconds of processors and peak of memory, of recording and of verifying, each in a process of its own."""
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        for flags in (["--record", run, str(depth), str(steps)], ["--verify", run]):
            said = subprocess.run([sys.executable, __file__, *flags], check=True, capture_output=True, text=True).stdout
            found += map(float, said.split())
    return found


def main() -> int:
    """Print both curves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--verify", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.record:
        record(args.record[0], int(args.record[1]), int(args.record[2]))
    elif args.verify:
        verify(args.verify)
    else:
        for name, many, pairs in (
            ("blocks", DEPTHS, [(depth, 3) for depth in DEPTHS]),
            ("steps", STEPS, [(2, n) for n in STEPS]),
        ):
            print(f"{name}: recording, then verifying: seconds of processors, ms for each, peak of memory in MB")
            for n, pair in zip(many, pairs, strict=True):
                recording, most, verifying, top = measured(*pair)
                print(f"{n:6}{recording:10.2f}{1e3 * recording / n:10.1f}{most:8.0f}", end="      ")
                print(f"{verifying:10.2f}{1e3 * verifying / n:10.1f}{top:8.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What does verifying a step cost? A GPT-2-shaped step (6 layers, width 384, 8 × 128 tokens, float32), against PyTorch on the same cores.

Goals: all equations with both bounds ≤ 2 × a float64 step; memory ≤ 2 × the recorded step; `--screen` ≤ 0.5 × a float32 step. Ratios are of
seconds, and of seconds of processors, which say more where other programs run beside.
"""

from __future__ import annotations

import argparse
import copy
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"


def model_and_data(layers: int, vocabulary: int):
    import torch
    import transformers as hf

    torch.manual_seed(0)
    config = hf.GPT2Config(
        n_layer=layers,
        n_embd=384,
        n_head=6,
        vocab_size=vocabulary,
        n_positions=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    ids = torch.randint(0, vocabulary, (8, 128))
    return hf.GPT2LMHeadModel(config).train(), {"input_ids": ids, "labels": ids}


Times = tuple[float, float]
"""Seconds, and seconds of processors."""


def plain(model, data, steps: int = 3) -> Times:
    """The best of some steps of AdamW."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    times = []
    for _ in range(steps):
        begin, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        model(**data).loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - begin, time.process_time() - used))
    seconds, processors = zip(*times, strict=True)
    return min(seconds), min(processors)


def record(out: Path, layers: int, vocabulary: int) -> tuple[Times, Times]:
    """Record two steps; the time of a float32 and of a float64 step without a recorder."""
    import torch

    import backproof.torch as bpt

    model, data = model_and_data(layers, vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    with bpt.Recorder(model, optimizer, out=out) as recorder:
        for _ in range(2):
            with recorder.step():
                optimizer.zero_grad()
                model(**data).loss.backward()
                optimizer.step()
    del optimizer
    return plain(copy.deepcopy(model), data), plain(model.double(), data)


def verify(run: str, *, screen: bool) -> None:
    """In a process of its own: the time of verifying the second step, and the peak of memory."""
    from backproof.verify.run import open_run, verify_at
    from backproof.verify.step import Options

    begin, used = time.perf_counter(), time.process_time()
    verdict = verify_at(open_run(run), 1, Options(screen=screen))
    seconds, processors = time.perf_counter() - begin, time.process_time() - used
    peak = peak_memory()
    print(
        f"{seconds} {processors} {peak} {verdict.counts['checked']} {verdict.counts['broken']} {len(verdict.not_checked)}"
    )


def peak_memory() -> int:
    """In bytes; of this program alone, where the system tells it (the usual number begins with that of who started it)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    own = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return (own[0] if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


def measured(run: Path, *more: str) -> list[float]:
    flags = [sys.executable, __file__, "--verify", str(run), *more]
    return [float(x) for x in subprocess.run(flags, check=True, capture_output=True, text=True).stdout.split()]


def main() -> int:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verify", help=argparse.SUPPRESS)
    parser.add_argument("--screen", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=50257)
    args = parser.parse_args()
    if args.verify:
        verify(args.verify, screen=args.screen)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        single, double = record(run, args.layers, args.vocabulary)
        size = sum(path.stat().st_size for path in (run / "step000000").iterdir())
        print(
            f"float32 step {single[0]:.2f} s ({single[1]:.2f} s of processors), float64 step {double[0]:.2f} s"
            f" ({double[1]:.2f} s of processors), recorded step {size / 1e6:.0f} MB"
        )
        for name, more in (("verified", ()), ("screened", ("--screen",))):
            seconds, processors, peak, checked, broken, unchecked = measured(run, *more)
            print(
                f"{name} {checked:.0f} equations ({broken:.0f} broken, {unchecked:.0f} places not checked) in {seconds:.2f} s"
                f" ({processors:.2f} s of processors):\n  {seconds / double[0]:.2f} × the float64 step, {seconds / single[0]:.2f} ×"
                f" the float32 step; of processors {processors / double[1]:.2f} × and {processors / single[1]:.2f} ×;"
                f" peak {peak / 1e6:.0f} MB, {peak / size:.2f} × the recorded step"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())

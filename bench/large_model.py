"""Is a step of a 124M-parameter GPT-2 (batch 1 × 256, from its config) recorded and verified on this machine? Time and memory."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"


def record(out: Path, tokens: int) -> None:
    """One step after one that was not looked at; in a process of its own."""
    import torch
    import transformers as hf

    import backproof.torch as bpt

    torch.manual_seed(0)
    config = hf.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = hf.GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(0, config.vocab_size, (1, tokens))

    def step() -> None:
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()

    begin, cpu = time.perf_counter(), time.process_time()
    step()
    plain, plain_cpu = time.perf_counter() - begin, time.process_time() - cpu
    with bpt.Recorder(model, optimizer, out=out) as recorder:
        begin = time.perf_counter()
        with recorder.step():
            step()
        recorded = time.perf_counter() - begin
    print(
        f"{model.num_parameters():,} parameters, step {plain:.2f} s ({plain_cpu:.1f} s of processors), recorded {recorded:.2f} s,"
        f" peak {_peak() / 1e9:.1f} GB"
    )


def verify(run: str, *, screen: bool) -> None:
    """In a process of its own."""
    from backproof.verify.run import open_run, verify_at
    from backproof.verify.step import Options

    begin, cpu = time.perf_counter(), time.process_time()
    verdict = verify_at(open_run(run), 0, Options(screen=screen))
    seconds, processors = time.perf_counter() - begin, time.process_time() - cpu
    counts = verdict.counts
    print(
        f"{'screened' if screen else 'verified'}: {verdict.verdict}, {counts['checked']} equations,"
        f" {counts['not_checked']} places not checked, in {seconds:.1f} s ({processors:.1f} s of processors), peak {_peak() / 1e9:.1f} GB"
    )


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> int:
    """Record, verify, screen: each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--do", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.do:
        what, run = args.do
        if what == "record":
            record(Path(run), args.tokens)
        else:
            verify(run, screen=what == "screen")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        for what in ("record", "verify", "screen"):
            subprocess.run([sys.executable, __file__, "--tokens", str(args.tokens), "--do", what, run], check=True)
            if what == "record":
                size = sum(path.stat().st_size for path in Path(run).rglob("*") if path.is_file())
                print(f"recorded step: {size / 1e9:.2f} GB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

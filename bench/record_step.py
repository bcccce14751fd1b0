"""What recording costs: a step of a GPT-2-shaped model, plain and recorded, and how fast the record is written behind it."""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers

import backproof.torch as bpt


def model_of(args):
    config = transformers.GPT2Config(
        n_layer=args.layers,
        n_embd=args.width,
        n_head=6,
        vocab_size=args.vocabulary,
        n_positions=args.tokens,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).train()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def batch_of(args):
    ids = torch.arange(args.batch * args.tokens).reshape(args.batch, args.tokens) * 7 % args.vocabulary
    return {"input_ids": ids, "labels": ids}


def seconds(step):
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="print where the recorder's time goes")
    args = parser.parse_args()
    model, optimizer = model_of(args)
    batch = batch_of(args)

    def step():
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

    folder = Path(tempfile.mkdtemp())
    recorder = bpt.Recorder(model, optimizer, out=folder / "run")
    plain, recorded, waiting = [], [], []

    def observed():
        recorder.begin()
        begun = time.perf_counter()
        step()
        ended = time.perf_counter()
        recorder.end()
        return ended - begun

    step()
    for _ in range(args.steps):
        plain.append(seconds(step))
        recorded.append(seconds(observed))
        waiting.append(seconds(recorder._wait))  # noqa: SLF001 # what the disk still needs once the step is done
    if args.profile:
        import cProfile

        cProfile.runctx("observed()", {"observed": observed}, {}, sort="tottime")
    recorder.close()
    calls = model.num_parameters()
    size = sum(f.stat().st_size for f in (folder / "run" / "step000000").iterdir())
    shutil.rmtree(folder)
    p, r, w = (statistics.median(x) for x in (plain, recorded, waiting))
    print(f"parameters {calls:,}, {torch.get_num_threads()} threads, median of {args.steps}")
    print(f"plain step     {p:.3f} s")
    print(f"recorded step  {r:.3f} s   {r / p:.2f} × plain")
    print(f"written behind {w:.3f} s   {size / 2**20:.0f} MiB a step")


if __name__ == "__main__":
    main()

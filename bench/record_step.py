"""What recording costs: a step of a GPT-2-shaped model, plain and recorded, how fast the record is written behind it, and a watched step.

Goals: a recorded step ≤ 1.5 × a plain one; a hundred steps of which one is watched ≤ 1.03 × as many plain ones.
"""

import argparse
import os
import shutil
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
    """Seconds, and seconds of processors."""
    begin, used = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - begin, time.process_time() - used


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
        step()
        recorder.end()

    step()
    for _ in range(args.steps):
        plain.append(seconds(step))
        recorded.append(seconds(observed))
        waiting.append(seconds(recorder._wait))  # noqa: SLF001 # what the disk still needs once the step is done
    if args.profile:
        import cProfile

        cProfile.runctx("observed()", {"observed": observed}, {}, sort="tottime")
    recorder.close()
    size = sum(f.stat().st_size for f in (folder / "run" / "step000000").iterdir())
    shutil.rmtree(folder)
    watched = []
    with bpt.watch(model, optimizer, every=1):
        step()  # observed before it is looked at
        watched.extend(seconds(step) for _ in range(max(args.steps // 2, 1)))
    print(
        f"parameters {model.num_parameters():,}, {torch.get_num_threads()} threads, best of {args.steps}: seconds (of processors)"
    )
    p, r, w, v = ([min(each) for each in zip(*x, strict=True)] for x in (plain, recorded, waiting, watched))
    print(f"plain step     {p[0]:.3f} ({p[1]:.3f})")
    print(f"recorded step  {r[0]:.3f} ({r[1]:.3f})   {r[0] / p[0]:.2f} × plain ({r[1] / p[1]:.2f} ×)")
    print(f"written behind {w[0]:.3f} ({w[1]:.3f})   {size / 2**20:.0f} MiB a step")
    hundred = [1 + (a - b) / (100 * b) for a, b in zip(v, p, strict=True)]
    print(
        f"watched step   {v[0]:.3f} ({v[1]:.3f})   a hundred steps, one of them watched: {hundred[0]:.3f} × plain ({hundred[1]:.3f} ×)"
    )


if __name__ == "__main__":
    main()

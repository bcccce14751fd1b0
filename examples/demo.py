"""A tour of backproof on real data: train, certify, record, verify, break on purpose, see what is found.

make demo            # or: python examples/demo.py [FOLDER]
"""

from __future__ import annotations

import os

# Two libraries' thread pools in one process fight over the cores; on networks this small one thread is faster.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import digits
from backproof import Session
from backproof.cli import main as bp
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.text import to_json

HERE = Path(__file__).resolve().parent
OUT = Path(*sys.argv[1:2] or [HERE.parent / "out"]).resolve()


def title(text: str) -> None:
    """A heading."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}\n{'─' * len(text)}")


def shell(*arguments: str) -> int:
    """A `bp` command, shown and run."""
    print(f"$ bp {' '.join(arguments)}".replace(f"{OUT.parent}/", ""), flush=True)
    code = bp(list(arguments))
    print(f"→ exit code {code}")
    return code


def recorded() -> Path:
    """The graph of one training step of the digits MLP, in a file."""
    s = Session()
    (x, y), _ = digits.data()
    parameters = digits.mlp_parameters(digits.np.random.default_rng(1))
    given, labels = s.input(x[:16], "x"), s.input_nat_vec(y[:16], "y")
    leaves = {name: s.input(value, name) for name, value in parameters.items()}
    loss = s.cross_entropy(digits.mlp(s, given, leaves), labels)
    path = OUT / "digits.graph.json"
    path.write_text(to_json(s.graph(loss)), encoding="utf-8")
    return path


def record(run: Path) -> None:
    """Two steps of the digits MLP in PyTorch, in float32 with AdamW."""
    import torch

    import backproof.torch as bpt

    (x, y), _ = digits.data()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with bpt.Recorder(model, optimizer, out=run) as recorder:
        for i in (0, 64):
            images = torch.tensor(x[i : i + 64].reshape(64, 64), dtype=torch.float32)
            labels = torch.tensor(y[i : i + 64])
            with recorder.step():
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(images), labels).backward()
                optimizer.step()


def change_one_weight(path: Path) -> None:
    """What the optimizer left of one weight, forged in the file."""
    raw = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(raw[:8], "little")
    begin, _ = json.loads(raw[8:start])["u0:after:parameter:0.weight"]["data_offsets"]
    (weight,) = struct.unpack_from("<f", raw, start + begin)
    struct.pack_into("<f", raw, start + begin, weight * (1 + 1e-4))
    path.write_bytes(bytes(raw))


def port(name: str, old: str = "", new: str = "") -> Path:
    """The C program of examples/c, copied with this change and compiled."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for source in (HERE / "c").glob("*.[ch]"):
        text = source.read_text(encoding="utf-8").replace("../../c/", f"{HERE.parent}/c/")
        (folder / source.name).write_text(text.replace(old, new) if old else text, encoding="utf-8")
    program = folder / "train"
    sources = (folder / "train.c", folder / "layers.c")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", program, *sources, "-lm"], check=True)
    return program


def traced(*command: str | Path) -> Path:
    """A run of a training program; the trace that it leaves, whose name comes last."""
    trace = Path(command[-1])
    shutil.rmtree(trace, ignore_errors=True)
    subprocess.run([*command[:-1], "--trace", trace, "--steps", "2"], check=True, stdout=subprocess.DEVNULL)
    return trace


def main() -> int:
    """Run every part; 0 when each ended as it should."""
    OUT.mkdir(parents=True, exist_ok=True)
    expected: list[bool] = []

    title("1. Train on real digits with a session; the loss curve is PyTorch's")
    worst, _, _ = digits.train("mlp", 5)
    expected.append(worst <= 1e-9)

    title("2. Certify the backward pass of that step")
    graph = recorded()
    expected.append(shell("certify", str(graph), "--seed", "1") == 0)

    title("3. Break a derivative on purpose (ReLU forgets its mask on the way back), and certify again")
    right = PRIMITIVES["relu"]
    PRIMITIVES["relu"] = replace(right, vjp=(lambda D, x, y, gy: gy,))
    try:
        expected.append(shell("certify", str(graph), "--seed", "1") == 1)
    finally:
        PRIMITIVES["relu"] = right

    title("4. Record two real PyTorch steps, and verify every equation of them")
    run = OUT / "run"
    shutil.rmtree(run, ignore_errors=True)
    record(run)
    expected.append(shell("verify", str(run)) == 0)

    title("5. Change one weight that was recorded, by one part in ten thousand, and verify again")
    change_one_weight(run / "step000001" / "tensors.safetensors")
    expected.append(shell("verify", str(run)) == 1)
    expected.append(shell("report", str(run), "--out", str(OUT / "run.html")) == 0)

    title(
        "6. A network ported to C beside its PyTorch original, layer by layer; then with a wrong epsilon in its layer norm"
    )
    honest, wrong, data = port("port"), port("wrong", "EPSILON = (real)1e-5", "EPSILON = (real)1e-6"), OUT / "data"
    data.mkdir(exist_ok=True)
    subprocess.run([honest, "--export", data], check=True)
    original = traced(sys.executable, HERE / "c" / "mirror.py", "--data", data, OUT / "torch.trace")
    right, off = traced(honest, "--data", data, OUT / "port.trace"), traced(wrong, "--data", data, OUT / "wrong.trace")
    expected.append(shell("compare", str(right), str(original)) == 0)
    expected.append(shell("compare", str(off), str(original)) == 1)
    expected.append(shell("report", str(off), str(original), "--out", str(OUT / "compare.html")) == 0)

    title("7. A classic receipt: written, verified, forged, and drawn with what does not hold in red")
    receipt, forged, page = OUT / "mazur.jsonl", OUT / "forged.jsonl", OUT / "forged.html"
    expected.append(shell("generate", "mazur", "--out", str(receipt)) == 0)
    expected.append(shell("verify", str(receipt)) == 0)
    text = receipt.read_text(encoding="utf-8")
    forged.write_text(text.replace('"signal_value":-0.138498562', '"signal_value":-0.138498462', 1), encoding="utf-8")
    expected.append(shell("verify", str(forged)) == 1)
    expected.append(shell("show", str(forged), "--out", str(page)) == 1)

    print(f"\n{'all as expected' if all(expected) else 'NOT as expected'}. To look at, in a browser:")
    for page in ("run.html", "compare.html", "forged.html"):
        print(f"  {OUT / page}")
    return 0 if all(expected) else 1


if __name__ == "__main__":
    sys.exit(main())

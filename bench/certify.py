"""How long does it take to certify a graph? A 2-layer MLP 784-128-10 (goal: 2 s), and a GPT-2-shaped graph (goal: 30 s)."""

from __future__ import annotations

import sys
import time

import numpy as np

from backproof import Session


def mlp(batch: int) -> Session:
    """784-128-10 with tanh and cross-entropy."""
    rng, s = np.random.default_rng(0), Session()
    x, y = s.input(rng.normal(size=(batch, 784))), s.input_nat_vec(rng.integers(0, 10, batch))
    w1, b1 = s.input(rng.normal(size=(128, 784))), s.input(np.zeros(128))
    w2, b2 = s.input(rng.normal(size=(10, 128))), s.input(np.zeros(10))
    s.cross_entropy(s.linear(s.tanh(s.linear(x, w1, b1)), w2, b2), y)
    return s


def gpt2(layers: int, width: int, heads: int, tokens: int, vocabulary: int) -> Session:
    """A decoder like GPT-2, with its tied embedding, learned positions, GELU and cross-entropy to the next token."""
    rng, s = np.random.default_rng(0), Session()

    def weight(*shape: int):
        return s.input(rng.normal(size=shape) * 0.02)

    ids = s.input_nat_vec(rng.integers(0, vocabulary, tokens), "ids")
    targets = s.input_nat_vec(rng.integers(0, vocabulary, tokens), "targets")
    wte, wpe = weight(vocabulary, width), weight(tokens, width)
    blocks = [
        {
            "ln1": (weight(width), weight(width)),
            "qkv": (weight(width, 3 * width), weight(3 * width)),
            "proj": (weight(width, width), weight(width)),
            "ln2": (weight(width), weight(width)),
            "up": (weight(width, 4 * width), weight(4 * width)),
            "down": (weight(4 * width, width), weight(width)),
        }
        for _ in range(layers)
    ]
    last = weight(width), weight(width)
    h = s.gather_rows_ref(wte, ids) + wpe
    for block in blocks:
        a = s.layer_norm(h, *block["ln1"]) @ block["qkv"][0] + block["qkv"][1]
        q, k, v = (
            s.transpose(
                s.reshape(a[:, i * width : (i + 1) * width], (1, tokens, heads, width // heads)), axes=(0, 2, 1, 3)
            )
            for i in range(3)
        )
        mixed = s.attention(q, k, v, is_causal=True)
        mixed = s.reshape(s.transpose(mixed, axes=(0, 2, 1, 3)), (tokens, width))
        h = h + mixed @ block["proj"][0] + block["proj"][1]
        u = s.gelu(s.layer_norm(h, *block["ln2"]) @ block["up"][0] + block["up"][1], approximate="tanh")
        h = h + u @ block["down"][0] + block["down"][1]
    logits = s.layer_norm(h, *last) @ s.transpose2d(wte)
    s.cross_entropy(logits, targets)
    return s


def main() -> int:
    """Certify each and print what it took."""
    for name, session, goal in (
        ("MLP 784-128-10, batch 1", mlp(1), 2),
        ("MLP 784-128-10, batch 128", mlp(128), 2),
        ("GPT-2 shape, 4 layers of width 128, 64 tokens", gpt2(4, 128, 4, 64, 1024), 30),
    ):
        begin = time.perf_counter()
        found = session.certify()
        took = time.perf_counter() - begin
        print(
            f"{name}: {took:.2f} s (goal {goal}), {found.values} values, {found.numbers} entries, error ≤ {found.error:.0e}"
        )
        if not found.holds:
            print(found)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What does a bound cost? A product and a convolution in `bounded` (value and both bounds) against the plain value in float64.

Goal: about one more product, so a ratio near 2. And: how loose are the bounds, against what float32 really does?
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np

from backproof.engine.domain import bounded, float32, float64
from backproof.ir.types import Type


def best(run, rounds: int = 5) -> float:
    """The best of some rounds, in seconds."""
    run()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> int:
    """Print both tables."""
    rng = np.random.default_rng(0)
    dot = {"contract": ((1,), (0,)), "batch": ((), ())}
    conv = {
        "stride": (1, 1),
        "padding": ((1, 1), (1, 1)),
        "input_dilation": (1, 1),
        "window_dilation": (1, 1),
        "groups": 1,
    }
    cases = [
        (f"matmul {n}×{n}×{n}", "dot_general", rng.normal(size=(n, n)), rng.normal(size=(n, n)), dot)
        for n in (256, 1024, 2048)
    ]
    cases.append(
        (
            "conv 32×32, 32→32, batch 32",
            "conv",
            rng.normal(size=(32, 32, 32, 32)),
            rng.normal(size=(32, 32, 3, 3)),
            conv,
        )
    )
    print(
        f"{'':30} {'float64':>10} {'bounded':>10} {'ratio':>6}   median bound/error: certain, likely   largest error/bound"
    )
    for name, op, left, right, params in cases:
        single = [value.astype(np.float32) for value in (left, right)]
        values = [value.astype(np.float64) for value in single]
        plain, bound = partial(getattr(float64(), op), **params), partial(getattr(bounded("float32"), op), **params)
        wrapped = [bounded().value(value, Type("real", value.shape)) for value in values]
        one, two = best(partial(plain, *values)), best(partial(bound, *wrapped))
        error = np.abs(getattr(float32(), op)(*single, **params) - plain(*values))
        found = bound(*wrapped)
        seen = error > 0
        certain, likely = (np.median(e[seen] / error[seen]) for e in (found.certain, found.likely))
        worst = (error / found.certain).max()
        print(
            f"{name:30} {one * 1e3:7.1f} ms {two * 1e3:7.1f} ms {two / one:6.2f}   {certain:10.0f} {likely:10.0f} {worst:26.4f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

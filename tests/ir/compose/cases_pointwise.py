"""Activations, choices, reductions and softmax."""

import torch
from agreement import Case, fixed, normal, truth, uniform
from torch.nn import functional as fn

from backproof.ir.compose import COMPOSITIONS

WHERE = COMPOSITIONS["where"].function
BATCHES = ((7, 5), (1, 3), (0, 4))


def pointwise(name, theirs, *params, scale=2.0, order=2):
    return [
        Case(name, f"{i}-{batch[0]}", (normal(*batch, scale=scale),), theirs, given, order=order)
        for i, given in enumerate(params or ({},))
        for batch in BATCHES
    ]


WIDE = [-90.0, -30.0, -8.0, -1.0, -1e-3, 1e-3, 1.0, 8.0, 15.0, 30.0, 90.0]

ACTIVATIONS = [
    *pointwise("softplus", fn.softplus, {}, {"beta": 2.5}, {"beta": 0.5, "threshold": 1.0}),
    *pointwise("logsigmoid", fn.logsigmoid),
    *pointwise("silu", fn.silu),
    *pointwise("mish", fn.mish),
    *pointwise("gelu", fn.gelu, {}, {"approximate": "tanh"}),
    *pointwise("softsign", fn.softsign),
    *pointwise("tanhshrink", fn.tanhshrink),
    *pointwise("leaky_relu", fn.leaky_relu, {}, {"negative_slope": 0.3}),
    *pointwise("elu", fn.elu, {}, {"alpha": 0.4}),
    *pointwise("celu", fn.celu, {}, {"alpha": 0.5}),
    *pointwise("selu", fn.selu),
    *pointwise("hardtanh", fn.hardtanh, {}, {"min_val": -0.5, "max_val": 2.0}),
    *pointwise("relu6", fn.relu6, scale=5.0),
    *pointwise("hardsigmoid", lambda x: fn.relu6(x + 3) / 6, scale=3.0),
    *pointwise("hardswish", fn.hardswish, scale=3.0),
    *pointwise("softshrink", fn.softshrink, {}, {"lambd": 1.0}),
    *pointwise("hardshrink", fn.hardshrink, {}, {"lambd": 1.0}),
    *pointwise("threshold", fn.threshold, {"threshold": 0.4, "value": -2.0}),
    *(
        Case(name, "wide", (fixed(WIDE),), getattr(fn, name), {})
        for name in ("softplus", "logsigmoid", "silu", "mish", "gelu", "elu", "selu", "softsign", "tanhshrink")
    ),
    Case("gelu", "wide-tanh", (fixed(WIDE),), fn.gelu, {"approximate": "tanh"}),
    Case("prelu", "one", (normal(4, 3, 2), normal(1)), fn.prelu, {}),
    Case("prelu", "channels", (normal(4, 3, 2), normal(3)), fn.prelu, {}),
    Case("prelu", "empty", (normal(0, 3, 2), normal(3)), fn.prelu, {}),
    Case("glu", "last", (normal(3, 6),), fn.glu, {}),
    Case("glu", "first", (normal(4, 3),), fn.glu, {"dim": 0}),
    Case("glu", "empty", (normal(0, 4),), fn.glu, {}),
]

# In float64 the derivatives of these kernels hold a constant that was rounded to float32 (a sixth; alpha).
ONLY_FLOAT32 = [
    *pointwise("hardsigmoid", fn.hardsigmoid, scale=3.0),
    *pointwise("celu", fn.celu, {"alpha": 0.4}),
]

CHOICES = [
    Case("where", "broadcast", (truth(3, 1), normal(4), normal(2, 1, 1)), torch.where, {}),
    Case(
        "where",
        "number",
        (truth(5), normal(5)),
        lambda c, x: torch.where(c, x, 2.0),
        {},
        ours=lambda c, x: WHERE(c, x, 2.0),
    ),
    Case("clamp", "both", (normal(9),), lambda x, lo, hi: x.clamp(lo, hi), {"lo": -0.5, "hi": 0.8}),
    Case("clamp", "crossed", (normal(9),), lambda x, lo, hi: x.clamp(lo, hi), {"lo": 0.8, "hi": -0.5}, order=1),
    Case("clamp", "low", (normal(9),), lambda x, lo: x.clamp(min=lo), {"lo": -0.5}),
    Case("clamp", "high", (normal(9),), lambda x, hi: x.clamp(max=hi), {"hi": 0.5}),
    Case(
        "clamp",
        "stop",
        (normal(9),),
        lambda x, lo, hi, ends: fn.hardtanh(x, lo, hi),
        {"lo": -0.5, "hi": 0.8, "ends": "stop"},
    ),
    Case("safe_sqrt", "signs", (normal(9),), lambda x: torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0), {}),
    Case("safe_log", "signs", (normal(9, scale=5.0),), lambda x: torch.log(fn.softplus(x) + 1e-6), {}),
]


def reductions(name, theirs, *params):
    shapes = enumerate(((4, 3, 5), (1, 3, 2)))
    return [Case(name, f"{i}-{j}", (normal(*x),), theirs, p) for j, x in shapes for i, p in enumerate(params)]


def vector_norm(x, p, dim):
    return torch.linalg.vector_norm(x, p, dim)


ALL_DIMS = ({}, {"dim": 1}, {"dim": (0, -1), "keepdim": True})
REDUCTIONS = [
    *reductions("mean", torch.mean, *ALL_DIMS),
    *reductions("var", torch.var, *ALL_DIMS, {"dim": 1, "correction": 0}, {"dim": (0, 1), "correction": 1.5}),
    *reductions("std", torch.std, *ALL_DIMS, {"dim": 1, "correction": 0}),
    *reductions("norm", torch.linalg.vector_norm, *ALL_DIMS),
    *reductions("amax", torch.amax, *ALL_DIMS),
    *reductions("amin", torch.amin, *ALL_DIMS),
    *(Case("norm", f"p{p}", (normal(4, 6),), vector_norm, {"p": p, "dim": 1}) for p in (1.0, float("inf"), 3.0, 1.5)),
    Case(
        "norm",
        "a-zero-row",
        (fixed([[0.0, 0.0], [3.0, 4.0]]),),
        torch.linalg.vector_norm,
        {"dim": 1},
        order=1,
        vague=True,
    ),
    Case("std", "a-constant-row", (fixed([[2.0, 2.0], [3.0, 4.0]]),), torch.std, {"dim": 1}, order=1, vague=True),
    Case("mean", "empty", (normal(0, 3),), torch.mean, {"dim": 1}),
    Case("mean", "of-nothing", (normal(0, 3),), torch.mean, {"dim": 0}, quiet=True, order=1),
    Case("normalize", "2", (normal(4, 6),), fn.normalize, {}),
    Case("normalize", "1", (normal(4, 6),), fn.normalize, {"p": 1.0, "dim": 0}),
    Case("normalize", "below-eps", (normal(4, 6),), fn.normalize, {"eps": 2.0}),
    Case("cosine_similarity", "rows", (normal(4, 6), normal(4, 6)), fn.cosine_similarity, {}),
    Case("cosine_similarity", "broadcast", (normal(4, 1, 6), normal(5, 6)), fn.cosine_similarity, {"dim": -1}),
    Case("cosine_similarity", "below-eps", (normal(4, 6), normal(4, 6)), fn.cosine_similarity, {"eps": 2.0}),
    Case("cosine_similarity", "empty", (normal(0, 6), normal(0, 6)), fn.cosine_similarity, {}),
]

SOFTMAXES = [
    Case(name, setting, (given,), getattr(fn, name), {"dim": dim})
    for name in ("softmax", "log_softmax")
    for setting, given, dim in (
        ("last", normal(4, 6, scale=3.0), -1),
        ("middle", normal(2, 5, 3), 1),
        ("far", uniform(3, 5, lo=990, hi=1010), -1),
        ("wide", normal(3, 5, scale=60.0), -1),
        ("one", normal(4, 1), -1),
        ("batch-of-0", normal(0, 5), -1),
        ("of-nothing", normal(3, 0), -1),
        ("number", fixed(0.7), 0),
    )
]

CASES = [*ACTIVATIONS, *CHOICES, *REDUCTIONS, *SOFTMAXES]

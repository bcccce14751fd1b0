"""Convolutions, pooling, resizing."""

from agreement import Case, fixed, normal
from torch.nn import functional as fn


def conv(rank, setting, x, w, bias=True, name="conv", **params):
    out = w[0] if name == "conv" else w[1] * params.get("groups", 1)
    given = (normal(*x), normal(*w), *([normal(out)] if bias else []))
    return Case(f"{name}{rank}d", setting, given, getattr(fn, f"{name}{rank}d"), params)


def turned(rank, setting, x, w, bias=True, **params):
    return conv(rank, setting, x, w, bias, name="conv_transpose", **params)


CONVS = [
    conv(1, "plain", (2, 3, 9), (4, 3, 3)),
    conv(1, "odd", (2, 4, 11), (6, 2, 3), stride=3, padding=2, dilation=2, groups=2),
    conv(1, "same", (2, 3, 8), (4, 3, 4), padding="same", dilation=2),
    conv(1, "one-sample", (3, 9), (4, 3, 3), bias=False),
    conv(1, "empty", (0, 3, 9), (4, 3, 3), stride=2),
    conv(2, "plain", (2, 3, 6, 7), (4, 3, 3, 2)),
    conv(2, "odd", (1, 4, 9, 8), (6, 2, 3, 2), stride=(3, 2), padding=(2, 1), dilation=(2, 3), groups=2),
    conv(2, "by-channel", (2, 3, 5, 5), (6, 1, 3, 3), groups=3, padding=1, bias=False),
    conv(2, "valid", (2, 3, 5, 5), (2, 3, 3, 3), padding="valid"),
    conv(2, "same", (2, 3, 5, 6), (2, 3, 3, 5), padding="same"),
    conv(2, "pointwise", (2, 3, 4, 4), (5, 3, 1, 1), stride=3),
    conv(2, "empty", (0, 3, 5, 5), (2, 3, 3, 3), padding=1),
    conv(3, "plain", (2, 2, 4, 5, 4), (3, 2, 2, 3, 2)),
    conv(3, "odd", (1, 4, 5, 6, 7), (2, 2, 2, 3, 3), stride=(2, 3, 1), padding=(1, 0, 2), dilation=(1, 2, 2), groups=2),
    turned(1, "plain", (2, 3, 5), (3, 4, 3)),
    turned(1, "odd", (2, 4, 5), (4, 3, 4), stride=3, padding=2, output_padding=2, groups=2, dilation=2),
    turned(1, "one-sample", (3, 5), (3, 4, 3), stride=2),
    turned(2, "plain", (2, 3, 4, 3), (3, 2, 3, 2), bias=False),
    turned(
        2,
        "odd",
        (1, 4, 3, 4),
        (4, 1, 3, 2),
        stride=(3, 2),
        padding=(1, 0),
        output_padding=(2, 1),
        groups=4,
        dilation=(1, 2),
    ),
    turned(2, "cut", (2, 2, 4, 4), (2, 3, 2, 2), padding=2, stride=2),
    turned(2, "empty", (0, 3, 4, 3), (3, 2, 3, 2), stride=2),
    turned(3, "odd", (1, 2, 3, 2, 3), (2, 3, 2, 3, 2), stride=(2, 1, 3), padding=(1, 1, 0), output_padding=(1, 0, 1)),
    Case("conv", "any-rank", (normal(2, 3, 6, 7), normal(4, 3, 3, 2), normal(4)), fn.conv2d, {"stride": 2}),
    Case("conv_transpose", "any-rank", (normal(2, 3, 4, 4), normal(3, 4, 3, 2)), fn.conv_transpose2d, {"stride": 2}),
]

TIES = [[[1.0, 1.0, 0.0, 1.0, 2.0, 2.0], [0.0, 1.0, 0.0, 0.0, 2.0, 2.0], [3.0, 3.0, 3.0, 3.0, 3.0, 3.0]]]


def pool(name, setting, x, **params):
    return Case(name, setting, (normal(*x),), getattr(fn, name), params)


POOLS = [
    pool("max_pool1d", "plain", (2, 3, 9), kernel_size=3),
    pool("max_pool1d", "odd", (2, 3, 10), kernel_size=3, stride=2, padding=1, dilation=2, ceil_mode=True),
    pool("max_pool1d", "one-sample", (3, 9), kernel_size=2),
    pool("max_pool2d", "plain", (2, 3, 6, 7), kernel_size=2),
    pool("max_pool2d", "odd", (1, 2, 8, 9), kernel_size=(3, 2), stride=(2, 3), padding=(1, 1), dilation=(2, 1)),
    pool("max_pool2d", "ceil", (2, 2, 7, 8), kernel_size=3, stride=2, padding=1, ceil_mode=True),
    pool("max_pool2d", "ceil-drops-one", (1, 1, 4, 4), kernel_size=2, stride=3, padding=1, ceil_mode=True),
    pool("max_pool2d", "empty", (0, 2, 6, 6), kernel_size=2),
    pool("max_pool2d", "larger-than-the-image", (2, 3, 2, 9), kernel_size=5, ceil_mode=True),
    pool("max_pool3d", "odd", (2, 2, 5, 6, 4), kernel_size=(2, 3, 2), stride=(2, 1, 2), padding=1, ceil_mode=True),
    Case("max_pool2d", "ties", (fixed(TIES),), fn.max_pool2d, {"kernel_size": 2, "stride": 1}),
    Case("max_pool", "any-rank", (normal(2, 3, 6, 7),), fn.max_pool2d, {"kernel_size": 2}),
    pool("avg_pool1d", "plain", (2, 3, 9), kernel_size=3),
    pool("avg_pool1d", "odd", (2, 3, 10), kernel_size=3, stride=2, padding=1, ceil_mode=True),
    pool("avg_pool1d", "one-sample", (3, 9), kernel_size=2),
    pool("avg_pool2d", "plain", (2, 3, 6, 7), kernel_size=2),
    pool("avg_pool2d", "odd", (1, 2, 8, 9), kernel_size=(3, 2), stride=(2, 3), padding=(1, 1)),
    pool("avg_pool2d", "cells-only", (1, 2, 8, 9), kernel_size=3, stride=2, padding=1, count_include_pad=False),
    pool("avg_pool2d", "ceil", (2, 2, 8, 8), kernel_size=3, stride=2, padding=1, ceil_mode=True),
    pool(
        "avg_pool2d",
        "ceil-cells-only",
        (2, 2, 8, 8),
        kernel_size=3,
        stride=2,
        padding=1,
        ceil_mode=True,
        count_include_pad=False,
    ),
    pool("avg_pool2d", "divisor", (2, 2, 7, 7), kernel_size=3, stride=2, padding=1, divisor_override=5),
    pool("avg_pool2d", "empty", (0, 2, 6, 6), kernel_size=2),
    pool("avg_pool2d", "larger-than-the-image", (2, 3, 1, 6), kernel_size=5, padding=1, ceil_mode=True),
    pool("avg_pool3d", "odd", (2, 2, 5, 6, 4), kernel_size=(2, 3, 2), stride=(2, 1, 2), padding=1, ceil_mode=True),
    Case("avg_pool", "any-rank", (normal(2, 3, 6, 7),), fn.avg_pool2d, {"kernel_size": 2}),
]


def adaptive(name, setting, x, size):
    return Case(name, setting, (normal(*x),), getattr(fn, name), {"output_size": size})


ADAPTIVE = [
    adaptive(f"adaptive_{kind}_pool{rank}d", setting, x, size)
    for kind in ("avg", "max")
    for rank, setting, x, size in (
        (1, "even", (2, 3, 9), 3),
        (1, "uneven", (2, 3, 10), 4),
        (1, "more", (2, 2, 3), 5),
        (2, "one", (2, 3, 5, 4), 1),
        (2, "uneven", (1, 2, 7, 5), (3, 4)),
        (2, "as-it-is", (2, 2, 7, 4), (None, 2)),
        (2, "one-sample", (2, 7, 5), (2, 3)),
        (2, "empty", (0, 2, 7, 5), (3, 2)),
        (3, "uneven", (1, 2, 5, 4, 3), (2, 3, 2)),
    )
]
ADAPTIVE += [
    Case("adaptive_avg_pool", "any-rank", (normal(1, 2, 7, 5),), fn.adaptive_avg_pool2d, {"output_size": (3, 2)}),
    Case("adaptive_max_pool", "any-rank", (normal(1, 2, 7, 5),), fn.adaptive_max_pool2d, {"output_size": (3, 2)}),
    Case("adaptive_max_pool2d", "ties", (fixed(TIES),), fn.adaptive_max_pool2d, {"output_size": (2, 4)}),
]


def smooth(x, kernel_size, stride=None, padding=0, beta=1.0):
    """By unfolding: PyTorch has no such pooling of its own."""
    padded = fn.pad(x, (padding, padding) * (x.dim() - 2))
    for axis in range(2, x.dim()):
        padded = padded.unfold(axis, kernel_size, stride or kernel_size)
    return (beta * padded).flatten(x.dim()).logsumexp(-1) / beta


RESIZE = [
    Case("smooth_max_pool1d", "plain", (normal(2, 3, 7),), smooth, {"kernel_size": 2}),
    Case(
        "smooth_max_pool2d",
        "odd",
        (normal(2, 3, 7, 6),),
        smooth,
        {"kernel_size": 3, "stride": 2, "padding": 1, "beta": 4.0},
    ),
    Case("smooth_max_pool3d", "sharp", (normal(1, 2, 4, 4, 4),), smooth, {"kernel_size": 2, "beta": 300.0}),
    Case("smooth_max_pool", "any-rank", (normal(1, 2, 6, 6),), smooth, {"kernel_size": 2, "beta": -1.0}),
    *(
        Case("interpolate", f"{mode}-{i}", (normal(*x),), fn.interpolate, {**params, "mode": mode})
        for mode in ("nearest", "nearest-exact")
        for i, (x, params) in enumerate(
            (
                ((2, 3, 5), {"size": 8}),
                ((2, 3, 5, 7), {"size": (3, 9)}),
                ((1, 2, 3, 4), {"scale_factor": 2}),
                ((1, 2, 3, 2, 2), {"scale_factor": (2, 3, 1)}),
            )
        )
    ),
]

BORDERS = [
    Case("padded", f"{mode}-{i}", (normal(*x),), fn.pad, {"pad": pad, "mode": mode, **params})
    for mode, i, x, pad, params in (
        ("constant", "zeros", (2, 3, 4), (1, 2, 0, 3), {}),
        ("constant", "cut", (2, 3, 5), (-1, 2, 1, -2), {"value": -0.5}),
        ("reflect", "line", (2, 3, 4), (3, 2), {}),
        ("reflect", "plane", (1, 2, 4, 3), (2, 1, 0, 3), {}),
        ("replicate", "wide", (2, 3, 4), (7, 5), {}),
        ("circular", "once-around", (1, 2, 4, 3), (3, 1, 0, 4), {}),
    )
]

CASES = [*CONVS, *POOLS, *ADAPTIVE, *RESIZE, *BORDERS]

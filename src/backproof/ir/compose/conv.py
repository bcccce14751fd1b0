"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.compose.axes import along, each_axis
from backproof.ir.compose.space import in_ranks, space_of

Sizes = int | Sequence[int]


def conv(
    x: Ref,
    weight: Ref,
    bias: Ref | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Ref:
    """The convolution of x[batch, in, space...] with w[out, in/groups, window...]; padding in zeros, or `same`, or `valid`."""
    n = space_of("conv", x)
    steps, gaps = each_axis(stride, n, "stride"), each_axis(dilation, n, "dilation")
    y = x.builder.conv(
        x,
        weight,
        stride=steps,
        padding=_padding(padding, weight, steps, gaps),
        input_dilation=(1,) * n,
        window_dilation=gaps,
        groups=groups,
    )
    return y if bias is None else y + along(bias, y, 1)


def _padding(
    padding: Sizes | str, weight: Ref, stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    n = len(stride)
    if not isinstance(padding, str):
        given = each_axis(padding, n, "padding")
        if any(size < 0 for size in given):
            raise GraphError(f"conv: padding {padding} must not be negative")
        return tuple((size, size) for size in given)
    if padding == "valid":
        return ((0, 0),) * n
    if padding != "same":
        raise GraphError(f"conv: padding {padding!r}; there are 'same', 'valid', and numbers")
    if any(step != 1 for step in stride):
        raise GraphError(f"conv: padding 'same' takes stride 1, not {list(stride)}")
    reach = [gap * (size - 1) for gap, size in zip(dilation, weight.shape[2:], strict=True)]
    return tuple((total // 2, total - total // 2) for total in reach)


def conv_transpose(
    x: Ref,
    weight: Ref,
    bias: Ref | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Ref:
    """The transpose of a convolution: x[batch, in, space...] spread out by w[in, out/groups, window...]."""
    n = space_of("conv_transpose", x)
    if len(weight.shape) != n + 2 or weight.shape[0] != x.shape[1] or groups < 1 or x.shape[1] % groups:
        raise GraphError(
            f"conv_transpose: x is {x.type}, the weight {weight.type} and groups {groups}; they must be [batch, in, space...], "
            "[in, out/groups, window...] and a divisor of in"
        )
    steps, gaps = each_axis(stride, n, "stride"), each_axis(dilation, n, "dilation")
    cut, more = each_axis(padding, n, "padding"), each_axis(output_padding, n, "output_padding")
    if any(extra >= max(s, g) for extra, s, g in zip(more, steps, gaps, strict=True)):
        raise GraphError(f"conv_transpose: output_padding {list(more)} must be less than the stride or the dilation")
    edge = [g * (k - 1) - p for g, k, p in zip(gaps, weight.shape[2:], cut, strict=True)]
    y = x.builder.conv(
        x,
        _turned(weight, groups),
        stride=(1,) * n,
        padding=tuple((low, low + extra) for low, extra in zip(edge, more, strict=True)),
        input_dilation=steps,
        window_dilation=gaps,
        groups=groups,
    )
    return y if bias is None else y + along(bias, y, 1)


def _turned(weight: Ref, groups: int) -> Ref:
    """Kernels [in, out/groups, window...] as [out, in/groups, window...], each turned around."""
    D, (c, o, *window) = weight.builder, weight.shape
    rest = range(3, 3 + len(window))
    parts = D.reshape(weight, shape=(groups, c // groups, o, *window))
    swapped = D.reshape(D.transpose(parts, axes=(0, 2, 1, *rest)), shape=(groups * o, c // groups, *window))
    return D.flip(swapped, axes=tuple(range(2, 2 + len(window))))


CONV = (
    *in_ranks("conv", "y[n,o,s] = b[o] + Σ x[n, c, s·stride + k·dilation − padding]·w[o,c,k] over c and k", conv),
    *in_ranks(
        "conv_transpose",
        "y[n,o,t] = b[o] + Σ x[n,c,s]·w[c,o,k] over c, s, k with t = s·stride + k·dilation − padding",
        conv_transpose,
    ),
)

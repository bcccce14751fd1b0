"""The two products that do the work of a network: contraction and convolution."""

from __future__ import annotations

import math
from typing import Any

from backproof.errors import GraphError
from backproof.ir.primitive import Value, bilinear, like, normal_axes, require_kind
from backproof.ir.primitives.shape import inverse_order
from backproof.ir.primitives.window import BLOCK, Pairs, counts, shifts, window_count
from backproof.ir.rounding import Sums
from backproof.ir.types import Shape, Type

AxisPair = tuple[tuple[int, ...], tuple[int, ...]]

# ── contraction ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _free(rank: int, contract: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in range(rank) if axis not in contract and axis not in batch)


def _contracted(a: Type, b: Type, *, contract: AxisPair, batch: AxisPair) -> Type:
    require_kind(a, "real", 0)
    require_kind(b, "real", 1)
    for side, (given, axes) in enumerate(zip((a, b), zip(contract, batch, strict=True), strict=True)):
        used = (*axes[0], *axes[1])
        if len(set(used)) != len(used):
            raise GraphError(f"axes {list(used)} of input {side} must be distinct")
        normal_axes(used, given.rank)
    for what, (left, right) in (("contracted", contract), ("batched", batch)):
        if [a.shape[i] for i in left] != [b.shape[j] for j in right]:
            raise GraphError(
                f"axes {list(left)} of {a} and {list(right)} of {b} are {what}, and must be of equal sizes"
            )
    return Type(
        "real",
        (
            *(a.shape[i] for i in batch[0]),
            *(a.shape[i] for i in _free(a.rank, contract[0], batch[0])),
            *(b.shape[j] for j in _free(b.rank, contract[1], batch[1])),
        ),
    )


def _as_matrices(K: Any, x: Value, order: tuple[tuple[int, ...], ...]) -> Value:
    """x with its axes in this order, each group made into one."""
    shape = tuple(x.shape)
    flat = tuple(axis for group in order for axis in group)
    moved = x if flat == tuple(range(len(shape))) else K.permute_dims(x, flat)
    sizes = tuple(math.prod(shape[axis] for axis in group) for group in order)
    return moved if tuple(moved.shape) == sizes else K.reshape(moved, sizes)


def _contract(K: Any, a: Value, b: Value, contract: AxisPair, batch: AxisPair) -> Value:
    free_a, free_b = (_free(len(v.shape), c, n) for v, c, n in zip((a, b), contract, batch, strict=True))
    shape = (
        *(a.shape[i] for i in batch[0]),
        *(a.shape[i] for i in free_a),
        *(b.shape[j] for j in free_b),
    )
    if batch[0]:
        left = _as_matrices(K, a, (batch[0], free_a, contract[0]))
        right = _as_matrices(K, b, (batch[1], contract[1], free_b))
    else:
        left = _as_matrices(K, a, (free_a, contract[0]))
        right = _as_matrices(K, b, (contract[1], free_b))
    product = K.matmul(left, right)
    return product if tuple(product.shape) == shape else K.reshape(product, shape)


def _uncontract_left(D: Any, x: tuple[Value, Value], y: Value, gy: Value, contract: AxisPair, batch: AxisPair) -> Value:
    a, b = x
    return _uncontract(D, a, b, gy, contract, batch, left=True)


def _uncontract_right(
    D: Any, x: tuple[Value, Value], y: Value, gy: Value, contract: AxisPair, batch: AxisPair
) -> Value:
    a, b = x
    flipped = (contract[1], contract[0]), (batch[1], batch[0])
    return _uncontract(D, b, a, gy, *flipped, left=False)


def _uncontract(
    D: Any, mine: Value, other: Value, gy: Value, contract: AxisPair, batch: AxisPair, *, left: bool
) -> Value:
    """Contract gy with the other operand over its free axes, then put my axes back in order."""
    free_mine = _free(len(mine.shape), contract[0], batch[0])
    free_other = _free(len(other.shape), contract[1], batch[1])
    n, m, k = len(batch[0]), len(free_mine), len(free_other)
    theirs = tuple(range(n + m, n + m + k)) if left else tuple(range(n, n + k))
    axes = ((theirs, free_other), (tuple(range(n)), batch[1]))
    # The result has axes: batch, my free ones, and my contracted ones in the order of the other's axes.
    if left:
        product = D.dot_general(gy, other, contract=axes[0], batch=axes[1])
        found = (*batch[0], *free_mine, *_by_partner(contract))
    else:
        product = D.dot_general(other, gy, contract=axes[0][::-1], batch=axes[1][::-1])
        found = (*batch[0], *_by_partner(contract), *free_mine)
    order = inverse_order(found)
    return product if order == tuple(range(len(order))) else D.transpose(product, axes=order)


def _by_partner(contract: AxisPair) -> tuple[int, ...]:
    """My contracted axes, in the ascending order of the other operand's."""
    return tuple(mine for _, mine in sorted(zip(contract[1], contract[0], strict=True)))


def _some_terms(part: int, a: Value, b: Value, contract: AxisPair, batch: AxisPair) -> tuple[Any, Any]:
    """One of `part` along the longest contracted axis."""
    if not contract[0]:
        return ..., ...
    left, right = max(zip(*contract, strict=True), key=lambda pair: a.shape[pair[0]])
    chosen = _telling(part, (a, left), (b, right))
    return (slice(None),) * left + (chosen,), (slice(None),) * right + (chosen,)


def _some_channels(part: int, x: Value, w: Value, groups: int, **_: Any) -> tuple[Any, Any]:
    """One of `part` of the channels."""
    chosen = ... if groups > 1 else (slice(None), _telling(part, (x, 1), (w, 1)))
    return chosen, chosen


def _telling(part: int, *operands: tuple[Value, int]) -> list[int]:
    """One of `part` of the places along an axis: those with the largest numbers, and as many at equal distances from either end.

    Where a few terms are all there is (a target's row of a gradient, the first rows under a triangular mask), these have them.
    """
    size = operands[0][0].shape[operands[0][1]]
    peaks: Any = 1.0
    for x, axis in operands:
        others = tuple(i for i in range(len(x.shape)) if i != axis)
        peaks = peaks * (x.max(axis=others, initial=0) - x.min(axis=others, initial=0))
    largest = peaks.argsort()[size - size // (2 * part) :]
    return sorted({*range(0, size, 4 * part), *range(size - 1, -1, -4 * part), *largest.tolist()})


DOT_GENERAL = bilinear(
    "dot_general",
    "y = Σ a·b over the contracted axes, for each index of the batch axes",
    _contracted,
    _contract,
    (_uncontract_left, _uncontract_right),
    Sums(lambda a, b, contract, batch: math.prod(a.shape[axis] for axis in contract[0]), _some_terms),
    ("contract", "batch"),
)

# ── convolution ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _convolved(
    x: Type,
    w: Type,
    *,
    stride: Shape,
    padding: Pairs,
    input_dilation: Shape,
    window_dilation: Shape,
    groups: int,
) -> Type:
    require_kind(x, "real", 0)
    require_kind(w, "real", 1)
    space = x.rank - 2
    if (
        space < 0
        or w.rank != x.rank
        or not all(len(given) == space for given in (stride, padding, input_dilation, window_dilation))
    ):
        raise GraphError(
            f"conv takes x[batch, channels, space...] and w[out, channels/groups, window...] of one rank, and one stride, "
            f"padding and dilation per axis of space; here x is {x}, w is {w}, stride {list(stride)}"
        )
    if any(spread < 1 for spread in input_dilation):
        raise GraphError(f"input dilation {list(input_dilation)} must be at least 1")
    if groups < 1 or x.shape[1] != w.shape[1] * groups or w.shape[0] % groups:
        raise GraphError(
            f"{groups} groups: {x.shape[1]} input channels must be {groups}×{w.shape[1]}, and {w.shape[0]} outputs a multiple of {groups}"
        )
    sizes = []
    for axis in range(space):
        spaced = (x.shape[2 + axis] - 1) * input_dilation[axis] + 1 if x.shape[2 + axis] else 0
        sizes.append(window_count(spaced, w.shape[2 + axis], stride[axis], padding[axis], window_dilation[axis]))
    return Type("real", (x.shape[0], w.shape[0], *sizes))


def _widen(K: Any, x: Value, padding: Pairs, dilation: Shape) -> Value:
    """Space padded (a negative pad cuts) and spread out."""
    low, high = (tuple(max(pair[side], 0) for pair in padding) for side in (0, 1))
    x = K.pad(x, (0, 0, *low), (0, 0, *high), (0, 0, *(spread - 1 for spread in dilation)))
    if any(a < 0 or b < 0 for a, b in padding):
        ends = [max(n + min(b, 0), 0) for (_, b), n in zip(padding, x.shape[2:], strict=True)]  # a cut may take all
        begins = [min(max(-a, 0), end) for (a, _), end in zip(padding, ends, strict=True)]
        x = x[(slice(None), slice(None), *map(slice, begins, ends))]
    return x


def _convolve(
    K: Any,
    x: Value,
    w: Value,
    stride: Shape,
    padding: Pairs,
    input_dilation: Shape,
    window_dilation: Shape,
    groups: int,
) -> Value:
    return K.convolve(_widen(K, x, padding, input_dilation), w, stride, window_dilation, groups)


def convolve(K: Any, x: Value, w: Value, stride: Shape, dilation: Shape, groups: int) -> Value:
    """Matrix products of the kernels, as rows, with the windows of x, as columns.

    The windows are sliced by tap or by place, whichever are fewer, and laid out so that they are copied only once.
    """
    n, out = x.shape[0], w.shape[0]
    window = tuple(w.shape[2:])
    space = counts(tuple(x.shape[2:]), window, stride, ((0, 0),) * len(window), dilation)
    if math.prod(window) <= math.prod(space):
        product = K.correlate(x, _rows_by_tap(K, w, groups), window, space, stride, dilation)
        split = K.reshape(product, (out, n, *space))
        return K.permute_dims(split, (1, 0, *range(2, 2 + len(space))))
    step = max(1, w.shape[1]) if groups > 1 else max(1, BLOCK // max(1, math.prod(x.shape[2:]) * math.prod(space) * n))
    total = None
    for begin in range(0, max(w.shape[1], 1), step):
        end = min(begin + step, w.shape[1])
        block, kernels = (x, w) if groups > 1 else (x[:, begin:end, ...], w[:, begin:end, ...])
        part = _product_by_place(K, block, kernels, space, stride, dilation, groups)
        total = part if total is None else K.add(total, part)
    last = len(space) + 1
    return K.permute_dims(K.reshape(total, (out, *space, n)), (last, 0, *range(1, last)))


def _rows_by_tap(K: Any, w: Value, groups: int) -> Value:
    """[groups, out, tap·channel]."""
    out, c, *window = w.shape
    taps = math.prod(window)
    split = K.permute_dims(K.reshape(w, (groups, out // groups, c, taps)), (0, 1, 3, 2))
    return K.reshape(split, (groups, out // groups, taps * c))


def _product_by_place(K: Any, x: Value, w: Value, space: Shape, stride: Shape, dilation: Shape, groups: int) -> Value:
    """[out, place·batch], from one slice of x per place."""
    out, c, *window = w.shape
    n, taps, places = x.shape[0], math.prod(window), math.prod(space)
    found = shifts(K, x, space, tuple(window), stride, dilation)
    columns = K.permute_dims(K.reshape(found, (places * n, groups, c * taps)), (1, 2, 0))
    rows = K.reshape(w, (groups, out // groups, c * taps))
    if groups == 1:
        return K.matmul(rows[0, ...], columns[0, ...])
    return K.reshape(K.matmul(rows, columns), (out, places * n))


def _swap(D: Any, x: Value) -> Value:
    return D.transpose(x, axes=(1, 0, *range(2, len(x.shape))))


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size else 0


def _conv_input(
    D: Any,
    x: tuple[Value, Value],
    y: Value,
    gy: Value,
    stride: Shape,
    padding: Pairs,
    input_dilation: Shape,
    window_dilation: Shape,
    groups: int,
) -> Value:
    """The transpose in x: a convolution of gy with the kernels turned around."""
    lhs, w = x
    axes = tuple(range(2, len(lhs.shape)))
    pads = []
    for i, axis in enumerate(axes):
        reach = _dilated(w.shape[axis], window_dilation[i])
        before = reach - 1 - padding[i][0]
        after = _dilated(lhs.shape[axis], input_dilation[i]) + reach - 1 - _dilated(gy.shape[axis], stride[i]) - before
        pads.append((before, after))
    turned = _regroup(D, D.flip(w, axes=axes), groups)
    return D.conv(
        gy,
        turned,
        stride=tuple(input_dilation),
        padding=tuple(pads),
        input_dilation=tuple(stride),
        window_dilation=tuple(window_dilation),
        groups=groups,
    )


def _regroup(D: Any, w: Value, groups: int) -> Value:
    """Kernels [out, in/groups, ...] as [in, out/groups, ...]."""
    out, c, *window = w.shape
    if groups == 1:
        return _swap(D, w)
    split = D.reshape(w, shape=(groups, out // groups, c, *window))
    order = (0, 2, 1, *range(3, 3 + len(window)))
    return D.reshape(D.transpose(split, axes=order), shape=(groups * c, out // groups, *window))


def _conv_weight(
    D: Any,
    x: tuple[Value, Value],
    y: Value,
    gy: Value,
    stride: Shape,
    padding: Pairs,
    input_dilation: Shape,
    window_dilation: Shape,
    groups: int,
) -> Value:
    """The transpose in w: a convolution of x with gy, in which batch and channels have changed places."""
    lhs, w = x
    if 0 in gy.shape[2:]:
        return like(D, 0.0, w)  # no output, so no window to turn into a kernel
    axes = tuple(range(2, len(lhs.shape)))
    pads = []
    for i, axis in enumerate(axes):
        low = padding[i][0]
        reach = _dilated(gy.shape[axis], stride[i])
        spaced = _dilated(lhs.shape[axis], input_dilation[i])
        pads.append((low, (w.shape[axis] - 1) * window_dilation[i] + reach - spaced - low))
    found = D.conv(
        _batch_to_channels(D, lhs, groups),
        _swap(D, gy),
        stride=tuple(window_dilation),
        padding=tuple(pads),
        input_dilation=tuple(input_dilation),
        window_dilation=tuple(stride),
        groups=groups,
    )
    return _swap(D, found)


def _batch_to_channels(D: Any, x: Value, groups: int) -> Value:
    """[batch, groups·c, ...] as [c, groups·batch, ...]."""
    n, channels, *space = x.shape
    if groups == 1:
        return _swap(D, x)
    split = D.reshape(x, shape=(n, groups, channels // groups, *space))
    order = (2, 1, 0, *range(3, 3 + len(space)))
    return D.reshape(D.transpose(split, axes=order), shape=(channels // groups, groups * n, *space))


CONV = bilinear(
    "conv",
    "y[n,o,s] = Σ x[n, c, s·stride + k·dilation − padding]·w[o,c,k] over c and k, in each group",
    _convolved,
    _convolve,
    (_conv_input, _conv_weight),
    Sums(lambda x, w, **_: math.prod(w.shape[1:]), _some_channels),
    ("stride", "padding", "input_dilation", "window_dilation", "groups"),
)

LINEAR = (DOT_GENERAL, CONV)

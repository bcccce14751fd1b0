"""The operations of a session: those of the proof-linked session this one follows, then every composition.

Shapes are as strict as the table says: `add` does not broadcast (operators on references do). What is not batched here is batched in
the compositions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from inspect import Signature, signature
from numbers import Integral, Real
from typing import Any

import numpy as np

from backproof.errors import GraphError
from backproof.ir.build import Ref
from backproof.ir.build import matmul as numpy_matmul
from backproof.ir.compose import COMPOSITIONS
from backproof.ir.compose.attention import attention
from backproof.ir.compose.axes import axis_of
from backproof.ir.compose.choose import clamp, safe_sqrt
from backproof.ir.compose.norm import layer_norm
from backproof.ir.primitives import PRIMITIVES
from backproof.ir.tensor import Tensor


@dataclass(frozen=True)
class Operation:
    """A name, its mathematics in one line, and a function of references that records it."""

    name: str
    says: str
    function: Callable[..., Ref]

    @cached_property
    def takes(self) -> Signature:
        """The arguments, and what stands for those that are not given."""
        return signature(self.function)

    def method(self, record: Callable[..., Ref]) -> Callable[..., Ref]:
        """The operation as a method of a session, which `help` can speak of."""

        def operate(*given: Any, **params: Any) -> Ref:
            return record(self, *given, **params)

        operate.__name__ = operate.__qualname__ = self.name
        operate.__doc__ = self.says
        operate.__signature__ = self.takes  # type: ignore[attr-defined] # where inspect looks for it
        return operate

    def misuse(self, given: Sequence[Any], params: dict[str, Any]) -> str:
        """What is wrong with these arguments, as far as their number, names and sorts go."""
        try:
            bound = self.takes.bind(*given, **params)
        except TypeError as error:
            return f"{error}; it takes {self.takes}"
        for name, value in bound.arguments.items():
            sort, what = _SORTS.get(self.takes.parameters[name].annotation, (object, ""))
            if not isinstance(value, sort) or (isinstance(value, bool) and sort is not object):
                return f"{name} is {what}, and got {type(value).__name__}"
        return ""


_REF, _WHOLE, _NUMBER = "a reference of this session", "a whole number", "a number"
_SORTS: dict[str, tuple[Any, str]] = {
    "Ref": (Ref, f"{_REF} (const makes one of numbers)"),
    "Ref | None": (Ref | None, f"{_REF} or None"),
    "int": (Integral, _WHOLE),
    "float": (Real, _NUMBER),
}
"""Annotation → what may stand there."""


def _primitive(name: str, **fixed: Any) -> Callable[..., Ref]:
    return lambda x, *more, **given: x.builder.apply(name, x, *more, **fixed, **given)


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise GraphError(what)


# ── arithmetic and structure ────────────────────────────────────────────────────────────────────────────────────────


def _scale(x: Ref, c: float) -> Ref:
    return x.builder.apply("mul", x, x.constant(float(c)))


def _matmul(a: Ref, b: Ref) -> Ref:
    _need(len(a.shape) == len(b.shape) == 2, f"matmul takes two matrices, not {a.type} and {b.type}")
    return numpy_matmul(a, b)


def _bmm(a: Ref, b: Ref) -> Ref:
    _need(len(a.shape) == len(b.shape) == 3, f"bmm takes two stacks of matrices, not {a.type} and {b.type}")
    _need(a.shape[0] == b.shape[0], f"bmm takes as many matrices on each side, not {a.type} and {b.type}")
    return numpy_matmul(a, b)


def _concat_vectors(a: Ref, b: Ref) -> Ref:
    _need(len(a.shape) == len(b.shape) == 1, f"concat_vectors takes two vectors, not {a.type} and {b.type}")
    return a.builder.apply("concat", a, b, axis=0)


def _slice_leading(x: Ref, start: int, length: int) -> Ref:
    _need(len(x.shape) > 0, f"{x.type} has no leading axis")
    _need(
        start >= 0 and length >= 0 and start + length <= x.shape[0],
        f"{start} + {length} is beyond the leading axis of {x.type}",
    )
    return x[start : start + length]


def _total(x: Ref) -> Ref:
    return x.builder.apply("sum", x, axes=tuple(range(len(x.shape))))


def _reshape(x: Ref, shape: int | Sequence[int]) -> Ref:
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if sizes.count(-1) == 1:  # what is left
        rest = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = x.type.size // rest if rest else 0
    return x.builder.apply("reshape", x, shape=tuple(sizes))


def _reduce_sum(x: Ref, axis: int) -> Ref:
    return x.builder.apply("sum", x, axes=(axis_of(axis, len(x.shape)),))


def _reduce_mean(x: Ref, axis: int) -> Ref:
    total = _reduce_sum(x, axis)
    _need(x.shape[axis] > 0, f"the mean over axis {axis} of {x.type} is a mean of nothing")
    return total / float(x.shape[axis])


def _swap_adjacent(x: Ref, depth: int) -> Ref:
    """Axes depth and depth + 1 exchanged; a depth that does not exist changes nothing."""
    if not 0 <= depth < len(x.shape) - 1:
        return x.builder.apply("reshape", x, shape=x.shape)
    order = list(range(len(x.shape)))
    order[depth], order[depth + 1] = order[depth + 1], order[depth]
    return x.builder.apply("transpose", x, axes=tuple(order))


def _ordered(rank: int, axes: Sequence[int]) -> Callable[[Ref], Ref]:
    def transpose(x: Ref) -> Ref:
        _need(len(x.shape) == rank, f"this transpose takes {rank} axes, not {x.type}")
        return x.builder.apply("transpose", x, axes=tuple(axes))

    return transpose


# ── indices ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _index(x: Ref, index: Any) -> Ref:
    """An index as a value: one that is given already, or plain numbers."""
    if isinstance(index, Ref):
        return index
    tensor = Tensor.of(index if np.size(index) else np.asarray(index, dtype=np.int64))
    _need(tensor.kind == "int", f"an index is made of whole numbers, not {index!r}")
    return x.builder.apply("constant", value=tensor, shape=tensor.shape)


def _within(x: Ref, index: Any) -> None:
    whole = isinstance(index, Integral) and not isinstance(index, bool)
    _need(whole and 0 <= index < x.shape[0], f"index {index!r} is not one of the {x.shape[0]} of {x.type}")


def _gather(rank: int, index_rank: int, *, static: bool = False) -> Callable[[Ref, Any], Ref]:
    def gather(x: Ref, index: Any) -> Ref:
        _need(len(x.shape) == rank, f"this gather takes {rank} axes, not {x.type}")
        if static:
            _within(x, index)
        at = _index(x, index)
        _need(len(at.shape) == index_rank, f"this gather takes an index of {index_rank} axes, not {at.type}")
        return x.builder.apply("gather", x, at, axis=0)

    return gather


def _scatter_add(rank: int) -> Callable[[Ref, Ref, int], Ref]:
    def scatter(x: Ref, value: Ref, index: int) -> Ref:
        """A copy of x with `value` added at one index."""
        _need(
            len(x.shape) == rank and value.shape == x.shape[1:],
            f"cannot add {value.type} at an index of {x.type}",
        )
        _within(x, index)
        row = x.builder.apply("reshape", value, shape=(1, *value.shape))
        placed = x.builder.apply("scatter_add", _index(x, [index]), row, axis=0, size=x.shape[0])
        return x.builder.apply("add", x, placed)

    return scatter


# ── networks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _batched(name: str, space_of: Callable[..., int]) -> Callable[..., Ref]:
    """A composition over [batch, channels, space...] that also takes a single sample, [channels, space...]."""
    function = COMPOSITIONS[name].function

    @wraps(function)
    def call(x: Ref, *given: Any, **params: Any) -> Ref:
        if len(x.shape) != space_of(*given, **params) + 1:
            return function(x, *given, **params)
        D = x.builder
        y = function(D.reshape(x, shape=(1, *x.shape)), *given, **params)
        return D.reshape(y, shape=y.shape[1:])

    return call


def _by_weight(weight: Ref, *given: Any, **params: Any) -> int:
    return len(weight.shape) - 2


def _by_window(kernel_size: int | Sequence[int], *given: Any, **params: Any) -> int:
    # One number says nothing of how many axes space has; then the sample is one of a batch.
    return -2 if isinstance(kernel_size, int) else len(kernel_size)


def _fixed(n: int) -> Callable[..., int]:
    return lambda *given, **params: n


def _normalised(x: Ref, weight: Ref | None = None, bias: Ref | None = None, eps: float = 1e-6) -> Ref:
    return layer_norm(x, x.shape[-1:], weight, bias, eps)


def _along_last(name: str) -> Callable[..., Ref]:
    function = COMPOSITIONS[name].function

    def call(x: Ref, dim: int = -1) -> Ref:
        if x.shape:
            return function(x, dim)
        D = x.builder
        return D.reshape(function(D.reshape(x, shape=(1,)), 0), shape=())

    return call


def _attention(x: Ref, wq: Ref, wk: Ref, wv: Ref, wo: Ref, heads: int, mask: Any = None) -> Ref:
    """Self-attention of x (n, D) by H heads; a blocked entry has no weight, and a row with all entries blocked is 0."""
    _need(
        heads >= 1 and len(x.shape) == len(wq.shape) == 2 and wq.shape[-1] % heads == 0,
        f"{heads} heads of {wq.type}, for {x.type}",
    )
    D, n, size = x.builder, x.shape[0], wq.shape[-1] // heads

    def split(w: Ref) -> Ref:
        return D.transpose(D.reshape(_matmul(x, w), shape=(1, n, heads, size)), axes=(0, 2, 1, 3))

    found = attention(split(wq), split(wk), split(wv), attn_mask=mask)
    return _matmul(D.reshape(D.transpose(found, axes=(0, 2, 1, 3)), shape=(n, heads * size)), wo)


def _broadcast_to(x: Ref, shape: Sequence[int]) -> Ref:
    return x.broadcast_to(tuple(shape))


OWN = (
    Operation("add", "y = a + b", _primitive("add")),
    Operation("sub", "y = a − b", _primitive("sub")),
    Operation("mul", "y = a·b, element by element", _primitive("mul")),
    Operation("scale", "y = c·x for a plain number c", _scale),
    Operation("abs", "y = |x|; its derivative at 0 is 0", _primitive("abs")),
    Operation("detach", "y = x; its derivative is 0", _primitive("stop_gradient")),
    Operation("sqrt", "y = √max(x, 0); its derivative is 0 where x ≤ 0", safe_sqrt),
    Operation(
        "clamp",
        "y = min(hi, max(lo, x)); its derivative is 1 strictly inside, else 0",
        lambda x, lo, hi: clamp(x, lo, hi, "stop"),
    ),
    Operation("max", "y = max(a, b), element by element; ties send half to each side", _primitive("maximum")),
    Operation("min", "y = min(a, b), element by element; ties send half to each side", _primitive("minimum")),
    Operation("matmul", "y = a·b for matrices", _matmul),
    Operation("bmm", "y[i] = a[i]·b[i] for stacks of matrices", _bmm),
    Operation("concat_vectors", "b after a", _concat_vectors),
    Operation("concat_leading_axis", "b after a, along axis 0", _primitive("concat", axis=0)),
    Operation("slice_leading_axis_range", "y = x[start : start + length]", _slice_leading),
    Operation("relu", "y = max(x, 0); its derivative at 0 is 0", _primitive("relu")),
    Operation("flatten", "y = all of x in one row", lambda x: x.builder.apply("reshape", x, shape=(x.type.size,))),
    Operation("reshape", "the numbers of x in row-major order; a size of −1 is what is left", _reshape),
    Operation("transpose2d", "(a, b) → (b, a)", _ordered(2, (1, 0))),
    Operation("transpose3d_first_to_last", "(a, b, c) → (b, c, a)", _ordered(3, (1, 2, 0))),
    Operation("transpose3d_last_to_first", "(a, b, c) → (c, a, b)", _ordered(3, (2, 0, 1))),
    Operation("transpose3d_last_two", "(a, b, c) → (a, c, b)", _ordered(3, (0, 2, 1))),
    Operation("swap_adjacent_at_depth", "axes k and k + 1 exchanged; no such axes, no change", _swap_adjacent),
    Operation("broadcast_to", "NumPy's broadcasting", _broadcast_to),
    Operation("reduce_sum", "y = Σ x over one axis", _reduce_sum),
    Operation("reduce_mean", "y = Σ x/n over one axis", _reduce_mean),
    Operation("gather_scalar", "y = x[i] for a fixed i", _gather(1, 0, static=True)),
    Operation("gather_row", "y = x[i, :] for a fixed i", _gather(2, 0, static=True)),
    Operation("gather_scalar_nat", "y = x[i], and 0 where there is no such i", _gather(1, 0)),
    Operation("gather_vec_nat", "y[k] = x[i[k]], and 0 where there is no such i", _gather(1, 1)),
    Operation("gather_rows_nat", "y[k, :] = x[i[k], :], and 0 where there is no such i", _gather(2, 1)),
    Operation("gather_scalar_ref", "y = x[i], with i among the session's naturals", _gather(1, 0)),
    Operation("gather_row_ref", "y = x[i, :], with i among the session's naturals", _gather(2, 0)),
    Operation("gather_vec_ref", "y[k] = x[i[k]], with i among the session's naturals", _gather(1, 1)),
    Operation("gather_rows_ref", "y[k, :] = x[i[k], :], with i among the session's naturals", _gather(2, 1)),
    Operation("scatter_add_vec", "a copy of x with x[i] += v", _scatter_add(1)),
    Operation("scatter_add_row", "a copy of x with x[i, :] += v", _scatter_add(2)),
    Operation("sigmoid", "y = 1/(1 + e⁻ˣ)", _primitive("sigmoid")),
    Operation("tanh", "y = tanh x", _primitive("tanh")),
    Operation("exp", "y = eˣ", _primitive("exp")),
    Operation("log", "y = ln x, for positive x", _primitive("log")),
    Operation("sum", "y = Σ x, a scalar", _total),
    Operation("softmax", "y = eˣ/Σ eˣ along the last axis", _along_last("softmax")),
    Operation("log_softmax", "y = x − ln Σ eˣ along the last axis", _along_last("log_softmax")),
    Operation("layer_norm", "y = (x − mean)/√(var + ε)·w + b over the last axis", _normalised),
    Operation("conv", "a convolution of one sample or a batch", _batched("conv", _by_weight)),
    Operation("conv2d", "a convolution over two axes of one sample or a batch", _batched("conv", _fixed(2))),
    Operation("conv_transpose", "the transpose of a convolution", _batched("conv_transpose", _by_weight)),
    Operation(
        "conv_transpose2d",
        "the transpose of a convolution over two axes",
        _batched("conv_transpose", _fixed(2)),
    ),
    Operation("max_pool", "y = max x over each window; padding left out", _batched("max_pool", _by_window)),
    Operation("max_pool2d", "y = max x over each window of two axes", _batched("max_pool", _fixed(2))),
    Operation("avg_pool", "y = Σ x/size over each window; padding counts as 0", _batched("avg_pool", _by_window)),
    Operation("avg_pool2d", "y = Σ x/size over each window of two axes", _batched("avg_pool", _fixed(2))),
    Operation("smooth_max_pool", "y = ln(Σ e^(βx))/β over each window", _batched("smooth_max_pool", _by_window)),
    Operation(
        "smooth_max_pool2d",
        "y = ln(Σ e^(βx))/β over each window of two axes",
        _batched("smooth_max_pool", _fixed(2)),
    ),
    Operation("multi_head_attention", "softmax(QKᵀ/√h)·V by heads, and the output projection", _attention),
)

OPERATIONS: dict[str, Operation] = {
    **{
        name: Operation(name, PRIMITIVES[name].says, _primitive(name))
        for name in PRIMITIVES
        if name not in ("constant", "iota")
    },
    **{name: Operation(name, found.says, found.function) for name, found in COMPOSITIONS.items()},
    **{operation.name: operation for operation in OWN},
}
"""All that a session offers: the primitives, the compositions, and what is its own, which comes first."""

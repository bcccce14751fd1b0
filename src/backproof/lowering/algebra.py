"""Products of matrices and tensors, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from backproof.errors import GraphError
from backproof.ir.build import Ref, broadcast_shapes, matmul
from backproof.ir.compose.axes import axis_of
from backproof.ir.compose.reduce import total
from backproof.lowering.arithmetic import as_real
from backproof.lowering.diagonals import diagonal_of
from backproof.lowering.lowering import Lowering

MOST_AMONG = 1 << 24


def among(x: Ref, terms: int, to: str) -> Ref:
    """x as one term of a sum of so many more: kernels of float64 begin a product with what is added to it, and round it at each term."""
    if to != "float64":
        return x
    D, parts = x.builder, 1 << terms.bit_length()  # a power of two, so that the parts are exact
    if x.type.size * parts > MOST_AMONG:
        return x
    each = D.broadcast(x / float(parts), shape=(parts, *x.shape), axes=tuple(range(1, len(x.shape) + 1)))
    return D.sum(each, axes=(0,))


def _plus(function: Callable[..., Ref]) -> Callable[..., Ref]:
    """β·x + α·(a product)."""

    def lower(x: Ref, *given: Ref, beta: float = 1, alpha: float = 1, format: str = "float32", **named: Ref) -> Ref:  # noqa: A002
        found = function(*given, *named.values())  # the two have other names in each of these
        found = found if alpha == 1 else found * float(alpha)
        if beta == 0:
            return found
        terms = 1 if function is _outer else next(iter((*given, *named.values()))).shape[-1]
        return among(x if beta == 1 else x * float(beta), terms, format) + found

    return lower


def _added(a: Ref, b: Ref) -> Ref:
    """The sum over the batch of the products."""
    return a.builder.dot_general(a, b, contract=((0, 2), (0, 1)), batch=((), ()))


def _dot(a: Ref, b: Ref) -> Ref:
    return a.builder.dot_general(a, b, contract=((0,), (0,)), batch=((), ()))


def _outer(a: Ref, b: Ref) -> Ref:
    return a.builder.reshape(a, shape=(*a.shape, 1)) * b


def _inner(a: Ref, b: Ref) -> Ref:
    if not a.shape or not b.shape:
        return a * b
    return a.builder.dot_general(a, b, contract=((len(a.shape) - 1,), (len(b.shape) - 1,)), batch=((), ()))


def _vecdot(a: Ref, b: Ref, *, dim: int = -1) -> Ref:
    shape = broadcast_shapes(a.shape, b.shape)
    return total(a.broadcast_to(shape) * b.broadcast_to(shape), dim)


def _tensordot(a: Ref, b: Ref, dims: Any = 2, **_: Any) -> Ref:
    if isinstance(dims, int):
        left, right = tuple(range(len(a.shape) - dims, len(a.shape))), tuple(range(dims))
    else:
        left, right = (tuple([given] if isinstance(given, int) else given) for given in dims)
        left, right = (tuple(axis_of(d, len(x.shape)) for d in axes) for axes, x in ((left, a), (right, b)))
    lone = [(i, j) for i, j in zip(left, right, strict=True) if a.shape[i] != b.shape[j]]
    if lone:  # an axis of size 1 meets one of any size: that is summed by itself
        raise GraphError("tensordot over axes of unequal sizes is not lowered")
    return a.builder.dot_general(a, b, contract=(left, right), batch=((), ()))


def _kron(a: Ref, b: Ref) -> Ref:
    rank = max(len(a.shape), len(b.shape))
    m, n = ((1,) * (rank - len(x.shape)) + x.shape for x in (a, b))
    D = a.builder
    shape = tuple(size for pair in zip(m, n, strict=True) for size in pair)
    left = D.broadcast(D.reshape(a, shape=m), shape=shape, axes=tuple(range(0, 2 * rank, 2)))
    right = D.broadcast(D.reshape(b, shape=n), shape=shape, axes=tuple(range(1, 2 * rank, 2)))
    return D.reshape(left * right, shape=tuple(i * j for i, j in zip(m, n, strict=True)))


def _cross(a: Ref, b: Ref, dim: int | None = None) -> Ref:
    shape = broadcast_shapes(a.shape, b.shape)
    a, b = a.broadcast_to(shape), b.broadcast_to(shape)
    axis = shape.index(3) if dim is None else axis_of(dim, len(shape))

    def turned(x: Ref, order: tuple[int, ...]) -> Ref:
        lead = (slice(None),) * axis
        return x.builder.concat(*(x[(*lead, slice(i, i + 1))] for i in order), axis=axis)

    return turned(a, (1, 2, 0)) * turned(b, (2, 0, 1)) - turned(a, (2, 0, 1)) * turned(b, (1, 2, 0))


def _chain(*tensors: Any) -> Ref:
    """A product of several matrices, in the order that takes the fewest products; the mathematics is that of any order."""
    parts = list(tensors[0]) if isinstance(tensors[0], (list, tuple)) else list(tensors)
    found = parts[0]
    for other in parts[1:]:
        found = matmul(found, other)
    return found


def _matrix_power(x: Ref, n: int) -> Ref:
    if n < 1:
        raise GraphError("only positive powers of a matrix are lowered")
    found, square, rest = None, x, n
    while rest:
        if rest & 1:
            found = square if found is None else matmul(found, square)
        rest >>= 1
        square = matmul(square, square) if rest else square
    assert found is not None
    return found


def _bilinear(x1: Ref, x2: Ref, weight: Ref, bias: Ref | None = None) -> Ref:
    D, lead = x1.builder, x1.shape[:-1]
    rows = math.prod(lead)
    left = D.reshape(x1, shape=(rows, x1.shape[-1]))
    right = D.reshape(x2, shape=(rows, x2.shape[-1]))
    half = D.dot_general(left, weight, contract=((1,), (1,)), batch=((), ()))  # row, out, in2
    found = D.reshape(
        D.dot_general(half, right, contract=((2,), (1,)), batch=((0,), (0,))), shape=(*lead, weight.shape[0])
    )
    return found if bias is None else found + bias


# ── einsum ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _einsum(equation: Any, *operands: Any) -> Ref:
    if not isinstance(equation, str):
        raise GraphError("einsum by lists of numbers is not lowered, only by an equation")
    parts = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    names, result = _named_axes(equation.replace(" ", ""), [len(x.shape) for x in parts])
    terms = [_once(as_real(x, x), axes) for x, axes in zip(parts, names, strict=True)]
    sizes: dict[str, int] = {}
    for x, axes in terms:
        for axis, size in zip(axes, x.shape, strict=True):
            sizes[axis] = size if sizes.get(axis, 1) == 1 else sizes[axis]
    found, axes = terms[0]
    for i, (x, more) in enumerate(terms[1:], 1):
        needed = {*result, *(axis for _, other in terms[i + 1 :] for axis in other)}
        found, axes = _contracted((found, axes), (x, more), needed)
    return _arranged(found, axes, result, sizes)


def _named_axes(equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """Each operand's axes by name, and the result's; what `...` stands for is named by its place from the end."""
    left, arrow, right = equation.partition("->")
    sides = left.split(",")
    if len(sides) != len(ranks):
        raise GraphError(f"einsum {equation!r} names {len(sides)} operands, and has {len(ranks)}")
    names = [_axes_of(side, rank - len(side.replace("...", ""))) for side, rank in zip(sides, ranks, strict=True)]
    widest = max((len([a for a in axes if a.startswith("…")]) for axes in names), default=0)
    if arrow:
        return names, _axes_of(right, widest)
    every = [axis for axes in names for axis in axes]
    once = sorted(axis for axis in set(every) if every.count(axis) == 1 and not axis.startswith("…"))
    return names, [*(f"…{i}" for i in reversed(range(widest))), *once]


def _axes_of(side: str, dots: int) -> list[str]:
    before, found, after = side.partition("...")
    return [*before, *(f"…{i}" for i in reversed(range(dots)) if found), *after]


def _once(x: Ref, axes: list[str]) -> tuple[Ref, list[str]]:
    """An axis that is named twice is a diagonal."""
    while len(set(axes)) < len(axes):
        name = next(axis for axis in axes if axes.count(axis) > 1)
        first, second = [i for i, axis in enumerate(axes) if axis == name][:2]
        x = diagonal_of(x, 0, first, second)
        axes = [*(axis for i, axis in enumerate(axes) if i not in (first, second)), name]
    return x, axes


def _contracted(a: tuple[Ref, list[str]], b: tuple[Ref, list[str]], needed: set[str]) -> tuple[Ref, list[str]]:
    """The product of two, summed over what they share and nothing else needs."""
    (x, left), (y, right) = _summed(a, {*needed, *b[1]}), _summed(b, {*needed, *a[1]})
    x, left, y, right = _alike(x, left, y, right)
    shared = [axis for axis in left if axis in right]
    batch = [axis for axis in shared if axis in needed]
    over = [axis for axis in shared if axis not in needed]
    found = x.builder.dot_general(
        x,
        y,
        contract=(tuple(left.index(axis) for axis in over), tuple(right.index(axis) for axis in over)),
        batch=(tuple(left.index(axis) for axis in batch), tuple(right.index(axis) for axis in batch)),
    )
    return found, [*batch, *(a for a in left if a not in shared), *(a for a in right if a not in shared)]


def _alike(x: Ref, left: list[str], y: Ref, right: list[str]) -> tuple[Ref, list[str], Ref, list[str]]:
    """A shared axis that one side has with size 1 only is that side's no more."""
    lone = [
        (axis, x.shape[left.index(axis)], y.shape[right.index(axis)])
        for axis in left
        if axis in right and x.shape[left.index(axis)] != y.shape[right.index(axis)]
    ]
    for axis, of_x, _ in lone:
        if of_x == 1:
            x, left = _dropped(x, left, axis)
        else:
            y, right = _dropped(y, right, axis)
    return x, left, y, right


def _dropped(x: Ref, axes: list[str], name: str) -> tuple[Ref, list[str]]:
    at = axes.index(name)
    return x.builder.reshape(x, shape=x.shape[:at] + x.shape[at + 1 :]), axes[:at] + axes[at + 1 :]


def _summed(term: tuple[Ref, list[str]], needed: set[str]) -> tuple[Ref, list[str]]:
    x, axes = term
    over = tuple(i for i, axis in enumerate(axes) if axis not in needed)
    return (x.builder.sum(x, axes=over), [axis for axis in axes if axis in needed]) if over else term


def _arranged(x: Ref, axes: list[str], result: list[str], sizes: dict[str, int]) -> Ref:
    x, axes = _summed((x, axes), set(result))
    missing = [axis for axis in result if axis not in axes]
    x = x.builder.reshape(x, shape=(*x.shape, *(1 for _ in missing)))
    axes = [*axes, *missing]
    found = x.builder.transpose(x, axes=tuple(axes.index(axis) for axis in result))
    return found.broadcast_to(tuple(sizes.get(axis, 1) for axis in result))


ALGEBRA = (
    *(Lowering(op, lambda a, b, **_: matmul(a, b)) for op in ("matmul", "mm", "bmm", "mv")),
    Lowering("rmatmul", lambda a, b: matmul(b, a)),
    *(Lowering(op, _plus(matmul), formatted=True) for op in ("addmm", "addmv", "baddbmm")),
    Lowering("addbmm", _plus(_added), formatted=True),
    Lowering("addr", _plus(_outer), formatted=True),
    *(Lowering(op, _dot) for op in ("dot", "vdot")),
    Lowering("outer", _outer),
    Lowering("ger", _outer),
    Lowering("inner", _inner),
    Lowering("vecdot", _vecdot),
    Lowering("tensordot", _tensordot),
    Lowering("kron", _kron, in_pieces=True),
    Lowering("cross", _cross),
    Lowering("linalg_cross", lambda a, b, *, dim=-1: _cross(a, b, dim)),
    *(Lowering(op, _chain) for op in ("multi_dot", "chain_matmul")),
    Lowering("matrix_power", _matrix_power, in_pieces=True),
    Lowering("bilinear", _bilinear),
    Lowering("einsum", _einsum),
)

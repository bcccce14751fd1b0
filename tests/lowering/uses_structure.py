"""Views, copies, joins, splits; what a view is after its base was written, and the reverse."""

from __future__ import annotations

import torch
from beside_torch import Use, use
from given import real, truth, whole

A, C, V, ONE = real(3, 4), real(2, 3, 4), real(6), real()
N, T = whole(3, 4, below=9), truth(3, 4)
MANY = [A, real(3, 4, seed=1), real(3, 4, seed=2)]


def through_a_view(x, y):
    whole_of = x.clone()
    whole_of[1].mul_(y)
    return whole_of * 2


def seen_by_a_view(x, y):
    whole_of = x.clone()
    row = whole_of[0]
    whole_of.add_(y)
    return row * 2


def seen_by_an_alias(x):
    """A tensor that shares memory without being a view of it, as autograd sees it."""
    whole_of = x.clone()
    other = whole_of.detach()
    whole_of.mul_(2)
    return whole_of, other + 1


def through_a_column(x, y):
    whole_of = x.clone()
    whole_of.t()[1:3].copy_(y)
    return whole_of


STRUCTURE: list[Use] = [
    use(torch.reshape, A, (2, -1)),
    use(lambda x: x.view(4, 3), A),
    use(lambda x: x.view(-1), A),
    use(lambda x: x.reshape(1, 12), A),
    use(torch.view_copy, A, (6, 2)),
    use(torch.ops.aten._unsafe_view, A, (6, 2)),
    use(lambda x: x.t().contiguous(), A),
    use(torch.clone, A),
    use(torch.alias_copy, A),
    use(lambda x, y: x.view_as(y), V, real(2, 3)),
    use(lambda x, y: x.reshape_as(y), V, real(2, 3)),
    use(torch.ravel, C),
    use(torch.ravel, real(0, 3)),
    use(lambda x: x.to(torch.float32) * 2, A),
    use(lambda x: x.to(torch.float64), A),
    use(lambda x: x.to(torch.bfloat16).to(torch.float32), A),
    use(lambda x, n: n.to(x), A, N),
    use(lambda x: x.type(torch.float32), A),
    use(torch.ops.aten._to_copy, A, dtype=torch.float32),
    use(lambda n, x: n.type_as(x), N, A),
    *(use(lambda n, to=to: getattr(n, to)(), N) for to in "double float half bfloat16 int short char byte".split()),
    use(lambda x: x.bool(), N),
    use(lambda n: n.int().long(), N),
    use(lambda x: x.long(), A),
    use(lambda x: x.detach() * x, A),
    use(torch.transpose, C, 0, 2),
    use(torch.transpose_copy, C, -1, 1),
    use(torch.transpose, ONE, 0, -1),
    use(torch.permute, C, (2, 0, 1)),
    use(lambda x: x.permute(1, 0, -1), C),
    use(torch.permute_copy, C, (1, 2, 0)),
    use(torch.t, A),
    use(torch.t, V),
    use(torch.t_copy, A),
    use(lambda x: x.T, A),
    use(lambda x: x.H, A),
    use(lambda x: x.mT, C),
    use(lambda x: x.mH, C),
    use(torch.adjoint, C),
    use(torch.movedim, C, 0, -1),
    use(torch.movedim, C, (0, 1), (2, 0)),
    use(torch.swapaxes, C, 0, 1),
    use(lambda x: x.expand(2, 3, 4), A),
    use(lambda x: x.expand(-1, 5), real(3, 1)),
    use(torch.expand_copy, real(3, 1), (3, 4)),
    use(lambda x, y: x.expand_as(y), real(4), A),
    use(torch.broadcast_to, real(3, 1), (2, 3, 4)),
    use(torch.broadcast_tensors, real(3, 1), real(4)),
    use(torch.unsqueeze, A, 1),
    use(torch.unsqueeze, A, -1),
    use(torch.unsqueeze_copy, A, 0),
    use(torch.squeeze, real(1, 3, 1)),
    use(torch.squeeze, real(1, 3, 1), 0),
    use(torch.squeeze, real(1, 3, 1), (0, -1)),
    use(torch.squeeze, A, 0),
    use(torch.squeeze_copy, real(1, 3, 1), 2),
    use(torch.flatten, C),
    use(torch.flatten, C, 1),
    use(torch.flatten, ONE),
    use(torch.unflatten, A, 1, (2, -1)),
    use(torch.cat, MANY),
    use(torch.cat, MANY, 1),
    use(torch.cat, [torch.zeros(0, dtype=torch.float64), A], -1),
    use(torch.cat, [N, T]),
    use(torch.cat, [A, N]),
    use(torch.concat, MANY, dim=-1),
    use(torch.stack, MANY),
    use(torch.stack, MANY, -1),
    use(torch.hstack, MANY),
    use(torch.hstack, [V, V.detach().clone()]),
    use(torch.vstack, [A, real(4)]),
    use(torch.dstack, MANY),
    use(torch.dstack, [V, V.detach().clone()]),
    use(torch.column_stack, [real(3), A]),
    use(torch.block_diag, A, real(2, 1), V),
    use(torch.cartesian_prod, V, real(2)),
    use(torch.cartesian_prod, V),
    use(torch.atleast_1d, ONE),
    use(torch.atleast_2d, V),
    use(torch.atleast_3d, V),
    use(torch.atleast_3d, A),
    use(torch.atleast_2d, V, ONE),
    use(torch.meshgrid, V, real(2), indexing="ij"),
    use(torch.meshgrid, V, real(2), indexing="xy"),
    use(torch.split, C, 2, 1),
    use(torch.split, V, [1, 2, 3]),
    use(torch.split_with_sizes_copy, V, [1, 5]),
    use(torch.split_with_sizes, V, [1, 5]),
    use(torch.chunk, V, 4),
    use(lambda x: x.chunk(2, -1), A),
    use(torch.tensor_split, V, 4),
    use(torch.tensor_split, V, (1, 4, 9)),
    use(torch.vsplit, real(4, 2), 2),
    use(torch.hsplit, A, [1]),
    use(torch.hsplit, V, 3),
    use(torch.dsplit, C, 2),
    use(torch.unbind, C),
    use(torch.unbind_copy, C, 1),
    use(torch.select, C, 1, -1),
    use(torch.select_copy, C, 1, 0),
    use(torch.narrow, C, 1, -2, 2),
    use(torch.narrow_copy, C, 2, 1, 2),
    use(torch.tile, A, (2,)),
    use(torch.tile, A, (2, 1, 3)),
    use(lambda x: x.repeat(2, 3), A),
    use(lambda x: x.repeat(0, 3), A),
    use(torch.roll, A, 2),
    use(torch.roll, A, (1, -1), (0, 1)),
    use(torch.roll, A, 5, 1),
    use(torch.flip, C, (0, 2)),
    use(torch.fliplr, A),
    use(torch.flipud, A),
    *(use(torch.rot90, A, k) for k in range(4)),
    use(torch.rot90, C, 1, (1, 2)),
    use(lambda x: x.unfold(1, 2, 1), C),
    use(lambda x: x.unfold(0, 3, 2), V),
    use(torch.unfold_copy, V, 0, 2, 2),
    use(lambda x: x.sum_to_size(1, 4), A),
    use(lambda x: x.sum_to_size(4), A),
    use(lambda x, y: x.clone().copy_(y), A, real(4)),
    use(lambda x, n: x.clone().copy_(n), A, N),
    use(torch.fill, A, 2.0),
    use(torch.fill, A, ONE),
    use(lambda x: x.clone().fill_(3.0) + x, A),
    use(lambda x: x.clone().zero_() + x, A),
]


def another_memory(x, y):
    other = x.clone()
    other.data = y.data
    return other * x


MEMORY: list[Use] = [
    use(another_memory, A, real(3, 4, seed=3)),
    use(through_a_view, A, real(4)),
    use(seen_by_a_view, A, real(4)),
    use(seen_by_an_alias, A),
    use(through_a_column, A, real(2, 3)),
]

"""Every form of reading and writing by index; gathers, scatters, masks, diagonals."""

from __future__ import annotations

import torch
from beside_torch import Use, use
from given import real, truth, whole

A, C, V, D4 = real(4, 5), real(3, 4, 5), real(6), real(2, 3, 4, 5)
N = whole(4, 5, below=9)
I, J = torch.tensor([2, 0, 2]), torch.tensor([1, 3, -1])
ROWS, MASK = torch.tensor([True, False, True, True]), truth(4, 5)
SCALAR = torch.tensor(2)


def written(x, key, value):
    y = x.clone()
    y[key] = value
    return y


READS = [
    (A, 1),
    (A, -1),
    (A, (slice(1, 3), slice(None, None, 2))),
    (A, (..., 2)),
    (C, (slice(None), None, 1)),
    (C, (None, ..., None)),
    (A, SCALAR),
    (A, (SCALAR, 1)),
    (A, (slice(None), SCALAR)),
    (A, I),
    (A, [0, 2]),
    (A, (slice(None), J)),
    (A, (I, J)),
    (A, (I[:, None], J)),
    (C, (I, slice(None), J)),
    (C, (slice(None), J, I)),
    (C, (0, J)),
    (C, (0, slice(None), J)),
    (D4, (slice(None), I, 1, J)),
    (D4, (slice(None), I, slice(None), J)),
    (A, ROWS),
    (A, (slice(None), torch.tensor([True, False, False, True, True]))),
    (A, MASK),
    (C, (1, MASK)),
    (C, (slice(None), MASK)),
    (A, (ROWS, 1)),
    (A, (ROWS, torch.tensor([0, 1, 2]))),
    (A, torch.zeros(4, dtype=torch.bool)),
    (A, torch.zeros(0, dtype=torch.int64)),
    (N, (I, J)),
    (N, MASK),
    (A, torch.tensor([[0, 1], [3, 3]])),
    (A, slice(3, 1)),
    (V, ()),
]

WRITES = [
    (A, 1, 2.0),
    (A, 1, real(5, seed=3)),
    (A, (slice(1, 3), slice(None, None, 2)), real(2, 3, seed=3)),
    (A, (..., 2), real(4, seed=3)),
    (A, (..., 2), 1),
    (A, torch.tensor([2, 0]), real(2, 5, seed=3)),
    (A, torch.tensor([2, 0]), real(5, seed=3)),
    (A, (torch.tensor([2, 0]), torch.tensor([1, 3])), real(2, seed=3)),
    (A, (slice(None), torch.tensor([1, -1])), real(4, 2, seed=3)),
    (A, ROWS, 0.5),
    (A, ROWS, real(5, seed=3)),
    (A, ROWS, real(3, 5, seed=3)),
    (A, MASK, 0.0),
    (A, MASK, real(1, seed=3)),
    (A, MASK, real(int(MASK.sum()), seed=3)),
    (N, (I, J), 7),
    (N, MASK, 3),
    (C, (slice(None), 1), real(1, 3, 5, seed=3)),
    (A, SCALAR, real(5, seed=3)),
]

INDEXING: list[Use] = [
    *(use(lambda x, key: x[key], x, key) for x, key in READS),
    *(use(written, x, key, value) for x, key, value in WRITES),
    use(torch.masked_select, A, MASK),
    use(torch.masked_select, A, ROWS[:, None]),
    use(torch.masked_scatter, A, MASK, real(20, seed=4)),
    use(torch.nonzero, MASK),
    use(torch.nonzero, N),
    use(torch.argwhere, MASK),
    use(torch.where, MASK),
    use(lambda t: torch.nonzero(t, as_tuple=True), MASK),
    use(torch.gather, A, 1, whole(4, 2, below=5)),
    use(torch.gather, A, 0, whole(2, 3, below=4)),
    use(torch.gather, A, -1, torch.zeros(4, 6, dtype=torch.int64)),
    use(torch.take_along_dim, A, whole(4, 2, below=5), 1),
    use(torch.take_along_dim, A, whole(1, 5, below=4), 0),
    use(torch.take_along_dim, A, whole(7, below=20)),
    use(torch.take, A, whole(2, 3, below=20)),
    use(torch.take, A, torch.tensor([-1, 0])),
    use(torch.scatter, A, 1, torch.tensor([[0, 1], [2, 3], [1, 0], [4, 2]]), real(4, 2, seed=5)),
    use(torch.scatter, A, 0, torch.tensor([[0, 1, 2, 3, 0]]), 2.5),
    use(torch.scatter, A, 1, torch.tensor([[0], [2], [3], [0]]), real(4, 1, seed=6)),
    use(lambda n, i, m: n.scatter(1, i, m), N, torch.tensor([[0], [2], [3], [0]]), N[:, :1] + 1),
    use(torch.scatter_add, A, 1, whole(4, 7, below=5), real(4, 7, seed=5)),
    use(torch.scatter_add, A, 0, whole(9, 3, below=4), real(9, 3, seed=5)),
    use(torch.scatter_reduce, A, 1, whole(4, 7, below=5), real(4, 7, seed=5), "sum"),
    use(torch.scatter_reduce, A, 1, whole(4, 7, below=5), real(4, 7, seed=5), "mean", include_self=False),
    use(torch.scatter_reduce, A, 0, whole(6, 5, below=4), real(6, 5, seed=5), "mean"),
    use(torch.index_add, A, 0, I, real(3, 5, seed=5)),
    use(torch.index_add, A, 1, I, real(4, 3, seed=5), alpha=2),
    use(torch.index_copy, A, 0, torch.tensor([3, 1]), real(2, 5, seed=5)),
    use(torch.index_copy, A, 1, torch.tensor([3, 1]), real(4, 2, seed=5)),
    use(torch.index_fill, A, 0, I, -1.0),
    use(torch.index_fill, A, 1, I, real()),
    use(torch.index_select, A, 1, I),
    use(torch.index_select, N, 0, I),
    use(torch.index_put, A, (I, torch.tensor([1, 3, 4])), real(3, seed=5)),
    use(torch.index_put, A, (I, J), real(3, seed=5), accumulate=True),
    use(torch.index_put, A, (I,), real(5, seed=5), accumulate=True),
    use(torch.index_put, A, (torch.tensor([2, 2]), torch.tensor([1, 1])), real(2, seed=5), accumulate=True),
    use(torch.repeat_interleave, A, 3, 0),
    use(torch.repeat_interleave, A, 2),
    use(torch.repeat_interleave, A, torch.tensor([1, 0, 2, 3]), 0),
    use(torch.repeat_interleave, A, torch.tensor([2]), 1),
    use(torch.tril, A),
    use(torch.tril, C, -1),
    use(torch.triu, A, 1),
    use(torch.triu, N),
    use(torch.diagonal, A),
    use(torch.diagonal, C, 1, 0, 2),
    use(torch.diagonal_copy, A, -2),
    use(torch.linalg.diagonal, C, offset=-1),
    use(torch.diag_embed, A),
    use(torch.diag_embed, A, 1, 0, 2),
    use(torch.diag, V),
    use(torch.diag, V, -2),
    use(torch.diag, A, 1),
    use(torch.diagflat, A, 1),
    use(torch.trace, A),
]

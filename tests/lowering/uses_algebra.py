"""Products of matrices and tensors."""

from __future__ import annotations

import torch
from beside_torch import Use, use
from given import real

A, B, V, W = real(3, 4), real(4, 5), real(4, seed=1), real(3, seed=2)
S, R = real(2, 3, 4), real(2, 4, 5)
C = real(3, 5, seed=3)
BATCH = real(2, 3, 5, seed=4)

ALGEBRA: list[Use] = [
    use(torch.matmul, A, B),
    use(torch.matmul, S, R),
    use(torch.matmul, S, B),
    use(torch.matmul, A, V),
    use(torch.matmul, V, B),
    use(torch.matmul, V, V),
    use(torch.matmul, real(2, 1, 3, 4), real(5, 4, 2)),
    use(lambda x, y: x @ y, A, B),
    use(lambda x, y: x.__rmatmul__(y), B, A),
    use(torch.mm, A, B),
    use(torch.bmm, S, R),
    use(torch.mv, A, V),
    use(torch.addmm, C, A, B),
    use(torch.addmm, real(5), A, B, beta=0.5, alpha=2),
    use(torch.addmm, C, A, B, beta=0),
    use(torch.addmv, W, A, V, alpha=0.5),
    use(torch.baddbmm, BATCH, S, R, alpha=2),
    use(torch.addbmm, C, S, R, beta=2),
    use(torch.addr, A, W, V, beta=0.5, alpha=2),
    use(torch.dot, V, real(4, seed=7)),
    use(torch.vdot, V, real(4, seed=7)),
    use(torch.outer, W, V),
    use(torch.ger, W, V),
    use(torch.inner, A, V),
    use(torch.inner, A, real(5, 4, seed=2)),
    use(torch.inner, A, torch.tensor(2.0, dtype=torch.float64)),
    use(torch.linalg.vecdot, S, A),
    use(torch.linalg.vecdot, S, A, dim=1),
    use(torch.tensordot, S, R, dims=([0, 2], [0, 1])),
    use(torch.tensordot, A, B, 1),
    use(torch.tensordot, A, V, ([-1], [0])),
    use(torch.tensordot, A, C, 0),
    use(torch.kron, A, real(2, 3)),
    use(torch.kron, V, real(2, 3)),
    use(torch.cross, real(2, 3), real(2, 3, seed=1), 1),
    use(torch.linalg.cross, real(3, 2), real(3, 2, seed=1), dim=0),
    use(torch.linalg.cross, real(4, 3), real(1, 3, seed=1)),
    use(torch.linalg.multi_dot, [A, B, real(5, 2)]),
    use(torch.chain_matmul, A, B, real(5, 2)),
    use(torch.matrix_power, real(3, 3), 5),
    use(torch.linalg.matrix_power, real(2, 3, 3), 2),
    use(torch.nn.functional.bilinear, S, real(2, 3, 5, seed=1), real(6, 4, 5, seed=2), real(6)),
    use(torch.nn.functional.bilinear, A, C, real(2, 4, 5, seed=2)),
    use(torch.einsum, "ij,jk->ik", A, B),
    use(torch.einsum, "bij,bjk->bik", S, R),
    use(torch.einsum, "ij->ji", A),
    use(torch.einsum, "ii->i", real(4, 4)),
    use(torch.einsum, "ij,ij->", A, real(3, 4, seed=8)),
    use(torch.einsum, "...ij,...jk", real(2, 1, 3, 4), real(5, 4, 2)),
    use(torch.einsum, "i,j,k->kij", W, V, real(2)),
    use(torch.einsum, "bij,j,bk -> bi", S, V, real(2, 6)),
    use(torch.einsum, "bhid,bhjd->bhij", real(2, 2, 3, 4), real(2, 2, 5, 4)),
    use(torch.einsum, "iij->j", real(3, 3, 2)),
]

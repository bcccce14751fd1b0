"""Complex numbers, made of reals and read as reals again."""

from __future__ import annotations

import torch
from beside_torch import Use, use
from given import above, blank, plain, real

A, B = real(3, 4, 2), real(3, 4, 2, seed=1)


def paired(function, *given):
    """A function of complex numbers, from reals to reals."""

    def of_pairs(*given):
        result = function(*map(torch.view_as_complex, given))
        return torch.view_as_real(result.resolve_conj()) if result.is_complex() else result

    return use(of_pairs, *given)


PAIRS: list[Use] = [
    paired(torch.mul, A, B),
    use(lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.polar(y.exp(), y)), A, plain(real(3, 4))),
    paired(lambda x: x * 1.5, A),
    use(lambda x, y: torch.view_as_real(torch.view_as_complex(x) * y), A, real(4)),
    use(lambda x, y: torch.view_as_real(y * torch.view_as_complex(x)), A, real(3, 4)),
    paired(torch.add, A, B),
    paired(lambda x: x + 2.0, A),
    use(lambda x, y: torch.view_as_real(torch.view_as_complex(x) + y), A, real(2, 3, 4)),
    paired(torch.sub, A, B),
    use(lambda x, y: torch.view_as_real(y - torch.view_as_complex(x)), A, real(4)),
    paired(lambda x: x / 3, A),
    use(lambda x, y: torch.view_as_real(torch.view_as_complex(x) / y), A, above(4)),
    paired(torch.neg, A),
    paired(torch.conj, A),
    paired(lambda x: x.conj() * x.real, A),
    paired(lambda x: x.real * 2 + x.imag, A),
    paired(lambda x: x.conj().imag, A),
    paired(torch.abs, A),
    paired(torch.abs, blank(3, 4, 2)),
    paired(lambda x: x.sum(), A),
    paired(lambda x: x.sum(-1, keepdim=True), A),
    paired(lambda x: x[..., 1:], A),
    paired(lambda x: x[1], A),
    paired(lambda x: x[:, None, torch.tensor([0, 0, 2])], A),
    paired(lambda x: x.transpose(-1, 0), A),
    paired(lambda x: x.reshape(-1).unsqueeze(-1).squeeze(-1).view(2, 6).flatten(), A),
    paired(lambda x: x[:, :1].expand(-1, 4), A),
    use(lambda x, y: torch.view_as_real(torch.complex(x, y)), real(3, 4), real(3, 4, seed=1)),
    use(lambda x, y: torch.view_as_real(torch.polar(x, y)), above(3, 4), real(3, 4, seed=1)),
]

"""Losses, with what scales and shapes them."""

from __future__ import annotations

import torch
from beside_torch import Use, use
from given import above, blank, chance, plain, real, whole

F = torch.nn.functional
X, Y = real(5, 4), real(5, 4, seed=1)
K = torch.tensor([0, 3, 2, -100, 1])
SEGMENTS, PIXELS = real(2, 4, 3, 3), whole(2, 3, 3, below=4)
WEIGHT = plain(above(4))
SPOKEN = torch.log_softmax(plain(real(6, 2, 5)), 2).requires_grad_()
WORDS = torch.tensor([[1, 2, 2], [3, 1, 4]])
PROBABLE = torch.softmax(plain(Y), 1).requires_grad_()
SIGNS = torch.tensor([1, -1, 1, 1, -1])
BITS = (plain(Y) > 0).double()

LOSSES: list[Use] = [
    use(F.cross_entropy, X, K),
    use(F.cross_entropy, X, K.clamp(min=0), weight=WEIGHT, ignore_index=2, reduction="sum"),
    use(F.cross_entropy, X, K, weight=WEIGHT, label_smoothing=0.1),
    use(F.cross_entropy, X, K, label_smoothing=0.2, reduction="none"),
    use(F.cross_entropy, X, PROBABLE),
    use(F.cross_entropy, X, PROBABLE, weight=WEIGHT, label_smoothing=0.1),
    use(F.ctc_loss, SPOKEN, WORDS, torch.tensor([6, 4]), torch.tensor([3, 2])),
    use(F.ctc_loss, SPOKEN, WORDS, (6, 5), (3, 0), reduction="sum"),
    use(F.ctc_loss, SPOKEN, torch.tensor([1, 2, 2, 3]), (6, 5), (3, 1), reduction="none"),
    use(F.ctc_loss, SPOKEN, WORDS, (6, 1), (3, 2), zero_infinity=True),
    use(F.ctc_loss, SPOKEN, WORDS - 1, (6, 6), (3, 3), blank=4),
    use(F.cross_entropy, SEGMENTS, PIXELS),
    use(F.cross_entropy, SEGMENTS, PIXELS, weight=WEIGHT, reduction="none"),
    use(F.cross_entropy, real(4), torch.tensor(2)),
    use(F.nll_loss, torch.log_softmax(plain(X), 1).requires_grad_(), K),
    use(F.nll_loss, SEGMENTS, PIXELS, WEIGHT, reduction="sum"),
    *(use(F.mse_loss, X, Y, reduction=how) for how in ("mean", "sum", "none")),
    use(F.mse_loss, X, Y, weight=plain(above(5, 4))),
    *(use(F.l1_loss, X, Y, reduction=how) for how in ("mean", "sum", "none")),
    use(F.huber_loss, X, Y, "mean", 0.7),
    use(F.huber_loss, X, Y, reduction="none"),
    use(F.smooth_l1_loss, X, Y, beta=0.5),
    use(F.smooth_l1_loss, X, Y, reduction="sum"),
    use(F.kl_div, X, PROBABLE, reduction="batchmean"),
    use(F.kl_div, X, PROBABLE, reduction="sum"),
    use(F.kl_div, X, torch.log_softmax(plain(Y), 1), reduction="mean", log_target=True),
    use(F.binary_cross_entropy, chance(5, 4), BITS),
    use(F.binary_cross_entropy, chance(5, 4), chance(5, 4, seed=3), plain(above(5, 4)), reduction="sum"),
    use(F.binary_cross_entropy_with_logits, X, BITS),
    use(F.binary_cross_entropy_with_logits, X, BITS, pos_weight=WEIGHT, weight=WEIGHT, reduction="none"),
    use(F.gaussian_nll_loss, X, Y, above(5, 4)),
    use(F.gaussian_nll_loss, X, Y, above(5, 1), full=True, reduction="sum"),
    use(F.gaussian_nll_loss, X, Y, above(5)),
    use(F.poisson_nll_loss, X, plain(above(5, 4))),
    use(F.poisson_nll_loss, above(5, 4), plain(above(5, 4, seed=1)), log_input=False, full=True, reduction="sum"),
    use(F.hinge_embedding_loss, X, SIGNS[:, None].double(), 0.7),
    use(F.margin_ranking_loss, X[:, 0].detach().requires_grad_(), Y[:, 0].detach(), SIGNS.double(), 0.3),
    use(F.soft_margin_loss, X, SIGNS[:, None].expand(5, 4).double()),
    use(F.soft_margin_loss, X, SIGNS[:, None].expand(5, 4).double(), reduction="none"),
    use(F.multi_margin_loss, X, K.clamp(min=0)),
    use(F.multi_margin_loss, X, K.clamp(min=0), p=2, margin=0.5, weight=WEIGHT, reduction="sum"),
    use(F.multi_margin_loss, real(4), torch.tensor(2)),
    use(F.multilabel_margin_loss, X, torch.tensor([[0, 2, -1, 1]] * 5)),
    use(F.multilabel_margin_loss, real(4), torch.tensor([3, -1, 0, 0]), reduction="sum"),
    use(F.multilabel_soft_margin_loss, X, BITS),
    use(F.multilabel_soft_margin_loss, X, BITS, WEIGHT, reduction="none"),
    use(F.cosine_embedding_loss, X, Y, SIGNS),
    use(F.cosine_embedding_loss, X, Y, SIGNS, 0.2, reduction="sum"),
    use(F.cosine_embedding_loss, blank(5, 4), Y, SIGNS),
    use(F.pairwise_distance, X, Y),
    use(F.pairwise_distance, X, Y, 1.0, 1e-3, True),
    use(F.triplet_margin_loss, X, Y, real(5, 4, seed=4)),
    use(F.triplet_margin_loss, X, Y, real(5, 4, seed=4), 2.0, 3, swap=True, reduction="none"),
]

"""Padding, resizing, windows, pooling, channels."""

from __future__ import annotations

import math

import torch
from beside_torch import Use, use
from given import blank, plain, real, truth, whole

F = torch.nn.functional
L, P, Q = real(2, 4, 9), real(2, 4, 6, 7), real(1, 4, 5, 6, 4)

SPACE: list[Use] = [
    use(F.pad, P, (1, 2)),
    use(F.pad, P, (1, -1, 0, 2), value=0.5),
    use(F.pad, P, (1, 2, 3, 0), "reflect"),
    use(F.pad, P, (1, 2, 3, 0), "replicate"),
    use(F.pad, P, (1, 2, 3, 0), "circular"),
    use(F.pad, L, (2, 1), "reflect"),
    use(F.pad, whole(3, 4, below=5), (1, 1), value=7),
    use(F.pad, truth(3, 4), (1, 0), value=True),
    use(torch.constant_pad_nd, P, (2, -2), 1.5),
    use(F.interpolate, P, size=(9, 5)),
    use(F.interpolate, P, scale_factor=2),
    use(F.interpolate, P, scale_factor=(1.5, 0.7)),
    use(F.interpolate, P, scale_factor=1.7, recompute_scale_factor=True),
    use(F.interpolate, P, (9, 5), mode="nearest-exact"),
    use(F.interpolate, P, (9, 5), mode="area"),
    use(F.interpolate, L, 5, mode="linear"),
    use(F.interpolate, P, (9, 5), mode="bilinear"),
    use(F.interpolate, P, scale_factor=2, mode="bilinear", align_corners=True),
    use(F.interpolate, P, scale_factor=(1.3, 2.0), mode="bilinear", align_corners=False),
    use(F.interpolate, P, (9, 5), mode="bicubic"),
    use(F.interpolate, P, (9, 5), mode="bicubic", align_corners=True),
    use(F.interpolate, Q, (4, 7, 8), mode="trilinear"),
    use(F.interpolate, P, (1, 1), mode="bilinear", align_corners=True),
    use(F.upsample_nearest, P, scale_factor=2),
    use(F.upsample_bilinear, P, size=(8, 9)),
    use(F.unfold, P, 3),
    use(F.unfold, P, (2, 3), dilation=(1, 2), padding=1, stride=(2, 1)),
    use(F.fold, real(2, 12, 12), (4, 5), (2, 2)),
    use(F.fold, real(12, 12), (4, 5), (2, 2)),
    use(F.fold, real(2, 9, 30), (5, 6), (3, 3), padding=1),
    use(F.max_pool1d, L, 3),
    use(F.max_pool1d, L, 3, 2, 1, 2),
    use(F.max_pool2d, P, 2),
    use(F.max_pool2d, P, (3, 2), (1, 2), 1, 1, True),
    use(F.max_pool2d, P, 2, return_indices=True),
    use(F.max_pool2d, real(4, 6, 7), 2),
    use(F.max_pool3d, Q, 2),
    use(F.avg_pool1d, L, 3, 2, 1),
    use(F.avg_pool2d, P, 3, 2, 1, True),
    use(F.avg_pool2d, P, 3, 2, 1, True, False),
    use(F.avg_pool2d, P, (2, 3), divisor_override=5),
    use(F.avg_pool3d, Q, 2, ceil_mode=True),
    use(F.avg_pool2d, P, 40, ceil_mode=True),
    use(F.max_pool2d, P, (40, 3), ceil_mode=True),
    use(F.max_pool2d, P, (40, 3), padding=1, ceil_mode=True, return_indices=True),
    use(F.max_unpool2d, real(2, 4, 3, 3), F.max_pool2d(plain(P)[..., :6], 2, return_indices=True)[1], 2),
    use(F.max_unpool2d, real(2, 4, 3, 3), F.max_pool2d(plain(P), 2, return_indices=True)[1], 2, output_size=(6, 7)),
    use(F.max_unpool1d, real(2, 4, 3), F.max_pool1d(plain(L), 3, return_indices=True)[1], 3),
    use(
        F.max_unpool3d, real(1, 4, 2, 3, 2), F.max_pool3d(plain(Q), 2, return_indices=True)[1], 2, output_size=(5, 6, 4)
    ),
    use(F.lp_pool1d, real(2, 4, 9, low=0.2), 3, 3),
    use(F.lp_pool2d, P, 2, 2, 2),
    use(F.lp_pool2d, P, 2.0, (2, 3), ceil_mode=True),
    use(F.lp_pool3d, Q, 2, 2),
    use(F.lp_pool1d, blank(2, 4, 9), 2, 3),
    use(F.lp_pool2d, P, 3, 2),
    use(F.lp_pool2d, P, 4.0, 2),
    use(F.lp_pool2d, P, math.inf, 2),
    use(F.lp_pool1d, L, -math.inf, 2),
    use(F.adaptive_avg_pool1d, L, 4),
    use(F.adaptive_avg_pool2d, P, (4, None)),
    use(F.adaptive_avg_pool2d, P, 1),
    use(F.adaptive_avg_pool3d, Q, (2, 3, 1)),
    use(F.adaptive_max_pool1d, L, 4),
    use(F.adaptive_max_pool2d, P, (4, 3)),
    use(F.adaptive_max_pool3d, Q, 2),
    *(
        use(F.grid_sample, P, real(2, 3, 5, 2, low=-1.3, high=1.3), how, beyond, corners)
        for how in ("bilinear", "nearest")
        for beyond in ("zeros", "border")
        for corners in (False, True)
    ),
    use(F.grid_sample, Q, real(1, 2, 3, 4, 3, low=-1.3, high=1.3), align_corners=False),
    use(F.grid_sample, P, F.affine_grid(torch.eye(2, 3, dtype=torch.float64).expand(2, 2, 3), (2, 4, 6, 7), False)),
    use(F.grid_sample, P, 1e9 * plain(real(2, 3, 5, 2)), padding_mode="border"),
    use(F.affine_grid, real(2, 2, 3), (2, 4, 5, 7), align_corners=False),
    use(F.affine_grid, real(2, 2, 3), (2, 4, 1, 7), align_corners=True),
    use(F.affine_grid, real(1, 3, 4), (1, 4, 2, 5, 3), align_corners=True),
    use(F.pixel_shuffle, P, 2),
    use(F.pixel_unshuffle, real(2, 3, 4, 6), 2),
    use(F.channel_shuffle, P, 2),
    use(torch.native_channel_shuffle, plain(P), 2),
]

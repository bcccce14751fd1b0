"""Where a function has a kink or two values are equal: PyTorch's choice among the subgradients.

Second derivatives only where PyTorch takes both from one side: its elu, prelu and softplus take the first from one side of the joint
and the second from the other.
"""

import torch
from agreement import Case, fixed
from cases_pointwise import vector_norm
from torch.nn import functional as fn


def joint(name, points, theirs, order=1, **params):
    return Case(name, f"at-joints-{'-'.join(map(str, params.values()))}", (fixed(points),), theirs, params, order=order)


def between(name, x, target, held=(), **params):
    theirs = {"bce_loss": fn.binary_cross_entropy}.get(name) or getattr(fn, name)
    setting = f"at-joints-{'-'.join(map(str, params.values()))}"
    return Case(name, setting, (fixed(x), fixed(target)), theirs, {**params, "reduction": "none"}, order=1, held=held)


ZERO = [0.0, -0.0]
NEAR = [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5]

CASES = [
    joint("leaky_relu", ZERO, fn.leaky_relu, negative_slope=0.25, order=2),
    Case("prelu", "at-joints", (fixed([[0.0, -0.0]]), fixed([0.25])), fn.prelu, {}, order=1),
    joint("elu", ZERO, fn.elu, alpha=0.5),
    joint("celu", ZERO, fn.celu, alpha=0.5),
    joint("selu", ZERO, fn.selu),
    joint("softplus", ZERO, fn.softplus, order=2),
    joint("softplus", [0.5, 0.25], fn.softplus, beta=2.0, threshold=1.0),
    joint("logsigmoid", ZERO, fn.logsigmoid, order=2),
    joint("mish", ZERO, fn.mish, order=2),
    joint("softsign", ZERO, fn.softsign, order=2),
    joint("hardtanh", NEAR, fn.hardtanh, order=2),
    joint("relu6", [0.0, -0.0, 6.0, 7.0], fn.relu6, order=2),
    joint("hardsigmoid", [-4.0, -3.0, 3.0, 4.0], fn.hardsigmoid),
    joint("hardswish", [-4.0, -3.0, 3.0, 4.0, 0.0], fn.hardswish),
    joint("softshrink", NEAR, fn.softshrink, lambd=0.5, order=2),
    joint("softshrink", NEAR, fn.softshrink, lambd=0.0, order=2),
    joint("hardshrink", NEAR, fn.hardshrink, lambd=0.5, order=2),
    joint("threshold", NEAR, fn.threshold, threshold=0.5, value=-1.0, order=2),
    joint("clamp", NEAR, lambda x, lo, hi: x.clamp(lo, hi), lo=-1.0, hi=1.0, order=2),
    joint("clamp", NEAR, lambda x, lo, hi, ends: fn.hardtanh(x, lo, hi), lo=-1.0, hi=1.0, ends="stop"),
    joint("amax", [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], torch.amax, dim=1),
    joint("amin", [[1.0, 1.0, 3.0], [2.0, 2.0, 2.0]], torch.amin, dim=1),
    joint("norm", [[1.0, 0.0, -2.0], [0.0, 0.0, 0.0]], vector_norm, p=1.0, dim=1),
    joint(
        "norm",
        [[2.0, 0.0, -2.0], [1.0, 0.0, 0.0]],
        vector_norm,
        p=float("inf"),
        dim=1,
    ),
    between("l1_loss", [1.0, 2.0, 3.0], [1.0, 1.0, 4.0]),
    between("smooth_l1_loss", [0.5, -0.5, 0.0, 1.0], [0.0] * 4, beta=0.5),
    between("smooth_l1_loss", [0.5, -0.5, 0.0, 1.0], [0.0] * 4, beta=0.0),
    between("huber_loss", [0.5, -0.5, 0.0, 1.0], [0.0] * 4, delta=0.5),
    between("bce_loss", [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1e-13], [0.0, 1.0, 0.0, 1.0, 0.25, 0.25, 0.5], held=(1,)),
]

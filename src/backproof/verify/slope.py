"""The slope test: a systematic error that hides inside the bounds of single elements.

Elements that are computed apart are rounded apart. Let the result fall into blocks that share no rounded number, and let
sᵦ = Σ claimed·derived − derived² over block b. For an honest kernel the sᵦ are independent, and a rounding is as likely up as
down, but for what all blocks have in common, which is at most A (`engine.coherent`). Given their sizes, the signs are then fair
coins, and by Hoeffding's inequality

    |Σ sᵦ| ≤ A + λ·(√Σ sᵦ² + √Σ aᵦ²)   but with probability 2·exp(−λ²/2),

where aᵦ is block b's part of A, by its size.
λ = 8 makes that 2.6e-14 for one equation, and below 1e-6 for the forty million equations of any step. Blocks whose relative errors
are equal to the last bit are copies of one another, and count as one. Fewer than λ² blocks say nothing; a test that cannot be made is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backproof.engine.coherent import coherent_pull
from backproof.engine.parallel import axes_apart
from backproof.numerics import FORMATS
from backproof.verify.origin import Origin

SLOPE_LAMBDA = 8.0
SMALLEST = 4.0
"""In units of roundoff: a slope below is within what the last operation alone may share (`coherent.OTHERWISE`); no look is needed."""


def slope_bound(claimed: Any, derived: Any, origins: Sequence[Origin], dtype: str, computing: str) -> float:
    """What honest rounding may make of the slope; infinite where nothing can be said."""
    if not origins or not np.isfinite(derived).all():
        return np.inf
    norm = float(np.vdot(derived, derived))
    spread, share = _spread(np.asarray(claimed, dtype=np.float64), derived, origins)
    if norm == 0 or spread >= np.inf:
        return np.inf
    pull = FORMATS[dtype].unit * norm  # the last rounding may be shared too, as of a constant result
    for origin in origins:
        graph, leaves, output = origin.derivation()
        weights = derived.reshape(graph.types[output].shape)
        pull += coherent_pull(graph, leaves, output, weights, FORMATS[computing])
    return (pull + SLOPE_LAMBDA * (spread + share * pull)) / norm


def _spread(claimed: Any, derived: Any, origins: Sequence[Origin]) -> tuple[float, float]:
    """√Σ sᵦ² over blocks that share no rounded number; and the same of the blocks' sizes, as a part of the whole."""
    apart = set(range(derived.ndim))
    for origin in origins:
        graph, _, output = origin.derivation()
        apart &= set(axes_apart(graph, output))
    within = tuple(axis for axis in range(derived.ndim) if axis not in apart)
    if not apart:
        return np.inf, 1.0
    pulls = np.sum((claimed - derived) * derived, axis=within).reshape(-1)
    sizes = np.sum(derived * derived, axis=within).reshape(-1)
    with np.errstate(all="ignore"):
        relative = np.where(sizes > 0, pulls / sizes, 0.0)
    _, copies = np.unique(relative, return_inverse=True)
    alike = np.bincount(copies.reshape(-1), weights=pulls)
    share = float(np.sqrt(np.sum(sizes * sizes)) / np.sum(sizes))
    return float(np.sqrt(np.sum(alike * alike))), share

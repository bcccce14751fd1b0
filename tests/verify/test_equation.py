"""Sums of contributions, whatever they are."""

from __future__ import annotations

import numpy as np

from backproof.engine.bound import Bound
from backproof.numerics import FORMATS
from backproof.verify.equation import added, judged


def test_infinities_that_meet_are_no_number_and_nobody_is_warned() -> None:
    total = added([Bound(np.array([np.inf, 1.0])), Bound(np.array([-np.inf, 2.0]))], FORMATS["float32"])

    assert judged(np.array([np.nan, 3.0], dtype=np.float32), total).verdict == "holds"
    assert judged(np.array([np.nan, 3.1], dtype=np.float32), total).verdict == "broken"

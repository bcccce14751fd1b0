"""Gradients: the seed of each backward pass, and each value's gradient, the sum over the calls that read it."""

from __future__ import annotations

import numpy as np

from backproof.engine.bounded import Bound
from backproof.trace.step import Value
from backproof.verify.equation import NotChecked
from backproof.verify.subject import Subject, domain


def add_seeds(subject: Subject) -> None:
    """What each backward pass begins with is a contribution like any other."""
    for backward in subject.step.backwards:
        value = subject.value(backward.value)
        seed = np.ones(value.shape) if backward.seed is None else subject.array(f"v{backward.seed}")
        subject.contribute(value.id, Bound(seed.astype(np.float64)))


def check_gradient(subject: Subject, value: Value) -> None:
    """A value's gradient is the sum over the calls that read it."""
    key = f"g{value.id}"
    if key not in subject.tensors:
        return
    place = value.name or f"value {value.id}"
    if value.id in subject.open:
        why = f"{subject.open[value.id]} reads it, and is not lowered"
        subject.verdict.add(NotChecked(f"gradient of {place}", why))
        return
    total = subject.totals.pop(value.id, None)
    derived = Bound(np.zeros(value.shape)) if total is None else total.bound(domain(value.dtype).storage)
    origins = tuple(total.origins) if total is not None and len(total.origins) == len(total.parts) else ()
    subject.compare("gradient", place, value.id, key, derived, origins)

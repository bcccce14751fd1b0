"""Schedules that multiply the rate: at every step, at some, or up to a step."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from backproof.optim.schedules.record import Config, Moment, Rate, Schedule, base, of


def _step(c: Config, at: Moment) -> Rate:
    due = at.k > 0 and at.k % of(c, "step_size") == 0
    return Rate(at.lr * of(c, "gamma") if due else at.lr)


def _step_closed(c: Config, at: Moment) -> Rate:
    return Rate(base(c, at) * of(c, "gamma") ** (at.k // of(c, "step_size")))


def milestones(c: Config) -> list[int]:
    """The steps at which the rate falls, one entry for each time it does."""
    given = of(c, "milestones")
    if isinstance(given, Mapping):
        return sorted(int(step) for step, times in given.items() for _ in range(times))
    return sorted(int(step) for step in given)


def _multi_step(c: Config, at: Moment) -> Rate:
    times = milestones(c).count(at.k)
    return Rate(at.lr * of(c, "gamma") ** times if times else at.lr)


def _multi_step_closed(c: Config, at: Moment) -> Rate:
    return Rate(base(c, at) * of(c, "gamma") ** bisect_right(milestones(c), at.k))


def _exponential(c: Config, at: Moment) -> Rate:
    return Rate(at.lr if at.first else at.lr * of(c, "gamma"))


def _exponential_closed(c: Config, at: Moment) -> Rate:
    return Rate(base(c, at) * of(c, "gamma") ** at.k)


def _constant(c: Config, at: Moment) -> Rate:
    factor = of(c, "factor")
    if at.k == 0:
        return Rate(at.lr * factor)
    return Rate(at.lr * (1.0 / factor) if at.k == of(c, "total_iters") else at.lr)


def _constant_closed(c: Config, at: Moment) -> Rate:
    return Rate(base(c, at) * (1.0 if at.k >= of(c, "total_iters") else of(c, "factor")))


def _linear(c: Config, at: Moment) -> Rate:
    start, end, total = (of(c, key) for key in ("start_factor", "end_factor", "total_iters"))
    if at.k == 0:
        return Rate(at.lr * start)
    if at.k > total:
        return Rate(at.lr)
    return Rate(at.lr * (1.0 + (end - start) / (total * start + (at.k - 1) * (end - start))))


def _linear_closed(c: Config, at: Moment) -> Rate:
    start, end, total = (of(c, key) for key in ("start_factor", "end_factor", "total_iters"))
    return Rate(base(c, at) * (start + (end - start) * min(total, at.k) / total))


def _polynomial(c: Config, at: Moment) -> Rate:
    total = of(c, "total_iters")
    if at.first or at.k > total:
        return Rate(at.lr)
    return Rate(at.lr * ((1.0 - at.k / total) / (1.0 - (at.k - 1) / total)) ** of(c, "power"))


def _polynomial_closed(c: Config, at: Moment) -> Rate:
    total = of(c, "total_iters")
    return Rate(base(c, at) * (1.0 - min(total, at.k) / total) ** of(c, "power"))


POWERS = (
    Schedule("StepLR", "η ← γ·η at every step_size-th step", _step, _step_closed),
    Schedule("MultiStepLR", "η ← γ·η at each milestone", _multi_step, _multi_step_closed),
    Schedule("ExponentialLR", "η ← γ·η", _exponential, _exponential_closed),
    Schedule("ConstantLR", "η = factor·η₀ until total_iters, then η₀", _constant, _constant_closed),
    Schedule("LinearLR", "η = η₀·(start + (end − start)·min(k/total_iters, 1))", _linear, _linear_closed),
    Schedule("PolynomialLR", "η = η₀·(1 − min(k/total_iters, 1))^power", _polynomial, _polynomial_closed),
)

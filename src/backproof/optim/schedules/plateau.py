"""The schedule that looks at a metric, and falls when it no longer improves."""

from __future__ import annotations

from typing import Any

from backproof.errors import InputError
from backproof.optim.schedules.record import Config, Moment, Rate, Schedule, of


def improves(c: Config, metric: float) -> bool:
    """Whether the metric is better than the best by more than the threshold."""
    best, threshold, lower = of(c, "best"), of(c, "threshold"), of(c, "mode") == "min"
    if of(c, "threshold_mode") == "rel":
        limit = best * (1.0 - threshold if lower else threshold + 1.0)
    else:
        limit = best - threshold if lower else best + threshold
    return bool(metric < limit if lower else metric > limit)


def plateau_state(c: Config, metric: float) -> tuple[dict[str, Any], bool]:
    """What is remembered after this metric, and whether the rate falls."""
    better, cooling = improves(c, metric), of(c, "cooldown_counter") > 0
    bad = 0 if better or cooling else of(c, "num_bad_epochs") + 1
    falls = bad > of(c, "patience")
    counter = of(c, "cooldown_counter") - cooling
    return {
        "best": metric if better else of(c, "best"),
        "num_bad_epochs": 0 if falls else bad,
        "cooldown_counter": of(c, "cooldown") if falls else counter,
    }, falls


def _plateau(c: Config, at: Moment) -> Rate:
    if at.first:
        return Rate(at.lr)
    if at.metric is None:
        raise InputError("ReduceLROnPlateau follows a metric, and none was recorded with its step")
    lower = max(at.lr * of(c, "factor"), of(c, "min_lrs")[at.index])
    falls = plateau_state(c, float(at.metric))[1] and at.lr - lower > of(c, "eps")
    return Rate(lower if falls else at.lr)


PLATEAU = Schedule(
    "ReduceLROnPlateau",
    "η ← max(factor·η, min_lr) once the metric has not improved for more than patience steps; from the state before the step",
    _plateau,
)

"""Schedules that go up and down: cosines, triangles, one cycle, and the way to an average."""

from __future__ import annotations

import math

from backproof.errors import InputError
from backproof.optim.schedules.record import Config, Moment, Rate, Schedule, base, of, of_group


def _cosine(c: Config, at: Moment) -> Rate:
    low, half, first = of(c, "eta_min"), of(c, "T_max"), base(c, at)
    if at.first:
        return Rate(at.lr)
    if (at.k - 1 - half) % (2 * half) == 0:
        return Rate(at.lr + (first - low) * (1 - math.cos(math.pi / half)) / 2)
    change = (1 + math.cos(math.pi * at.k / half)) / (1 + math.cos(math.pi * (at.k - 1) / half))
    return Rate(change * (at.lr - low) + low)


def _cosine_closed(c: Config, at: Moment) -> Rate:
    low = of(c, "eta_min")
    return Rate(low + (base(c, at) - low) * (1 + math.cos(math.pi * at.k / of(c, "T_max"))) / 2)


def _restarts(c: Config, at: Moment) -> Rate:
    # An epoch that it is told may have a fraction, which steps that are told none keep.
    epoch = at.k + c.get("T_cur", 0.0) % 1 if at.metric is None else at.metric
    low, period, left = of(c, "eta_min"), of(c, "T_0"), epoch
    while left >= period:
        left -= period
        period *= of(c, "T_mult")
    return Rate(low + (base(c, at) - low) * (1 + math.cos(math.pi * left / period)) / 2)


def _height(c: Config, k: int) -> float:
    """How far up the triangle, from 0 to 1, times what the mode makes of it."""
    size, ratio = of(c, "total_size"), of(c, "step_ratio")
    cycle = math.floor(1 + k / size)
    x = 1.0 + k / size - cycle
    up = x / ratio if x <= ratio else (x - 1) / (ratio - 1)
    scales = {"triangular": 1.0, "triangular2": 1 / 2.0 ** (cycle - 1), "exp_range": of(c, "gamma") ** k}
    if of(c, "mode") not in scales or c.get("_scale_fn_custom") is not None or c.get("own_scale"):
        raise InputError(f"CyclicLR with a scale of its own: only the modes {', '.join(scales)} have a formula")
    return up * scales[of(c, "mode")]


def _cyclic(c: Config, at: Moment) -> Rate:
    height = _height(c, at.k)
    low, high = base(c, at), of(c, "max_lrs")[at.index]
    lr = low + (high - low) * height
    if not of(c, "cycle_momentum"):
        return Rate(lr)
    least, most = of(c, "base_momentums")[at.index], of(c, "max_momentums")[at.index]
    return Rate(lr, most - (most - least) * height)


def _between(c: Config, start: float, end: float, share: float) -> float:
    if of(c, "_anneal_func_type") == "cos":
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
    return (end - start) * share + start


def _one_cycle(c: Config, at: Moment) -> Rate:
    total, phases = of(c, "total_steps"), of(c, "_schedule_phases")
    if at.k > total:
        raise InputError(f"OneCycleLR: step {at.k} of {total}")
    begin = 0.0
    for phase in phases:
        if at.k <= phase["end_step"] or phase is phases[-1]:
            break
        begin = phase["end_step"]
    share = (at.k - begin) / (phase["end_step"] - begin)

    def now(start: str, end: str) -> float:
        return _between(c, of_group(at, phase[start]), of_group(at, phase[end]), share)

    return Rate(now("start_lr", "end_lr"), now("start_momentum", "end_momentum") if of(c, "cycle_momentum") else None)


def _averaging(c: Config, at: Moment) -> Rate:
    goal, epochs = of_group(at, "swa_lr"), of(c, "anneal_epochs")
    k = max(1, at.k) if epochs == 0 else at.k

    def share(step: int) -> float:
        t = max(0, min(1, step / max(1, epochs)))
        return t if of(c, "_anneal_strategy") == "linear" else (1 - math.cos(math.pi * t)) / 2

    before, now = share(k - 1), share(k)
    start = goal if before == 1 else (at.lr - before * goal) / (1 - before)
    return Rate(goal * now + start * (1 - now))


WAVES = (
    Schedule("CosineAnnealingLR", "η = η_min + (η₀ − η_min)·(1 + cos(π·k/T))/2", _cosine, _cosine_closed),
    Schedule(
        "CosineAnnealingWarmRestarts",
        "η = η_min + (η₀ − η_min)·(1 + cos(π·T_cur/T_i))/2, each T_i is T_mult times the one before",
        _restarts,
        _restarts,
    ),
    Schedule("CyclicLR", "η between base and max as a triangle goes, the momentum the other way", _cyclic, _cyclic),
    Schedule(
        "OneCycleLR", "η up to max_lr and down to min_lr in phases, the momentum the other way", _one_cycle, _one_cycle
    ),
    Schedule("SWALR", "η from where it was to swa_lr in anneal_epochs steps, and there it stays", _averaging),
)

"""Practices of order: what is done to gradients and rates, and when."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.trace.handling import Moment
from backproof.verify.practices.record import Practice, Seen


def _names(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


def _not_cleared(seen: Seen) -> Iterator[str]:
    """Gradients that an update has followed are there when a backward pass adds to them, and again when an update comes for them.

    A pass may come by them on its way, as that of a generator by its discriminator's; they are then cleared before they are used.
    """
    used: set[str] = set()
    mixed: dict[str, int] = {}
    now: dict[str, int | None] = {}
    for moment in seen.subject.step.moments:
        now.update(moment.grads)
        if moment.kind == "start":
            used = set(moment.given.get("used", ()))
        elif moment.kind == "update":
            grads = seen.subject.step.updates[int(moment.given["update"])].grads
            here = {name for name, value in grads.items() if value is not None}
            again = [name for name in mixed if name in here]
            if again:
                yield f"pass {mixed[again[0]]} added to the gradients of {_names(again)}, which an update had followed"
                return
            used |= here
        elif moment.kind == "backward":
            mixed |= {name: int(moment.given["passing"]) for name in moment.grads if name in used}
        elif moment.kind in ("clear", "assign"):
            used -= set(moment.grads)
            mixed = {name: passing for name, passing in mixed.items() if name not in moment.grads}


def _window(moments: list[Moment], at: int) -> list[Moment]:
    """What comes after a moment, up to the next update."""
    found = []
    for moment in moments[at + 1 :]:
        if moment.kind in ("update", "clear"):
            break
        found.append(moment)
    return found


def _clipped_per_micro_batch(seen: Seen) -> Iterator[str]:
    moments = seen.subject.step.moments
    for at, moment in enumerate(moments):
        if moment.kind in ("clip", "clip_value") and any(m.kind == "backward" for m in _window(moments, at)):
            yield f"{moment.by} came before another backward pass of the same update"
            return


def _clipped_before_unscaling(seen: Seen) -> Iterator[str]:
    moments = seen.subject.step.moments
    for at, moment in enumerate(moments):
        after = _window(moments, at)
        unscaled = next((m for m in after if m.kind == "unscale" and float(m.given["inverse"]) != 1.0), None)
        if moment.kind in ("clip", "clip_value") and unscaled is not None:
            yield f"{moment.by} clipped gradients that were still {1 / float(unscaled.given['inverse']):g} times too large"
            return
        if moment.kind in ("clip", "clip_value") and not after:
            scale = next((u.given["grad_scale"] for u in seen.subject.step.updates if "grad_scale" in u.given), None)
            if scale is not None and float(scale) != 1.0:
                yield f"{moment.by} clipped gradients that were still {float(scale):g} times too large"
                return


def _schedule_first(seen: Seen) -> Iterator[str]:
    """A scheduler's step before the first update of its optimizer."""
    skipped = any(moment.given.get("found_inf") for moment in seen.subject.step.moments)
    for event in seen.subject.step.scheduled:
        ours = event.optimizer >= 0  # of another one's updates nobody knows
        if ours and event.k == 1 and event.updates == 0 and not skipped and seen.subject.step.facts.get("fresh"):
            yield f"{event.config.get('class')}.step() came before the first step of its optimizer: the first rate was never used"


def _not_the_schedules(seen: Seen) -> Iterator[str]:
    """An update with another rate than the one that its scheduler left."""
    step = seen.subject.step
    rates: dict[int, list[float]] = {int(key): value for key, value in step.facts.get("rates", {}).items()}
    for update in step.updates:
        left = rates.get(update.which)
        for event in step.scheduled:
            if event.optimizer == update.which and event.updates <= update.before:
                left = [group["lr"] for group in event.after]
        used = [group.get("lr") for group in update.groups]
        if left is not None and len(left) == len(used):
            for index, (scheduled, lr) in enumerate(zip(left, used, strict=True)):
                if lr != scheduled:
                    yield f"group {index} was updated with rate {lr:.9g}, and its scheduler left {scheduled:.9g}"


ORDER = (
    Practice(
        "gradients-not-cleared",
        "a backward pass adds to gradients that an update has already followed",
        "call optimizer.zero_grad() between an update and the next backward pass",
        _not_cleared,
    ),
    Practice(
        "clipping-per-micro-batch",
        "gradients are clipped, and another backward pass adds to them before the update",
        "clip once, after the last micro-batch",
        _clipped_per_micro_batch,
    ),
    Practice(
        "clipping-before-unscaling",
        "gradients are clipped while they still have the loss scale in them",
        "call scaler.unscale_(optimizer) before clipping",
        _clipped_before_unscaling,
    ),
    Practice(
        "schedule-before-step",
        "the scheduler's first step comes before the optimizer's",
        "call scheduler.step() after optimizer.step()",
        _schedule_first,
    ),
    Practice(
        "rate-not-scheduled",
        "the learning rate of an update is not the one that its scheduler left",
        "leave the rate to the scheduler, or make what changes it a schedule",
        _not_the_schedules,
    ),
)

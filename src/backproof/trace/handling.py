"""What became of gradients between the backward pass and the step, as data: an ordered list of moments; and what schedules did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that was done with gradients. Only those that are others afterwards are listed."""

    kind: str
    """A key of KINDS."""
    by: str
    """The function that did it, and the line that called it, where these are known."""
    after: int
    """After how many calls of the step."""
    grads: dict[str, int | None] = field(default_factory=dict)
    """parameter → the value that its gradient is from here on; None: it has none."""
    given: dict[str, Any] = field(default_factory=dict)
    """The numbers that it was done with: what each kind has is said in KINDS."""
    over: tuple[str, ...] = ()
    """The parameters that it was about, their gradients changed or not."""


KINDS: dict[str, str] = {
    "start": "the gradients that there were when the step began; used: those that an update had already followed",
    "clear": "set to nothing, or to zeros",
    "backward": "a backward pass added to them; passing: its number; reduced: how it was reduced over ranks, if it was",
    "clip": "scaled down together to a norm; max_norm, norm_type, norm (as it was returned), foreach",
    "clip_value": "each element put between −limit and limit; limit",
    "unscale": "multiplied by inverse, and looked at for overflow; scale, inverse, found_inf",
    "loss_scale": "the loss scale moved; scale, tracker, found_inf, growth, backoff, interval, new_scale, new_tracker",
    "edit": "changed in place by a call of the step; op, calls (first and one after the last)",
    "assign": "replaced by another tensor; calls",
    "reduce": "reduced over ranks by the program itself; op, world",
    "update": "as an optimizer found them; update: its number",
    "step": "changed by an optimizer's own step; update: its number",
    "unseen": "changed, and nothing that was seen did it",
}


@dataclass(frozen=True, slots=True)
class Scheduled:
    """One step of a learning rate scheduler, with each group's rate and momentum before and after it."""

    scheduler: int
    optimizer: int
    config: dict[str, Any]
    """Its class and state as they were before the step, and the functions that it was made with."""
    k: int
    """The number of its step; 0 is the one with which it is made."""
    before: tuple[dict[str, float], ...]
    after: tuple[dict[str, float], ...]
    metric: float | None = None
    updates: int = 0
    """How many updates of its optimizer came before it, since recording began."""
    since: int = 0
    """The number of its step before."""

"""What a verdict says beside its equations: what scales a gradient, and what is hardly meant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """One factor that gradients have."""

    kind: str
    """loss, seed, edit, clip, clip_value, unscale or mean over ranks."""
    place: str
    factor: float
    says: str
    """Where the factor comes from, in words and numbers."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A practice that was found."""

    practice: str
    evidence: str
    advice: str
    intended: bool = False
    """Declared so by the program that was recorded: a claim, shown as such."""

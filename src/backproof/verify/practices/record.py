"""What a practice is: a condition under which every equation holds, and the step is hardly what was meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from backproof.verify.losses import Term
from backproof.verify.subject import Subject


@dataclass(frozen=True, slots=True)
class Seen:
    """What a condition looks at: the step, and the losses that its backward passes began with."""

    subject: Subject
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Practice:
    """One row of the table."""

    name: str
    says: str
    """The condition."""
    advice: str
    find: Callable[[Seen], Iterator[str]]
    """The evidence, where the condition is met."""

    @property
    def declare(self) -> str:
        """How to say that it is meant."""
        return f'recorder.intend("{self.name}")'

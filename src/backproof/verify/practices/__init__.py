"""The table of practices: conditions under which every equation of a step holds, and the step is hardly what was meant.

What is found is *suspect*, not broken: a program may mean it, and say so with `recorder.intend(name)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from backproof.errors import UsageError
from backproof.verify.losses import loss_scales, loss_terms
from backproof.verify.practices.accumulation import ACCUMULATION
from backproof.verify.practices.model import MODEL
from backproof.verify.practices.order import ORDER
from backproof.verify.practices.ranks import RANKS
from backproof.verify.practices.record import Practice, Seen
from backproof.verify.remarks import Suspect
from backproof.verify.subject import Subject

PRACTICES: dict[str, Practice] = {practice.name: practice for practice in (*ORDER, *ACCUMULATION, *MODEL, *RANKS)}


def practice_named(name: str) -> Practice:
    """The practice of this name."""
    if name not in PRACTICES:
        raise UsageError(f"no practice is called {name!r}; there are {', '.join(PRACTICES)}")
    return PRACTICES[name]


def find_practices(subject: Subject) -> None:
    """Every practice of one step, and the factors that its losses have."""
    terms = loss_terms(subject)
    for scale in loss_scales(terms):
        subject.verdict.add(scale)
    for suspect in suspects(Seen(subject, terms)):
        subject.verdict.add(suspect)


def suspects(seen: Seen) -> Iterator[Suspect]:
    """What is found of each practice, with whether it is declared to be meant."""
    intended = set(seen.subject.step.facts.get("intended", ()))
    for practice in PRACTICES.values():
        for evidence in practice.find(seen):
            yield Suspect(practice.name, evidence, practice.advice, practice.name in intended)


__all__ = ["PRACTICES", "Practice", "find_practices", "practice_named"]

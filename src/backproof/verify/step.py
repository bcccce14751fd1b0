"""A recorded step, equation by equation: each derived in float64 from what was recorded at its inputs, and compared.

1 each call's outputs · 2 the seed of each backward pass · 3 each value's gradient, the sum over the calls that read it · 4 what
became of the gradients until the step · 5 each parameter's update and state, and its learning rate. What cannot be lowered is listed,
with its reason, and its neighbours are still checked. Nothing that is recorded widens a band.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

from backproof.engine.threads import one_for_each_product
from backproof.trace.folder import Recorded
from backproof.verify.calls import check_call, check_deferred
from backproof.verify.drift import drift_of
from backproof.verify.equation import Result
from backproof.verify.gradients import add_regions, add_seeds, check_gradient, check_handed_out, check_region
from backproof.verify.handling import check_handling
from backproof.verify.outcome import StepVerdict
from backproof.verify.practices import find_practices
from backproof.verify.region import values_in
from backproof.verify.saved import check_saved
from backproof.verify.schedule import check_schedules
from backproof.verify.screening import Screening
from backproof.verify.subject import Subject
from backproof.verify.update import update_results

Item = TypeVar("Item")


@dataclass(frozen=True)
class Options:
    """What is asked for beyond the equations."""

    drift: bool = False
    """Whether the step is also derived as a whole, from its leaves alone."""
    screen: bool = False
    """Whether what is large is only looked at quickly (`verify.screening`), and as a whole where that does not look honest."""
    told: Callable[[float], None] | None = None
    """Is told which part of a step is done, while it goes on."""

    def along(self, items: Collection[Item], begin: float, end: float) -> Iterator[Item]:
        """The items; how far one is goes from `begin` to `end` on the way."""
        for count, item in enumerate(items):
            if self.told is not None:
                self.told(begin + (end - begin) * count / len(items))
            yield item


def verify_step(recorded: Recorded, options: Options | None = None) -> StepVerdict:
    """Derive every equation of a step and compare."""
    options = options or Options()
    with one_for_each_product():  # slabs are derived side by side; threads that wait for products would be in their way
        return _verified(recorded, options, Screening() if options.screen else None)


def _verified(recorded: Recorded, options: Options, screening: Screening | None) -> StepVerdict:
    subject = Subject(recorded, screening)
    step, verdict = recorded.step, subject.verdict
    _leave_strangers(subject)
    if (granularity := step.facts.get("granularity")) is not None:
        verdict.notes.append(
            f"recorded by {granularity}: what lies between was derived, within bounds that grow on the way"
        )
    check_saved(subject)
    for call in options.along(step.calls, 0.0, 0.4):  # 1
        check_call(subject, call)
    add_seeds(subject)  # 2
    add_regions(subject)
    check_deferred(subject)
    for number, region in enumerate(step.regions):
        check_region(subject, number, region)
    for value in options.along(step.values.values(), 0.4, 0.9):  # 3
        check_gradient(subject, value)
    check_handed_out(subject)
    verdict.results = list(_causal(verdict.results))
    check_handling(subject)  # 4
    for found in update_results(step, recorded.tensors, screening):  # 5
        verdict.add(found)
    check_schedules(subject)
    find_practices(subject)
    if screening is not None:
        verdict.screen = screening.said(verdict.counts["checked"])
    if options.drift:
        verdict.drift = drift_of(subject)
    return verdict


def _leave_strangers(subject: Subject) -> None:
    """Values that no recorded call made."""
    step = subject.step
    read = {value for call in step.calls for value in values_in((call.args, call.kwargs))}
    read |= {backward.value for backward in step.backwards}
    for stranger in step.unseen:
        value, place = stranger["value"], f"value {stranger['value']}, made by {stranger['by']}"
        if any(subject.wants(value, passing) for passing in range(step.passes)):
            subject.leave_open(stranger["reads"], place, "no recorded call made it")
        elif value in read:  # no gradient came to it: what it was made of has none from it
            subject.leave_open((), place, "no recorded call made it")


def _causal(results: list[Result]) -> Iterator[Result]:
    """Forward equations in order of execution, then gradients from the last value to the first."""
    first = ("saved operand", "forward", "mask")
    yield from (result for result in results if result.equation in first)
    yield from reversed([result for result in results if result.equation not in first])

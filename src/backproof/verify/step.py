"""A recorded step, equation by equation: each derived in float64 from what was recorded at its inputs, and compared.

1 each call's outputs · 2 the seed of each backward pass · 3 each value's gradient, the sum over the calls that read it · 4 each
parameter's update and state. What cannot be lowered is listed, with its reason, and its neighbours are still checked. Nothing that is
recorded widens a band.
"""

from __future__ import annotations

from collections.abc import Iterator

from backproof.trace.step import Recorded
from backproof.verify.calls import check_call, check_deferred
from backproof.verify.equation import Result
from backproof.verify.gradients import add_regions, add_seeds, check_gradient, check_region
from backproof.verify.outcome import StepVerdict
from backproof.verify.subject import Subject
from backproof.verify.update import update_results


def verify_step(recorded: Recorded) -> StepVerdict:
    """Derive every equation of a step and compare."""
    subject = Subject(recorded)
    step, verdict = recorded.step, subject.verdict
    for stranger in step.unseen:
        place = f"value {stranger['value']}, made by {stranger['by']}"
        subject.leave_open(stranger["reads"], place, "no recorded call made it")
    for call in step.calls:  # 1
        check_call(subject, call)
    add_seeds(subject)  # 2
    add_regions(subject)
    check_deferred(subject)
    for number, region in enumerate(step.regions):
        check_region(subject, number, region)
    for value in step.values.values():  # 3
        check_gradient(subject, value)
    verdict.results = list(_causal(verdict.results))
    for found in update_results(step, recorded.tensors):  # 4
        verdict.add(found)
    return verdict


def _causal(results: list[Result]) -> Iterator[Result]:
    """Forward equations in order of execution, then gradients from the last value to the first."""
    yield from (result for result in results if result.equation == "forward")
    yield from reversed([result for result in results if result.equation != "forward"])

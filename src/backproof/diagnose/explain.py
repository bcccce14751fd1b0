"""Which mistake makes a broken equation hold: variants of what was computed first, since they say most; then what the numbers show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from backproof.diagnose.patterns import PATTERNS
from backproof.diagnose.variants import cause_in_calls
from backproof.verify.equation import Evidence, Result
from backproof.verify.outcome import StepVerdict


def diagnosed(verdict: StepVerdict) -> StepVerdict:
    """The verdict with causes named; the numbers that they were found by are let go."""
    verdict.results = [_explained(result) for result in verdict.results]
    return verdict


def _explained(result: Result) -> Result:
    if result.evidence is None:
        return result
    return replace(result, cause=result.cause or cause_of(result.evidence), evidence=None)


def cause_of(evidence: Evidence) -> str:
    """The mistake that explains the numbers, in a few words; empty where none is known."""
    return next((cause for cause in _causes(evidence) if cause), "")


def _causes(evidence: Evidence) -> Iterable[str]:
    yield cause_in_calls(evidence)
    for pattern in PATTERNS:
        yield pattern.find(evidence)

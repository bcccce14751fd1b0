"""A verdict as plain data, with stable keys. Numbers that JSON does not have (infinite, or not numbers) are null."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from backproof.verify.equation import Result

if TYPE_CHECKING:
    from backproof.verify.outcome import RunVerdict, StepVerdict

FORMAT = "backproof.verdict.v1"


def run_json(verdict: RunVerdict) -> dict[str, Any]:
    """A run."""
    return {
        "format": FORMAT,
        "subject": verdict.subject,
        "verdict": verdict.verdict,
        "steps": [step_json(step) for step in verdict.steps],
        "notes": list(verdict.notes),
    }


def step_json(verdict: StepVerdict) -> dict[str, Any]:
    """One step."""
    return {
        "step": verdict.step,
        **({} if verdict.rank is None else {"rank": verdict.rank}),
        "verdict": verdict.verdict,
        "equations": verdict.counts,
        "kinds": dict(verdict.equations),
        "findings": [finding_json(result) for result in verdict.findings],
        "suspect": [asdict(found) for found in verdict.suspect],
        "not_checked": [{"place": entry.place, "why": entry.why} for entry in verdict.not_checked],
        "scales": [
            {"kind": scale.kind, "place": scale.place, "factor": _finite(scale.factor), "says": scale.says}
            for scale in verdict.scales
        ],
        **({} if verdict.drift is None else {"drift": _drift(verdict.drift)}),
        **({} if verdict.screen is None else {"screen": verdict.screen}),
        "notes": list(verdict.notes),
    }


def _drift(found: Any) -> dict[str, Any]:
    return {"why": found} if isinstance(found, str) else {key: _plain(value) for key, value in asdict(found).items()}


def _plain(value: Any) -> Any:
    return _finite(value) if isinstance(value, float) else value


def finding_json(result: Result) -> dict[str, Any]:
    """One equation that does not plainly hold."""
    return {
        "equation": result.equation,
        "place": result.place,
        "probe": result.probe,
        "phase": result.phase,
        "parameter": result.parameter,
        "at": list(result.at),
        "verdict": result.verdict,
        "ratio": _finite(result.ratio),
        "likely": _finite(result.likely),
        "slope": _finite(result.slope),
        "slope_bound": _finite(result.slope_bound) if result.slope_bound else None,
        "flips": result.flips,
        "claimed": _finite(result.claimed),
        "derived": _finite(result.derived),
        "bound": _finite(result.bound),
        "because": result.because,
        "cause": result.cause,
        "cascades_from": result.cascades_from,
    }


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None

"""The verdict on a recorded run: as JSON with stable keys, and as text that begins with the cause."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from backproof.verify.equation import Result
from backproof.verify.outcome import StepVerdict

MOST_SHOWN = 8
VERDICTS = ("holds", "noise", "broken")


def counts(verdict: StepVerdict) -> dict[str, int]:
    """How many equations were checked, and what became of them."""
    found = Counter(result.verdict for result in verdict.results)
    return {
        "checked": len(verdict.results),
        **{name: found[name] for name in VERDICTS},
        "not_checked": len(verdict.not_checked),
    }


def step_json(verdict: StepVerdict) -> dict[str, Any]:
    """One step."""
    return {
        "step": verdict.step,
        "verdict": verdict.verdict,
        "equations": counts(verdict),
        "findings": [finding_json(result) for result in verdict.broken],
        "not_checked": [{"place": entry.place, "why": entry.why} for entry in verdict.not_checked],
    }


def finding_json(result: Result) -> dict[str, Any]:
    """One equation that does not hold. A ratio without a bound to divide by is null."""
    return {
        "equation": result.equation,
        "place": result.place,
        "probe": result.probe,
        "at": list(result.at),
        "verdict": result.verdict,
        "ratio": _finite(result.ratio),
        "slope": _finite(result.slope),
        "claimed": _finite(result.claimed),
        "derived": _finite(result.derived),
        "bound": _finite(result.bound),
        "because": result.because,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def step_text(verdict: StepVerdict) -> str:
    """One step in a few lines: what was checked, the first equations that do not hold, and what was not checked."""
    found = counts(verdict)
    kinds = Counter(result.equation for result in verdict.results)
    said = ", ".join(f"{count} {equation}" for equation, count in kinds.items())
    lines = [f"step {verdict.step}: {verdict.verdict}: {found['checked']} equations ({said})"]
    for result in verdict.broken[:MOST_SHOWN]:
        size = f"{result.ratio:.3g} × its bound" if math.isfinite(result.ratio) else "no bound allows for it"
        lines.append(f"  ✗ {result.equation} at {result.place}{list(result.at) if result.at else ''}: off by {size}")
        lines.append(
            f"      claimed {result.claimed:.9g}, derived {result.derived:.9g}, bound {result.bound:.2g}, slope {result.slope:+.2e}"
            + (f"; {result.because}" if result.because else "")
        )
    if len(verdict.broken) > MOST_SHOWN:
        lines.append(f"  and {len(verdict.broken) - MOST_SHOWN} more that do not hold")
    reasons = Counter(entry.why for entry in verdict.not_checked)
    for why, count in reasons.most_common(MOST_SHOWN):
        places = [entry.place for entry in verdict.not_checked if entry.why == why]
        lines.append(f"  not checked: {places[0]}{f' and {count - 1} more' if count > 1 else ''} ({why})")
    return "\n".join(lines)

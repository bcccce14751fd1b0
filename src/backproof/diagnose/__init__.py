"""Diagnosis: an equation that does not hold, against a catalogue of known mistakes. Each is tried, and named where it then holds."""

from __future__ import annotations

from backproof.diagnose.explain import cause_of, diagnosed
from backproof.diagnose.run import verify

__all__ = ["cause_of", "diagnosed", "verify"]

"""A recorded run: each step's equations, and the chain from one step to the next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from backproof.trace.step import Recorded, folders, read
from backproof.verify.equation import Result
from backproof.verify.outcome import StepVerdict
from backproof.verify.step import verify_step


def verify_run(run: Path) -> Iterator[StepVerdict]:
    """One verdict per step, as it is reached; only one step and the one before are held."""
    before: Recorded | None = None
    for folder in folders(run):
        recorded = read(folder)
        verdict = verify_step(recorded)
        if before is not None:
            verdict.results.extend(_chain(before, recorded))
        yield verdict
        before = recorded


def _chain(before: Recorded, after: Recorded) -> Iterator[Result]:
    """A parameter is what the step before left, bit for bit."""
    for value in after.step.values.values():
        found = [f"u{k}:after:parameter:{value.name}" for k in range(len(before.step.updates))]
        left = next((key for key in reversed(found) if value.name and key in before.tensors), None)
        if left is None or not _first_of_its_name(after, value.id):
            continue
        same = np.array_equal(before.tensors[left], after.tensors[f"v{value.id}"], equal_nan=True)
        because = "" if same else "it is not what the step before left"
        ratio = 0.0 if same else float("inf")
        verdict = "holds" if same else "broken"
        yield Result("chain", value.name, f"{value.id}", verdict, ratio, ratio, 0.0, 0.0, 0.0, 0.0, because=because)


def _first_of_its_name(recorded: Recorded, number: int) -> bool:
    name = recorded.step.values[number].name
    return all(value.name != name for value in recorded.step.values.values() if value.id < number)

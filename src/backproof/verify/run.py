"""A recorded run: each step's equations, and the chain from one step to the next. A step needs no more than the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backproof.errors import UsageError
from backproof.trace.folder import Recorded, folders, read, unfinished
from backproof.verify.equation import NotChecked, Result
from backproof.verify.outcome import StepVerdict
from backproof.verify.step import Options, verify_step


@dataclass(frozen=True)
class Run:
    """A recorded run's steps, and which of them are looked at."""

    steps: tuple[str, ...]
    """Where each is."""
    chosen: tuple[int, ...]
    """Places in `steps`."""
    notes: tuple[str, ...] = ()


def open_run(subject: str, chosen: str | Sequence[int] | None = None) -> Run:
    """The steps of a folder or URL; all of them, or those of these numbers (`3,5-9`)."""
    steps = tuple(map(str, folders(subject)))
    wanted = _numbers(chosen) if isinstance(chosen, str) else None if chosen is None else set(chosen)
    numbers = [_number(step) for step in steps]
    if wanted is not None and wanted - set(numbers):
        missing = ", ".join(map(str, sorted(wanted - set(numbers))[:5]))
        raise UsageError(f"--steps: step {missing} is not in the run, which has {numbers[0]} to {numbers[-1]}")
    places = tuple(i for i, number in enumerate(numbers) if wanted is None or number in wanted)
    halves = [
        f"{name} is half written (the run was killed, or goes on): it is not looked at" for name in unfinished(subject)
    ]
    return Run(steps, places, tuple(halves))


def _number(step: str) -> int:
    digits = step.rstrip("/").rsplit("step", 1)[-1]
    return int(digits) if digits.isdecimal() else -1


def _numbers(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--steps {text}: write numbers and ranges, as in 3,5-9")
        found.update(range(int(first), int(last or first) + 1))
    return found


def verify_at(run: Run, at: int, options: Options | None = None) -> StepVerdict:
    """One step of a run: its equations, and the chain to the step before."""
    recorded = read(run.steps[at])
    verdict = verify_step(recorded, options)
    if at:
        before = read(run.steps[at - 1])
        if before.step.index + 1 == recorded.step.index:
            verdict.results.extend(_chain(before, recorded))
        else:
            gap = f"the steps from {before.step.index + 1} to {recorded.step.index - 1} were not recorded"
            verdict.not_checked.append(NotChecked("chain to the step before", gap))
    return verdict


def verify_run(run: str | Path) -> Iterator[StepVerdict]:
    """One verdict per step, as it is reached; only one step and the one before are held."""
    found = open_run(str(run))
    for at in found.chosen:
        yield verify_at(found, at)


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

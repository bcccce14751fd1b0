"""A recorded run: each step's equations, and the chain from one step to the next. A step needs no more than the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backproof.errors import DomainError, GraphError, InputError, UsageError
from backproof.trace.fitting import require_fitting
from backproof.trace.folder import Recorded, folders, rank_folders, read, unfinished
from backproof.verify.chain import check_chain
from backproof.verify.equation import NotChecked, Result
from backproof.verify.outcome import StepVerdict
from backproof.verify.screening import DIGESTED
from backproof.verify.step import Options, verify_step

MISFITS = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    OverflowError,
    DomainError,
    GraphError,
)
"""What data that contradict themselves lead to."""


@dataclass(frozen=True)
class Run:
    """A recorded run's steps, and which of them are looked at."""

    steps: tuple[str, ...]
    """Where each is."""
    chosen: tuple[int, ...]
    """Places in `steps`."""
    notes: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    """Of a data-parallel run: the folders of its ranks, whose steps follow each other in `steps`."""


def open_run(subject: str, chosen: str | Sequence[int] | None = None) -> Run:
    """The steps of a folder or URL; all of them, or those of these numbers (`3,5-9`)."""
    ranks = rank_folders(subject)
    steps = tuple(step for part in ranks or (subject,) for step in map(str, folders(part)))
    wanted = _numbers(chosen) if isinstance(chosen, str) else None if chosen is None else set(chosen)
    numbers = [_number(step) for step in steps]
    if wanted is not None and wanted - set(numbers):
        missing = ", ".join(map(str, sorted(wanted - set(numbers))[:5]))
        raise UsageError(f"--steps: step {missing} is not in the run, which has {numbers[0]} to {numbers[-1]}")
    places = tuple(i for i, number in enumerate(numbers) if wanted is None or number in wanted)
    halves = [
        f"{name} is half written (the run was killed, or goes on): it is not looked at"
        for part in ranks or (subject,)
        for name in unfinished(part)
    ]
    return Run(steps, places, tuple(halves), tuple(ranks))


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
    screened = options is not None and options.screen
    recorded = read(run.steps[at], DIGESTED if screened else 1.0)
    require_fitting(recorded, run.steps[at])
    try:
        verdict = verify_step(recorded, options)
    except MISFITS as error:
        found = f"{type(error).__name__}: {str(error)[:200]}"
        raise InputError(
            f"{run.steps[at]}: its parts do not fit together ({found}); was it written by this version?"
        ) from error
    if run.ranks:
        _side_by_side(run, at, recorded, verdict)
    elif recorded.step.facts.get("world", 1) > 1 and any(
        moment.given.get("reduced") for moment in recorded.step.moments
    ):
        why = "they are the mean over ranks: verify the folder that has the runs of all ranks"
        verdict.add(NotChecked("reduction over ranks", why))
    if at and _parent(run.steps[at - 1]) == _parent(run.steps[at]):
        before = read(run.steps[at - 1], 0.0)  # its own digests are compared where it is looked at itself
        for link in check_chain(before.step, before.tensors, recorded.step, recorded.tensors):
            verdict.add(link)
    verdict.results.extend(_changed(recorded))
    return verdict


def _side_by_side(run: Run, at: int, recorded: Recorded, verdict: StepVerdict) -> None:
    """A rank's step against that of the others."""
    from backproof.verify.ranks import check_ranks

    home, name = _parent(run.steps[at]), run.steps[at].rstrip("/").rsplit("/", 1)[-1]
    mine = run.ranks.index(home)
    verdict.rank = mine
    same = [f"{rank}/{name}" for rank in run.ranks]
    others = [recorded if i == mine else read(path) if path in run.steps else None for i, path in enumerate(same)]
    for found in check_ranks(mine, others):
        verdict.add(found)


def _parent(step: str) -> str:
    return step.rstrip("/").rsplit("/", 1)[0]


def verify_run(run: str | Path) -> Iterator[StepVerdict]:
    """One verdict per step, as it is reached; only one step and the one before are held."""
    found = open_run(str(run))
    for at in found.chosen:
        yield verify_at(found, at)


def _changed(recorded: Recorded) -> Iterator[Result]:
    """What this step refers to in an earlier one is what it was."""
    names = {f"v{value.id}": value.name for value in recorded.step.values.values()}
    found = {names.get(key) or key.rsplit(":", 1)[-1]: (key, why) for key, why in recorded.tensors.changed.items()}
    for name, (key, because) in found.items():
        yield Result("chain", name, key, "broken", np.inf, np.inf, 0.0, 0.0, 0.0, 0.0, because=because, parameter=name)

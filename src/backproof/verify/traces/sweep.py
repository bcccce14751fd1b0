"""A sweep: two implementations over many batches, each compared by itself, and what that says of them together.

Every batch leaves a small result on disk as soon as it is known, so that a sweep can be stopped and taken up again, and a batch that
fails is kept as failed and loses nothing.
"""

from __future__ import annotations

import json
import math
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from backproof.errors import BackproofError, InputError, UsageError
from backproof.trace.event import Place
from backproof.trace.phases import LOSS
from backproof.trace.store import Trace, open_trace
from backproof.verify.traces.compare import Options, compare_traces
from backproof.verify.traces.outcome import Comparison

RESULT = "result.json"
PLACES = ("start", "batch", "out", "index")
TAIL = 400  # characters of a failed command's last words
SEVERITY = ("equal", "agrees", "rounding", "flip", "undecided", "follows", "finding")

Result = dict[str, Any]


@dataclass(frozen=True)
class Commands:
    """Two programs to run on each batch, with placeholders {start} {batch} {out} {index}."""

    a: str
    b: str
    batches: int
    batch: int
    out: Path
    start: int = 0
    timeout: float | None = None


@dataclass(frozen=True)
class Job:
    """One batch: its name, where its traces are, and how to make them, if they are to be made."""

    index: int
    name: str
    folders: tuple[Path, Path]
    commands: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    start: int | None = None
    timeout: float | None = None

    @property
    def kept(self) -> Path | None:
        """Where its result is kept; results of existing folders are not, for comparing is cheap."""
        return self.folders[0].parent / RESULT if self.commands else None


def filled(command: str, values: Mapping[str, object]) -> tuple[str, ...]:
    """A command's words with their placeholders filled in. No shell sees it, so a value is never more than a part of a word."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the command {command!r} cannot be taken apart: {error}") from None
    if not words:
        raise UsageError("a command is empty")
    for name, value in values.items():
        words = [word.replace("{" + name + "}", str(value)) for word in words]
    return tuple(words)


def jobs_of(commands: Commands) -> list[Job]:
    """One job for each batch; batches do not overlap."""
    for command in (commands.a, commands.b):
        if "{out}" not in command:
            raise UsageError(f"the command {command!r} has no {{out}}, and would not be told where to write its trace")
    found = []
    for index in range(commands.batches):
        start = commands.start + index * commands.batch
        folder = commands.out / f"batch{index:04d}"
        folders = (folder / "a", folder / "b")
        first, second = (
            filled(command, {"start": start, "batch": commands.batch, "out": out, "index": index})
            for command, out in zip((commands.a, commands.b), folders, strict=True)
        )
        found.append(Job(index, folder.name, folders, (first, second), start, commands.timeout))
    return found


def jobs_in(a: Path, b: Path) -> list[Job]:
    """One job for each batch that either folder has, by name."""
    names = []
    for folder in (a, b):
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no such folder")
        names.append({item.name for item in folder.iterdir() if item.is_dir() and not item.name.startswith(".")})
    if not names[0] | names[1]:
        raise InputError(f"{a}: no batch is in it; a batch is a folder with a trace")
    return [Job(i, name, (a / name, b / name)) for i, name in enumerate(sorted(names[0] | names[1]))]


def sweep(
    jobs: Sequence[Job], options: Options, workers: int = 1, done: Callable[[Result], None] | None = None
) -> list[Result]:
    """Every batch's result, in order."""
    with ThreadPoolExecutor(max_workers=max(workers, 1)) as pool:
        found = []
        for result in pool.map(lambda job: _one(job, options), jobs):
            found.append(result)
            if done is not None:
                done(result)
    return found


def _one(job: Job, options: Options) -> Result:
    said = [list(command) for command in job.commands] if job.commands else None
    asked = json.dumps([said, repr(replace(options, names=("", "")))])
    earlier = _earlier(job, asked)
    if earlier is not None:
        return earlier
    began = time.monotonic()
    base: Result = {"index": job.index, "name": job.name, "start": job.start, "asked": asked, "failed": None}
    try:
        failed = _run(job)
        result = {**base, "verdict": "failed", "failed": failed} if failed else {**base, **_compared(job, options)}
    except (BackproofError, OSError) as error:
        result = {**base, "verdict": "failed", "failed": {"side": None, "why": str(error)}}
    result["seconds"] = round(time.monotonic() - began, 3)
    if job.kept is not None:
        job.kept.parent.mkdir(parents=True, exist_ok=True)
        partial = job.kept.with_name(RESULT + ".part")
        partial.write_text(json.dumps(result), encoding="utf-8")
        partial.replace(job.kept)
    return result


def _earlier(job: Job, asked: str) -> Result | None:
    """The result of an earlier sweep that asked the same; failed batches are tried again."""
    if job.kept is None or not job.kept.is_file():
        return None
    try:
        found = json.loads(job.kept.read_text(encoding="utf-8"))
        same = found["asked"] == asked and found["failed"] is None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return {**found, "resumed": True} if same else None


def _run(job: Job) -> Result | None:
    """Run both programs; what failed, if one did."""
    for side, folder, command in zip("ab", job.folders, job.commands or (), strict=False):
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        log = folder.parent / f"{side}.log"
        try:
            with log.open("wb") as file:
                code = subprocess.run(  # noqa: S603 # the user's own command, and no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    timeout=job.timeout,
                    check=False,
                ).returncode
        except subprocess.TimeoutExpired:
            return {"side": side, "why": f"took longer than {job.timeout:g} s", "log": str(log)}
        except OSError as error:
            return {"side": side, "why": f"{command[0]} cannot be run: {error.strerror or error}", "log": str(log)}
        if code:
            words = log.read_bytes()[-TAIL:].decode("utf-8", "replace").strip()
            return {
                "side": side,
                "why": f"exit code {code}: {words.splitlines()[-1] if words else 'no output'}",
                "log": str(log),
            }
    return None


def _compared(job: Job, options: Options) -> Result:
    traces = (open_trace(job.folders[0]), open_trace(job.folders[1]))
    names = (str(job.folders[0]), str(job.folders[1]))
    found = compare_traces(*traces, replace(options, names=names))
    first = found.first
    return {
        "verdict": found.verdict,
        "first": None if first is None else {"place": str(first.place or ""), "side": first.side, "says": first.says},
        "findings": [
            {"place": str(one.place or ""), "kind": one.kind, "side": one.side, "effect": one.effect, "says": one.says}
            for one in found.all_findings
        ],
        "flips": [
            {"probe": one.turned.probe, "sample": one.turned.sample, "count": one.turned.count, "honest": one.honest,
             "margin": min((min(turn.margin) for turn in one.turned.turns), default=0.0)}
            for one in found.flips
        ],
        "undecided": [str(one.place) for one in found.undecided],
        "loss": {side: _loss(trace, step) for side, trace in zip("ab", traces, strict=True) for step in [min(trace.steps)]},
        "order": list(found.order),
        "columns": dict(_columns(found)),
    }  # fmt: skip


def _loss(trace: Trace, step: int) -> float | None:
    """The mean loss of what was recorded; None where it was not."""
    one = trace.steps[step]
    places = [place for place in one.places if place.probe == LOSS and place.phase == "fwd"]
    if not places:
        return None
    value = float(np.mean([np.mean(one.tensor(place).astype(np.float64)) for place in places]))
    return value if math.isfinite(value) else math.nan


def _columns(found: Comparison) -> Iterator[tuple[str, Result]]:
    """The worst of every probe, phase and parameter."""
    columns: dict[str, Result] = {}
    for step in found.steps:
        for place, seen in step.seen.items():
            gap, ratios = seen.gap, [0.0 if one is None else one.ratio for one in seen.locals]
            known = columns.setdefault(place.column, _empty(place))
            for name, value in (("largest", gap.largest), ("relative", gap.relative), ("l2", gap.l2)):
                known[name] = max(known[name], value)
            if abs(gap.slope) > abs(known["slope"]):
                known["slope"] = gap.slope
            known["allowed"] = max(known["allowed"], seen.allowed)
            known["bound"] = [max(old, new) for old, new in zip(known["bound"], ratios, strict=True)]
            known["state"] = max(known["state"], seen.state, key=SEVERITY.index)
    yield from columns.items()


def _empty(place: Place) -> Result:
    numbers = dict.fromkeys(("largest", "relative", "l2", "slope", "allowed"), 0.0)
    parts = {"probe": place.probe, "phase": place.phase, "parameter": place.parameter or None}
    return {**parts, **numbers, "bound": [0.0, 0.0], "state": "equal"}

"""A recorded run, verified and diagnosed: step by step in one process, in many, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from backproof.diagnose.explain import diagnosed
from backproof.errors import InputError, UsageError
from backproof.receipt.tensor import Key, load_key
from backproof.verify.outcome import RunVerdict, StepVerdict, joined
from backproof.verify.run import Run, open_run, verify_at
from backproof.verify.sealed import Receipt, check_receipt, check_tensors, open_receipt
from backproof.verify.step import Options


@dataclass(frozen=True)
class Workers:
    """Where the steps are verified."""

    processes: int = 1
    cluster: str = ""
    """The address of a Dask scheduler."""


def verify(
    subject: str | os.PathLike[str],
    *,
    steps: str | Sequence[int] | None = None,
    workers: int = 1,
    cluster: str = "",
    drift: bool = False,
    screen: bool = False,
    key: str | os.PathLike[str] | None = None,
) -> RunVerdict:
    """Verify a recorded run (a folder, or its URL) or a tensor receipt. The same as `bp verify`, as data."""
    path = os.fspath(subject)
    if Path(path).is_file() and not path.endswith(".json"):
        there = "backproof.verify_receipt(backproof.read_receipt(path)), or 'bp verify' which knows what it is given"
        raise InputError(f"{path}: a file, and no folder of recorded steps; a classic receipt is for {there}")
    if path.endswith(".json"):
        receipt = open_receipt(Path(path))
        public = None if key is None else load_key(Path(key), private=False)
        return RunVerdict(path, tuple(receipt_verdicts(receipt, public, Options(drift, screen))))
    run = open_run(path, steps)
    found = verdicts(run, Options(drift, screen), Workers(workers, cluster))
    return RunVerdict(os.fspath(subject), tuple(found), run.notes)


def receipt_verdicts(receipt: Receipt, key: Key | None, options: Options) -> Iterator[StepVerdict]:
    """One verdict per step of a tensor receipt: what it says of itself, its tensors' digests, and, where they are there, every equation."""
    about = check_receipt(receipt, key)
    places = {int(step[-6:]): i for i, step in enumerate(receipt.tensors.values())}
    run = Run(tuple(receipt.tensors.values()), tuple(places.values()))
    for at, said in enumerate(receipt.manifest["steps"]):
        verdict = check_tensors(receipt, at)
        parts = [about, verdict] if at == 0 else [verdict]
        if said["step"] in places and not verdict.broken:
            parts.append(one_verdict(run, options, places[said["step"]]))
        yield joined(parts).settled()


def verdicts(run: Run, options: Options, workers: Workers) -> Iterator[StepVerdict]:
    """One verdict per step, in order, with no more held of each than is listed."""
    work = partial(one_verdict, run, options)
    if workers.cluster:
        yield from _on_cluster(work, run.chosen, workers.cluster)
    elif workers.processes > 1:
        yield from _in_processes(work, run.chosen, workers.processes)
    else:
        yield from map(work, run.chosen)


def one_verdict(run: Run, options: Options, at: int) -> StepVerdict:
    """The verdict on one step of a run, which needs no other's."""
    return diagnosed(verify_at(run, at, options)).settled()


def _in_processes(work: Callable[[int], StepVerdict], steps: Sequence[int], count: int) -> Iterator[StepVerdict]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with _threads_shared(count), ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, steps)


@contextmanager
def _threads_shared(count: int) -> Iterator[None]:
    """Each process gets its part of the cores."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    share = str(max((os.cpu_count() or 1) // count, 1))
    os.environ.update(dict.fromkeys(names, share))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _on_cluster(work: Callable[[int], StepVerdict], steps: Sequence[int], address: str) -> Iterator[StepVerdict]:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--cluster needs Dask: pip install 'backproof[cluster]'") from None
    try:
        client: Any = Client(address, timeout="10s")  # type: ignore[no-untyped-call] # Dask has no types
    except (OSError, ValueError) as error:
        raise UsageError(f"--cluster {address}: no scheduler answers there ({error})") from None
    with client:
        futures = client.map(work, list(steps), pure=False)
        for future in futures:
            yield future.result()
            future.release()

"""Training steps with a mistake in them, each with its honest twin: one table, for the tests and for `bench/detection.py`.

To add one: write a function that records a run into the folder it is given (`recorded` below does the usual), with a flag that
says whether the mistake is in; and a `Planted` record of it in the tuple `CASES` of a module `planted_<area>.py`, which is a row
of `tables` here. `test_planted.py` then has it found at the named equation and place (or practice), with nothing named before it,
and its twin without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import torch

import backproof.torch as bpt

AREAS = ("kernels", "functions", "gradients", "updates", "handling", "recording")


@dataclass(frozen=True)
class Planted:
    """A mistake, and where it must be found."""

    name: str
    record: Callable[[Path, bool], None]
    """Records a run into a folder; with the mistake, or without."""
    equation: str
    """The equation of the first finding; for a practice, its name."""
    place: str = ""
    """Where it is found: the end of the finding's place; or a parameter's name."""
    kind: str = "broken"
    """broken, or suspect for a practice."""
    cause: str = ""
    """What the diagnosis says: a part of its sentence. Empty where there is no name for the mistake."""


def planted() -> dict[str, Planted]:
    """Every case, by name."""
    found: dict[str, Planted] = {}
    for area in AREAS:
        try:
            module = import_module(f"planted_{area}")
        except ModuleNotFoundError as error:
            if error.name != f"planted_{area}":
                raise
            continue
        for case in module.CASES:
            assert case.name not in found, f"two planted cases are called {case.name!r}"
            found[case.name] = case
    return found


def recorded(out: Path, model: torch.nn.Module, step: Callable[[], None], optimizer=None, steps: int = 1, **options):
    """Record some steps of a model."""
    with bpt.Recorder(model, optimizer, out=out, **options) as recorder:
        for _ in range(steps):
            with recorder.step():
                step()


class Instead(torch.overrides.TorchFunctionMode):
    """Has functions of PyTorch compute something else than their names say, as a wrong kernel would."""

    def __init__(self, **wrong: Callable):
        super().__init__()
        homes = (torch.nn.functional, torch, torch.Tensor)
        self.wrong = {getattr(home, name): wrong[name] for home in homes for name in wrong if hasattr(home, name)}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        wrong = self.wrong.get(func)
        return func(*args, **(kwargs or {})) if wrong is None else wrong(func, *args, **(kwargs or {}))

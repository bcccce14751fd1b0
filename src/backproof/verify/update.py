"""The optimizer's equations: each parameter's update and state, derived from the old ones, the gradient and the configuration.

Updates are compared, never parameters: a parameter hides its update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.errors import BackproofError
from backproof.optim.derive import UPDATE, Formats, derive, first_state
from backproof.optim.record import Optimizer
from backproof.optim.torch_names import STEP, TorchOptimizer, hyper_of, record_of, state_of, torch_optimizer
from backproof.trace.safetensors import Tensors
from backproof.trace.step import Step, Update
from backproof.verify.equation import NotChecked, Result, judged

FORMATS_OF = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
HALVES = ("bfloat16", "float16")  # sums of these are accumulated in float32


def update_results(step: Step, tensors: Tensors) -> Iterator[Result | NotChecked]:
    """Every parameter of every optimizer step."""
    for number, update in enumerate(step.updates):
        try:
            named = torch_optimizer(update.optimizer)
        except BackproofError as reason:
            yield NotChecked(f"update by {update.optimizer}", str(reason))
            continue
        for group in update.groups:
            for name in group["params"]:
                try:
                    yield from _parameter(number, update, named, group, name, tensors)
                except BackproofError as reason:
                    yield NotChecked(f"update of {name}", str(reason))


def _parameter(
    number: int, update: Update, named: TorchOptimizer, group: Mapping[str, Any], name: str, tensors: Tensors
) -> Iterator[Result | NotChecked]:
    def recorded(when: str, what: str) -> Any:
        return tensors[f"u{number}:{when}:{what}:{name}"]

    old, new = recorded("before", "parameter"), recorded("after", "parameter")
    gradient = update.grads.get(name)
    if gradient is None:
        if np.array_equal(old, new):
            yield NotChecked(f"update of {name}", "it had no gradient, and did not change")
        else:
            yield Result(
                "update",
                name,
                UPDATE,
                "broken",
                np.inf,
                np.inf,
                0.0,
                0.0,
                0.0,
                0.0,
                because="it changed without a gradient",
            )
        return
    storage = FORMATS_OF[tensors.dtype(f"u{number}:before:parameter:{name}")]
    after = {key: recorded("after", key) for key in update.state.get(name, [])}
    held = {key: recorded("before", key) for key in after if f"u{number}:before:{key}:{name}" in tensors}
    scalars = FORMATS_OF[tensors.dtype(f"u{number}:after:{STEP}:{name}")] if STEP in after else None
    optimizer, hyper = record_of(named), hyper_of(named, _plain(group), storage, scalars)
    fields = {field.name for field in optimizer.state_fields(hyper, old.shape)}
    state = {**first_state(optimizer, old.shape, hyper, storage), **state_of(named, held)}
    count = int(after[STEP]) if STEP in after else 2 if held else 1
    computing = named.computes(storage)
    found = derive(
        optimizer,
        tensors[f"v{gradient}"].astype(np.float64),
        old.astype(np.float64),
        {key: np.asarray(value, dtype=np.float64) for key, value in state.items() if key in fields},
        hyper,
        count,
        Formats(computing, "float32" if computing in HALVES else None, storage if storage != computing else None),
    )
    if STEP in held and int(held[STEP]) + 1 != count:
        because = f"the step count goes from {int(held[STEP])} to {count}"
        yield Result(
            "state", name, STEP, "broken", np.inf, np.inf, 0.0, count, int(held[STEP]) + 1, 0.0, because=because
        )
    claimed = {UPDATE: new.astype(np.float64) - old.astype(np.float64), **state_of(named, after)}
    yield from _compared(name, optimizer, claimed, found)


def _compared(
    name: str, optimizer: Optimizer, claimed: Mapping[str, Any], found: Mapping[str, Any]
) -> Iterator[Result]:
    for what, derived in found.items():
        if what in claimed:
            bound = Bound(derived.value, derived.certain, derived.likely)
            verdict = judged(np.asarray(claimed[what], dtype=np.float64).reshape(derived.value.shape), bound)
            yield Result("update" if what == UPDATE else "state", name, what, *verdict)


def _plain(group: Mapping[str, Any]) -> dict[str, Any]:
    """A param_group as it was: tuples and numbers out of their JSON."""
    return {key: _number(value) for key, value in group.items() if key != "params"}


def _number(value: Any) -> Any:
    if isinstance(value, dict) and "tuple" in value:
        return tuple(_number(item) for item in value["tuple"])
    if isinstance(value, dict) and "float" in value:
        return float(value["float"])
    return value

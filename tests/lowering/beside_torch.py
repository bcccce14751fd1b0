"""A function of PyTorch beside its lowering: the same numbers in, values and gradients out, in float64 and in float32."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import backproof.torch as bpt
from backproof.adapters.torch.encode import tensors_in
from backproof.engine.domain import bounded, float64
from backproof.engine.evaluate import evaluate
from backproof.ir.backprop import backprop
from backproof.numerics import FORMATS
from backproof.trace.folder import Recorded, folders, read
from backproof.verify.calls import reads_of
from backproof.verify.region import Unlowered, region_of, with_witnesses
from backproof.verify.step import verify_step


@dataclass(frozen=True)
class Use:
    """One use of a function: what it is given, and how it is called."""

    setting: str
    function: Callable[..., Any]
    given: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)


def use(function: Callable[..., Any], *given: Any, **named: Any) -> Use:
    """A use, called as it reads."""
    said = ", ".join([*map(_said, given), *(f"{name}={_said(value)}" for name, value in named.items())])
    return Use(f"{getattr(function, '__name__', function)}({said})", function, given, named)


def _said(item: Any) -> str:
    if isinstance(item, torch.Tensor):
        return "x".join(map(str, item.shape)) or "number"
    if isinstance(item, (list, tuple)):
        return f"({' '.join(map(_said, item))})"
    return getattr(item, "__name__", str(item))


def recorded(uses: list[Use], dtype: torch.dtype, folder: Path) -> list[Recorded]:
    """Each use as a step of its own: forward, then backward from random cotangents."""
    with bpt.Recorder(torch.nn.Module(), out=folder) as recorder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for use in uses:
            given, named = (_in(dtype, part) for part in (use.given, use.named))
            with recorder.step():
                torch.manual_seed(0)
                _backward(tensors_in(use.function(*given, **named)))
    return [read(path) for path in folders(folder)]


def _in(dtype: torch.dtype, item: Any) -> Any:
    """A copy of what is given, its floating tensors in another format."""
    if isinstance(item, torch.Tensor):
        to = dtype if item.is_floating_point() else item.dtype
        return item.detach().to(to).clone().requires_grad_(item.requires_grad)
    if isinstance(item, dict):
        return {key: _in(dtype, value) for key, value in item.items()}
    if isinstance(item, (list, tuple)) and not isinstance(item, torch.Size):
        found = [_in(dtype, value) for value in item]
        return found if isinstance(item, list) else tuple(found)
    return dtype if item is torch.float64 else item


def _backward(outputs: list[torch.Tensor]) -> None:
    traced = [y for y in outputs if y.requires_grad]
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(y.shape, generator=generator, dtype=torch.float32).to(y.dtype) for y in traced]
    if len(traced) == 1:
        traced[0].backward(seeds[0])
    elif traced:
        sum((y * seed).sum() for y, seed in zip(traced, seeds, strict=True)).backward()


# ── in float64 ──────────────────────────────────────────────────────────────────────────────────────────────────────


class MissingError(Exception):
    """A call of the use is not lowered."""


def of_scale(step: Recorded) -> float:
    """How far the lowerings are from what PyTorch gave, values and gradients, in units of the largest of each."""
    pairs: list[tuple[Any, Any]] = []
    parts: dict[int, list[Any]] = {value: [] for value in step.step.values}
    for backward in step.step.backwards:
        value = step.step.values[backward.value]
        seed = np.ones(value.shape) if backward.seed is None else step.tensors[f"v{backward.seed}"]
        parts[value.id].append(seed)
    for made in step.step.calls:
        call, graph, values, reads = _evaluated(step, made, float64())
        for output, found in zip(call.outputs, graph.outputs, strict=True):
            pairs.append((values[found], step.tensors[f"v{output}"]))
        seeds = {}
        for output, found in zip(call.outputs, graph.outputs, strict=True):
            if f"g{output}" in step.tensors:
                seeds[found] = step.tensors[f"g{output}"] + seeds.get(found, 0.0)
        if seeds and call.grad:
            with np.errstate(all="ignore"):
                gradients = backprop(graph, float64(), values, seeds)
            for leaf, value in enumerate(reads):
                if gradients[leaf] is not None:
                    parts[value].append(gradients[leaf])
    for value, found in parts.items():
        if f"g{value}" in step.tensors:
            claimed = step.tensors[f"g{value}"]
            pairs.append((sum(found, np.zeros(claimed.shape)), claimed))
    top = max((_size(theirs) for _, theirs in pairs), default=0.0)
    return max((_off(mine, theirs, top) for mine, theirs in pairs), default=0.0)


def vacuous(step: Recorded) -> list[str]:
    """The calls for which the bound of a finite number is not finite: nothing honest, and nothing else, would be found."""
    found = []
    for made in step.step.calls:
        call, graph, values, _ = _evaluated(step, made, bounded("float32"))
        for output, place in zip(call.outputs, graph.outputs, strict=True):
            bound, claimed = values[place], step.tensors[f"v{output}"]
            if bound.certain is not None and claimed.dtype.kind == "f":
                size = np.abs(claimed[np.isfinite(claimed)]).max(initial=0.0)
                loose = ~np.isfinite(bound.certain) & np.isfinite(claimed)
                if loose.any() or np.any(bound.certain[np.isfinite(claimed)] > 1e-2 * size + 1e-30):
                    found.append(call.op)
    return found


def _evaluated(step: Recorded, call: Any, domain: Any) -> tuple[Any, Any, list[Any], tuple[int, ...]]:
    """The call with its witnesses, its graph, every value of that, and which of the recorded values its leaves are."""
    call = with_witnesses(call, lambda value: f"v{value}" in step.tensors)
    reads = reads_of(call)
    try:
        region = region_of(call, reads, step.step.values.__getitem__)
    except Unlowered as reason:
        raise MissingError(f"{call.op}: {reason}") from None
    leaves = region.leaves_of(reads)
    with np.errstate(all="ignore"):
        values = evaluate(region.graph, domain, [step.tensors[f"v{value}"] for value in leaves])
    return call, region.graph, values, leaves


def coarsest(step: Recorded) -> str:
    """The format of the coarsest number that anything was computed in."""
    formats = {value.dtype for value in step.step.values.values()} & set(FORMATS)
    return min(formats, key=lambda name: FORMATS[name].precision, default="float64")


def _size(x: Any) -> float:
    return float(np.abs(np.asarray(x, dtype=np.float64)[np.isfinite(x)]).max(initial=0.0))


def _off(mine: Any, theirs: Any, top: float) -> float:
    """The largest difference, in units of the largest number, or of the top of all where that is but rounding itself."""
    mine, theirs = (np.asarray(x, dtype=np.float64) for x in (mine, theirs))
    assert mine.shape == theirs.shape, f"{mine.shape} for {theirs.shape}"
    finite = np.isfinite(theirs)
    if not np.array_equal(mine[~finite], theirs[~finite], equal_nan=True) or not np.isfinite(mine[finite]).all():
        return np.inf
    gap = float(np.abs(np.where(finite, mine, 0.0) - np.where(finite, theirs, 0.0)).max(initial=0.0))
    size = _size(theirs)
    return gap / (size if size > 1e-9 * top else top) if gap else 0.0


# ── in float32 ──────────────────────────────────────────────────────────────────────────────────────────────────────


def judged(step: Recorded) -> list[str]:
    """What verifying a step of honest numbers says against them."""
    verdict = verify_step(step)
    wrong = [
        f"{r.equation} {r.place}: {r.verdict}, ratio {r.ratio:.3g}" for r in verdict.results if r.verdict != "holds"
    ]
    return [*wrong, *(f"not checked: {entry.place}: {entry.why}" for entry in verdict.not_checked)]

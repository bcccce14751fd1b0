"""A pass of automatic differentiation, by whichever name it was asked for: where it begins, with what seeds, and what it hands out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from backproof.adapters.torch.effects import bound_to
from backproof.adapters.torch.encode import tensors_in
from backproof.trace.step import Backward

if TYPE_CHECKING:
    from backproof.adapters.torch.observe import Observer


@dataclass(frozen=True, slots=True)
class Asked:
    """A function that begins a pass: its parameters, and which of them are the roots and the seeds."""

    names: str
    roots: str
    seeds: str
    hands_out: bool = False
    """Whether it gives gradients back, and adds them to no `.grad`."""


PASSES = {
    "torch.Tensor.backward": Asked("self gradient retain_graph create_graph inputs", "self", "gradient"),
    "torch.autograd.backward": Asked("tensors grad_tensors retain_graph create_graph", "tensors", "grad_tensors"),
    "torch.autograd.grad": Asked("outputs inputs grad_outputs", "outputs", "grad_outputs", hands_out=True),
}


def run_pass(
    observer: Observer, func: Callable[..., Any], op: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a pass, and record what it begins with and hands out."""
    asked = PASSES[op]
    given = bound_to(args, kwargs, asked.names)
    roots, seeds = _listed(given[asked.roots]), _listed(given.get(asked.seeds))
    if given.get("is_grads_batched") or not all(isinstance(root, torch.Tensor) for root in roots):
        return _unknown(observer, func, args, kwargs)
    with observer.quiet():
        first, passing = len(observer.backwards), observer.gradients.passing
        for root, seed in zip(roots, [*seeds, *[None] * (len(roots) - len(seeds))], strict=True):
            number = None if seed is None else observer.values.number(seed)
            observer.backwards.append(Backward(observer.values.number(root), number, len(observer.calls), passing))
        observer.gradients.settle()
        observer.saved.begin(observer.calls, observer.gradients.makers)
        adding = nullcontext() if asked.hands_out else observer.handling.backward(passing)
        with adding, observer.gradients.listening():
            result = func(*args, **kwargs)
        if asked.hands_out:
            found = _handed_out(observer, given, result)
            observer.backwards[first] = replace(observer.backwards[first], handed_out=found)
    return result


def _unknown(observer: Observer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of many seeds at once, or from a place that is no tensor: what comes back is the gradient of no value."""
    with observer.quiet():
        result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            number = observer.values.made(tensor, "unseen")
            observer.values.unseen.append({"value": number, "by": "a pass that is not followed", "reads": []})
    return result


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]


def _handed_out(observer: Observer, given: dict[str, Any], result: Any) -> list[list[int]]:
    """For each input that got a gradient: its value, and the value that the gradient is from here on."""
    values, found = observer.values, []
    inputs = given["inputs"].values() if isinstance(given["inputs"], dict) else _listed(given["inputs"])
    results = result.values() if isinstance(result, dict) else result
    for x, gradient in zip(inputs, results, strict=True):
        if isinstance(x, torch.Tensor) and isinstance(gradient, torch.Tensor):
            traced = gradient.grad_fn is not None  # it can be differentiated again: by what, no call shows
            number = values.number(gradient) if traced or values.known(gradient) else values.made(gradient, "gradient")
            for stranger in values.unseen if traced else ():
                if stranger["value"] == number:
                    stranger["by"] = "torch.autograd.grad with create_graph"
            found.append([values.number(x), number])
    return found

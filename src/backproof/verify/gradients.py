"""Gradients: the seed of each backward pass, what each region's backward gave, and each value's gradient, the sum over its readers."""

from __future__ import annotations

from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.trace.step import Region, Value, contribution_key, gradient_key, handed_key
from backproof.verify.equation import NotChecked, Total
from backproof.verify.subject import Subject, domain


def add_seeds(subject: Subject) -> None:
    """What each backward pass begins with is a contribution like any other."""
    for backward in subject.step.backwards:
        value = subject.value(backward.value)
        seed = np.ones(value.shape) if backward.seed is None else subject.array(f"v{backward.seed}")
        subject.contribute(value.id, Bound(seed.astype(np.float64)), None, backward.passing)


def add_regions(subject: Subject) -> None:
    """What a region's backward gave is taken as recorded: it is judged at the region, and nowhere else."""
    for number, region in enumerate(subject.step.regions):
        for value in dict.fromkeys(region.inputs):
            for passing in range(subject.step.passes):
                key = contribution_key(number, value, passing)
                if key in subject.tensors:
                    subject.contribute(value, Bound(subject.array(key).astype(np.float64)), None, passing)


def check_region(subject: Subject, number: int, region: Region) -> None:
    """What a region's backward gave is the derivative of its forward."""
    place = named(region)
    if region.intended:
        subject.verdict.add(
            NotChecked(f"backward of {place}", "it is declared to be meant, in place of the derivative")
        )
        return
    if region.why:
        subject.verdict.add(NotChecked(f"backward of {place}", region.why))
        return
    if number in subject.open_regions:
        why = f"{subject.open_regions[number]} inside of it is not lowered"
        subject.verdict.add(NotChecked(f"backward of {place}", why))
        return
    for place_of_input, value in enumerate(dict.fromkeys(region.inputs)):
        for passing in range(subject.step.passes):
            if not any(subject.reached(y, passing) for y in region.outputs):
                continue
            total = subject.parts.pop((number, value, passing), None)
            form = subject.value(value)
            derived = derived_from(total, form)
            key = contribution_key(number, value, passing)
            claimed = subject.array(key) if key in subject.tensors else np.zeros(form.shape)
            if region.kind == "backward hooks" and not np.array_equal(claimed, _value_of(derived), equal_nan=True):
                why = "they change it; what they hand on is taken as recorded"
                subject.verdict.add(NotChecked(f"gradient through the {place}", why))
                continue
            origins = () if total is None else total.known
            because = f"its backward gives input {place_of_input} what is not the derivative of its forward"
            subject.compare("gradient", place, value, key, derived, origins, claimed=claimed, because=because)


def _value_of(derived: Bound | Total) -> Any:
    return sum(part.value for part in derived.derived()) if isinstance(derived, Total) else derived.value


def derived_from(total: Total | None, value: Value) -> Bound | Total:
    """A sum of contributions as it is compared: what is yet to be derived is, a slab at a time."""
    if total is None:
        return Bound(np.zeros(value.shape))
    return total if None in total.parts else total.bound(domain(value.dtype).storage)


def named(region: Region) -> str:
    """A region as it is spoken of."""
    return f"{region.place}: {region.name}" if region.place else region.name


def check_gradient(subject: Subject, value: Value) -> None:
    """A value's gradient is, in every pass, the sum over the calls that read it."""
    for passing in range(subject.step.passes):
        key = gradient_key(value.id, passing)
        if key not in subject.tensors:
            continue
        place = subject.spoken(value.id)
        if handed_key(value.id, passing) in subject.tensors:
            why = "a hook changes it; what the hook hands on is taken as recorded"
            subject.verdict.add(NotChecked(f"gradient of {place}, as it is handed on", why))
        if value.id in subject.open:
            why = f"{subject.open[value.id]} reads it, and is not lowered"
            subject.verdict.add(NotChecked(f"gradient of {place}", why))
            return
        total = subject.totals.pop((value.id, passing), None)
        derived = derived_from(total, value)
        subject.compare("gradient", place, value.id, key, derived, () if total is None else total.known)


def check_handed_out(subject: Subject) -> None:
    """Where gradients were asked for by name (`torch.autograd.grad`), what was given back is what came to those values."""
    for backward in subject.step.backwards:
        for value, result in backward.handed_out:
            if not subject.stored(result):
                continue
            place = f"gradient of {subject.spoken(value)}, as it was given back"
            arrived = subject.gradient(value, backward.passing)
            if arrived is not None:
                found = arrived if isinstance(arrived, Bound) else Bound(arrived.astype(np.float64))
                subject.compare("gradient", place, result, f"v{result}", found)
            elif subject.array(f"v{result}").any():
                subject.verdict.add(NotChecked(place, "nothing was seen to come to this value"))

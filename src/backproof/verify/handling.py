"""What becomes of gradients between the backward pass and the step: each moment an equation of the gradients before it.

A backward pass adds what it brought; clipping multiplies by a factor that follows from all gradients together; unscaling divides by the
loss scale; an edit is a call like any other; and what nothing that was seen has changed is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from backproof.engine.bounded import Bound
from backproof.errors import BackproofError
from backproof.ir.build import Ref
from backproof.numerics import FORMATS
from backproof.optim.clipping import by_value, derive_bounded, derive_factor, derive_scaled, next_scale
from backproof.optim.derive import Derived, Formats
from backproof.trace.handling import Moment
from backproof.verify.equation import Judgement, NotChecked, Result, Total, judged, same_numbers
from backproof.verify.region import values_in
from backproof.verify.remarks import Scale
from backproof.verify.subject import Subject

Gradients = Mapping[str, int | None]
HALVES = ("bfloat16", "float16")  # sums of these are accumulated in float32


def check_handling(subject: Subject) -> None:
    """Every moment of a step, in order."""
    now: dict[str, int | None] = {}
    for moment in subject.step.moments:
        rule = RULES.get(moment.kind)
        if rule is not None:
            try:
                for found in rule(subject, moment, now):
                    subject.verdict.add(found)
            except BackproofError as reason:
                subject.verdict.add(NotChecked(f"{moment.kind} by {moment.by}", str(reason)))
        now.update(moment.grads)


Found = Iterator[Result | NotChecked | Scale]


def stated(equation: str, place: str, probe: str, *, holds: bool, because: str, numbers: Any = (0.0, 0.0)) -> Result:
    """An equation that holds exactly or not at all."""
    ratio, verdict = (0.0, "holds") if holds else (np.inf, "broken")
    claimed, derived = (float(number) for number in numbers)
    found = Judgement(verdict, ratio, ratio, 0.0, claimed, derived, 0.0, ())
    parameter = "" if place.endswith(")") else place
    return Result(equation, place, probe, *found, because="" if holds else because, parameter=parameter)


def _judged(
    equation: str, name: str, subject: Subject, value: int, derived: Bound | Derived, cause: str = ""
) -> Result:
    claimed = subject.array(f"v{value}")
    bound = Bound(derived.value, derived.certain, derived.likely)
    found = judged(claimed, bound)
    said = cause if found.verdict == "broken" else ""
    return Result(equation, name, f"{value}", *found, parameter=name, cause=said)


# ── backward passes ─────────────────────────────────────────────────────────────────────────────────────────────────


def _backward(subject: Subject, moment: Moment, now: Gradients) -> Found:
    """.grad afterwards = .grad before + what the pass brought."""
    passing = int(moment.given["passing"])
    brought = _brought(subject, passing)
    if moment.given.get("reduced"):
        world = subject.step.facts.get("world", 1)
        if world > 1:
            return  # the ranks' records side by side say more
    for name in dict.fromkeys((*brought, *moment.grads)):
        before, after = now.get(name), moment.grads.get(name, now.get(name))
        if name not in brought:
            yield NotChecked(
                f".grad of {name}", "it changed in a backward pass, and what the pass brought was not seen"
            )
            continue
        hooked = name in moment.given.get("hooked", ())
        if after is None and not hooked:
            yield stated("accumulation", name, "", holds=False, because="its gradient did not reach .grad")
        if after is None:
            continue
        found = _accumulated(subject, name, before, after, brought[name])
        if found.verdict == "broken" and hooked:
            yield NotChecked(f".grad of {name}", "a hook that is called once it is there changes it; taken as recorded")
        else:
            yield found


def _accumulated(subject: Subject, name: str, before: int | None, after: int, part: Any) -> Result:
    """.grad of one parameter, the sum of what it was and of what was brought."""
    if before is None and same_numbers(subject.array(f"v{after}"), part):
        return stated("accumulation", name, f"{after}", holds=True, because="")
    total = Total()
    for each in (part,) if before is None else (subject.array(f"v{before}"), part):
        total.add(Bound(each.astype(np.float64)))
    derived = total.bound(FORMATS[subject.value(after).dtype])
    return _judged("accumulation", name, subject, after, derived, _misadded(subject, before, after, part))


def _brought(subject: Subject, passing: int) -> dict[str, Any]:
    """What a pass brought to each parameter."""
    found = {}
    for number, value in subject.step.values.items():
        if value.origin == "parameter" and value.shares is None and subject.reached(number, passing):
            found[value.name] = subject.gradient(number, passing)
    return found


def _misadded(subject: Subject, before: int | None, after: int, part: Any) -> str:
    """How .grad is not the sum: hypotheses, each exact."""
    claimed = subject.array(f"v{after}").astype(np.float64)
    held = None if before is None else subject.array(f"v{before}").astype(np.float64)
    if held is not None and np.array_equal(claimed, held):
        return "what the pass brought was not added"
    if held is not None and np.array_equal(claimed, part):
        return "what was accumulated before was lost"
    return ""


# ── clipping ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _formats(dtype: str) -> Formats:
    return Formats(dtype, "float32" if dtype in HALVES else None)


def _clip(subject: Subject, moment: Moment, now: Gradients) -> Found:
    """Each gradient = itself · min(1, c/(‖all‖ + 10⁻⁶))."""
    names = [name for name in moment.over if now.get(name) is not None]
    if not names:
        return
    grads = {name: subject.array(f"v{now[name]}") for name in names}
    most, p = float(moment.given["max_norm"]), float(moment.given["norm_type"])
    formats = _formats(_value(subject, now[names[0]]).dtype)
    size, factor = derive_factor(grads.values(), most, p, formats=formats)
    at, f = f"clip_grad_norm_ ({len(names)} gradients)", float(factor.value)
    said = f"norm {float(size.value):.6g} of {len(names)} gradients, at most {most:g}"
    yield Scale("clip", at, f, said)
    cause = ""
    results = []
    for name in names:
        after = moment.grads.get(name, now[name])
        if after is None:
            yield stated("clip", name, "", holds=False, because="clipping left no gradient")
            continue
        result = _judged("clip", name, subject, after, derive_scaled(grads[name], factor, formats))
        if result.verdict == "broken" and not cause:
            cause = _misclipped(grads, name, subject.array(f"v{after}"), most, p, formats)
        results.append(result if result.verdict != "broken" else _because(result, cause))
    if moment.given.get("norm") is not None:
        claimed = np.asarray(float(moment.given["norm"]))
        found = judged(claimed, size)
        yield Result("clip", at, "norm", *found, cause=cause if found.verdict == "broken" else "")
    yield from results


def _because(result: Result, cause: str) -> Result:
    return replace(result, cause=cause)


def _misclipped(grads: Mapping[str, Any], name: str, after: Any, most: float, p: float, formats: Formats) -> str:
    """Which other way of clipping gives what was found."""
    hypotheses: list[tuple[str, Any, float, str]] = [
        *(
            (f"the norm was the {q:g}-norm, not the {p:g}-norm", grads.values(), q, "norm")
            for q in (1.0, 2.0, np.inf)
            if q != p
        ),
        ("each gradient was clipped by its own norm, not all by one", [grads[name]], p, "norm"),
        ("gradients below the limit were scaled up to it", grads.values(), p, "normalized"),
    ]
    for says, over, q, way in hypotheses:
        _, factor = derive_factor(over, most, q, way, formats)
        if _explains(grads[name], factor, after, formats):
            return says
    one = Bound(np.asarray(1.0))
    if _explains(grads[name], one, after, formats):
        return "nothing was clipped"
    squared = Bound(
        np.asarray(min(1.0, most / (sum(float(np.sum(g.astype(np.float64) ** 2)) for g in grads.values()) or 1.0)))
    )
    ratio = _ratio(grads[name], after)
    if p == 2.0 and abs(ratio - float(squared.value)) <= 1e-4 * abs(ratio):
        return "the square of the norm was taken for the norm"
    return f"the gradients were multiplied by {ratio:.6g}"


def _explains(before: Any, factor: Bound, after: Any, formats: Formats) -> bool:
    found = derive_scaled(before, factor, formats)
    return judged(after, Bound(found.value, found.certain, found.likely)).verdict != "broken"


def _ratio(before: Any, after: Any) -> float:
    x, y = before.astype(np.float64), after.astype(np.float64)
    return float(np.sum(x * y)) / (float(np.sum(x * x)) or 1.0)


def _clip_value(subject: Subject, moment: Moment, now: Gradients) -> Found:
    """Each element = min(c, max(−c, itself)), exactly."""
    limit = float(moment.given["limit"])
    yield Scale("clip_value", "clip_grad_value_", 1.0, f"each element between −{limit:g} and {limit:g}")
    yield from _each(subject, moment, now, "clip", lambda x: by_value(x, limit))


def _each(subject: Subject, moment: Moment, now: Gradients, equation: str, formula: Callable[[Ref], Ref]) -> Found:
    """The same formula on each gradient."""
    for name in moment.over or moment.grads:
        before, after = now.get(name), moment.grads.get(name, now.get(name))
        if before is None or after is None:
            continue
        derived = derive_bounded(formula, subject.array(f"v{before}"), formats=_formats(_value(subject, after).dtype))
        yield _judged(equation, name, subject, after, derived)


# ── loss scales ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _unscale(subject: Subject, moment: Moment, now: Gradients) -> Found:
    """Each gradient = itself · (1/s); overflow is found where there is some."""
    given = moment.given
    inverse, scale = float(given["inverse"]), given.get("scale")
    if scale is not None and inverse != 1.0:
        yield Scale("unscale", "GradScaler", inverse, f"the loss scale is {float(scale):g}")
        derived = 1.0 / float(scale)
        room = 2 * FORMATS["float32"].unit * derived
        found = judged(np.asarray(inverse), Bound(np.asarray(derived), np.asarray(room), np.asarray(room)))
        yield Result("unscale", "GradScaler (1/scale)", "inverse", *found)
    held = [subject.array(f"v{now[name]}") for name in moment.over if now.get(name) is not None]
    overflow = any(not np.isfinite(array).all() for array in held)
    said = f"found_inf is {float(given['found_inf']):g}, and of the gradients {'some' if overflow else 'none'} overflow"
    numbers = (given["found_inf"], overflow)
    holds = bool(given["found_inf"]) == overflow
    yield stated("unscale", "GradScaler (overflow)", "found_inf", holds=holds, because=said, numbers=numbers)
    yield from _each(subject, moment, now, "unscale", lambda x: x * inverse)


def _loss_scale(subject: Subject, moment: Moment, now: Gradients) -> Found:
    """The scale falls after an overflow, and rises after enough steps without one."""
    given = moment.given
    scale, tracker = next_scale(
        float(given["scale"]),
        int(given["tracker"]),
        overflow=bool(given["found_inf"]),
        growth=float(given["growth"]),
        backoff=float(given["backoff"]),
        interval=int(given["interval"]),
    )
    moved = float(given["new_scale"]), int(given["new_tracker"])
    scale = float(np.float32(scale))
    holds = moved == (scale, tracker)
    because = f"{given['scale']:g} after {given['tracker']} good steps goes to {moved[0]:g} and {moved[1]}, not {scale:g} and {tracker}"
    yield stated("loss scale", "GradScaler (scale)", "scale", holds=holds, because=because, numbers=(moved[0], scale))


# ── changes by the program ──────────────────────────────────────────────────────────────────────────────────────────


def _edit(subject: Subject, moment: Moment, now: Gradients) -> Found:
    """What a call made, and its own equation speaks of it; here, that it made it of the gradient before."""
    first, last = moment.given["calls"]
    makers = {output: call for call in subject.step.calls[first:last] for output in call.outputs}
    for name, after in moment.grads.items():
        before = now.get(name)
        if before is None or after is None:
            continue
        call = makers.get(after)
        if call is not None and before in values_in(call.given):
            factor = _ratio(subject.array(f"v{before}"), subject.array(f"v{after}"))
            yield Scale("edit", name, factor, f"changed by {moment.by}")
        else:
            yield NotChecked(f".grad of {name}", f"changed by {moment.by}, which has no formula here")


def _assign(subject: Subject, moment: Moment, now: Gradients) -> Found:
    """Another tensor was put in its place; that a call or a pass made it is all that there is to say."""
    made = {output for call in subject.step.calls for output in call.outputs}
    made |= {result for backward in subject.step.backwards for _, result in backward.handed_out}
    for name, after in moment.grads.items():
        if after is not None and after not in made:
            yield NotChecked(f".grad of {name}", "it was replaced by a tensor that no recorded call made")
        elif after is not None and now.get(name) is not None:
            before = subject.array(f"v{now[name]}")
            yield Scale("edit", name, _ratio(before, subject.array(f"v{after}")), "replaced by another tensor")


def _clear(subject: Subject, moment: Moment, now: Gradients) -> Found:
    """Nothing, or zeros."""
    for name, after in moment.grads.items():
        if after is not None:
            array = subject.array(f"v{after}")
            numbers = (float(np.max(np.abs(array), initial=0.0)), 0.0)
            yield stated(
                "clear", name, f"{after}", holds=not array.any(), because="it is not 0 afterwards", numbers=numbers
            )


def _unseen(subject: Subject, moment: Moment, now: Gradients) -> Found:
    for name, after in moment.grads.items():
        before = now.get(name)
        if before is None or after is None:
            yield NotChecked(f".grad of {name}", "something unseen set it")
            continue
        x, y = subject.array(f"v{before}"), subject.array(f"v{after}")
        because = "its gradient was changed by something unseen"
        at = np.unravel_index(int(np.argmax(np.abs(y.astype(np.float64) - x))), x.shape)
        yield stated("edit", name, f"{after}", holds=False, because=because, numbers=(y[at], x[at]))


def _reduce(subject: Subject, moment: Moment, now: Gradients) -> Found:
    world = int(moment.given["world"])
    if world == 1:
        yield from _each(subject, moment, now, "reduction", lambda x: x)


def _value(subject: Subject, number: int | None) -> Any:
    assert number is not None
    return subject.value(number)


RULES: dict[str, Callable[[Subject, Moment, Gradients], Found]] = {
    "backward": _backward,
    "clip": _clip,
    "clip_value": _clip_value,
    "unscale": _unscale,
    "loss_scale": _loss_scale,
    "edit": _edit,
    "assign": _assign,
    "clear": _clear,
    "reduce": _reduce,
    "unseen": _unseen,
}
"""The kinds of moments that say something of the gradients before them."""

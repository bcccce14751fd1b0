"""Where a backward pass begins: its losses, what each is divided by, and the weight that each has in the gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from backproof.trace.step import Backward, Call
from backproof.verify.remarks import Scale
from backproof.verify.subject import Subject

MEANS = "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div soft_margin_loss"
CLASSES = ("cross_entropy", "nll_loss")
LOSSES = (*CLASSES, *MEANS.split())
SAME = set("to float double half bfloat16 clone contiguous view reshape squeeze unsqueeze alias type".split())
DIVIDES, MULTIPLIES = {"div", "true_divide", "__truediv__", "div_"}, {"mul", "multiply", "__mul__", "__rmul__", "mul_"}
ADDS = {"add", "__add__", "__radd__", "add_", "sum_of"}


@dataclass(frozen=True, slots=True)
class Term:
    """One loss of one backward pass."""

    passing: int
    call: int
    op: str
    place: str
    weight: float
    """What the loss was multiplied by on the way to where the pass began, the seed with it."""
    reduction: str
    count: float
    """What the loss counts: tokens that are not ignored, rows, or elements."""
    unit: str
    after: int
    """How many calls there were when the pass began."""

    @property
    def each(self) -> float:
        """The weight of one of what it counts."""
        return self.weight / self.count if self.reduction == "mean" and self.count else self.weight


def loss_terms(subject: Subject) -> tuple[Term, ...]:
    """Every loss of every backward pass."""
    makers = {output: number for number, call in enumerate(subject.step.calls) for output in call.outputs}
    found: list[Term] = []
    for backward in subject.step.backwards:
        seed = 1.0
        if backward.seed is not None:
            array = subject.array(f"v{backward.seed}")
            if array.size != 1:
                continue
            seed = float(array.reshape(-1)[0])
        found.extend(_terms(subject, makers, backward, backward.value, seed, 0))
    return tuple(found)


def loss_scales(terms: tuple[Term, ...]) -> Iterator[Scale]:
    """The denominators and weights, as factors to be shown."""
    for term in terms:
        at = f"{term.place}: {term.op}" if term.place else term.op
        if term.reduction == "mean" and term.count:
            yield Scale("loss", at, 1.0 / term.count, f"pass {term.passing}: mean over {term.count:g} {term.unit}")
        elif term.reduction == "sum":
            yield Scale("loss", at, 1.0, f"pass {term.passing}: sum over {term.count:g} {term.unit}")
        if term.weight != 1.0:
            yield Scale("seed", at, term.weight, f"pass {term.passing}: the loss times {term.weight:.9g}")


def _terms(
    subject: Subject, makers: Mapping[int, int], backward: Backward, value: int, weight: float, depth: int
) -> Iterator[Term]:
    """Back from a value to the losses that it is made of."""
    number = makers.get(value)
    if number is None or depth > 64:
        return
    call = subject.step.calls[number]
    op = call.op
    if op in LOSSES or (op == "mean" and _numbers(call)):
        yield _term(subject, call, number, backward, weight)
        return
    for read, factor in _steps(subject, call):
        yield from _terms(subject, makers, backward, read, weight * factor, depth + 1)


def _numbers(call: Call) -> bool:
    return bool(call.args)


def _steps(subject: Subject, call: Call) -> Iterator[tuple[int, float]]:
    """What a call reads on the way to a loss, and the factor that it puts on it."""
    operands = [_operand(subject, item) for item in call.args[:2]]
    if not operands or operands[0] is None:
        return
    first = operands[0]
    second = operands[1] if len(operands) > 1 else None
    if call.op in SAME and first[0] is not None:
        yield first[0], 1.0
    elif call.op in ("neg", "__neg__") and first[0] is not None:
        yield first[0], -1.0
    elif call.op in MULTIPLIES and second is not None:
        for (this, _), (_, other) in ((first, second), (second, first)):
            if this is not None and other is not None:
                yield this, other
                break
    elif call.op in DIVIDES and second is not None and first[0] is not None and second[1]:
        yield first[0], 1.0 / second[1]
    elif call.op in ADDS and second is not None:
        yield from ((this, 1.0) for this, _ in (first, second) if this is not None)


def _operand(subject: Subject, item: Any) -> tuple[int | None, float | None] | None:
    """(the value, if gradients flow to it; the number, if it is one that is known)."""
    if isinstance(item, (int, float)) and not isinstance(item, bool):
        return None, float(item)
    if not (isinstance(item, dict) and "value" in item):
        return None
    number = int(item["value"])
    array = subject.array(f"v{number}") if subject.stored(number) else None
    known = float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None
    flows = any(subject.wants(number, passing) for passing in range(subject.step.passes))
    return (number, None) if flows else (None, known)


def _term(subject: Subject, call: Call, number: int, backward: Backward, weight: float) -> Term:
    reduction, count, unit = _counted(subject, call)
    return Term(backward.passing, number, call.op, call.place, weight, reduction, count, unit, backward.after)


def _given(call: Call, name: str, place: int, default: Any) -> Any:
    if name in call.kwargs:
        return call.kwargs[name]
    return call.args[place] if len(call.args) > place else default


def _counted(subject: Subject, call: Call) -> tuple[str, float, str]:
    """How a loss is reduced, over how many of what."""
    value = call.args[0]["value"] if call.args and isinstance(call.args[0], dict) else call.kwargs["input"]["value"]
    if call.op == "mean":
        size, out = (int(np.prod(subject.value(n).shape)) for n in (value, call.outputs[0]))
        return "mean", size / max(1, out), "elements"
    reduction = str(_given(call, "reduction", REDUCTION_AT.get(call.op, 99), "mean"))
    if call.op not in CLASSES:
        shape = subject.value(value).shape
        rows = call.op == "kl_div" and reduction == "batchmean"
        return (
            ("mean" if rows else reduction),
            float(shape[0] if rows else np.prod(shape)),
            "rows" if rows else "elements",
        )
    target = _given(call, "target", 1, None)
    if not isinstance(target, dict):
        return reduction, 0.0, "targets"
    targets = subject.array(f"v{target['value']}")
    if not np.issubdtype(targets.dtype, np.integer):
        return reduction, float(targets.shape[0] if targets.ndim else 1), "rows"
    kept = targets != int(_given(call, "ignore_index", 4, -100))
    weight = _given(call, "weight", 2, None)
    if isinstance(weight, dict):
        return reduction, float(subject.array(f"v{weight['value']}")[targets[kept]].sum()), "weights of targets"
    return reduction, float(kept.sum()), f"targets of {targets.size}"


REDUCTION_AT = {"cross_entropy": 6, "nll_loss": 6, "mse_loss": 4, "l1_loss": 4, "smooth_l1_loss": 4, "huber_loss": 2}
"""Where among its arguments a loss has its reduction."""


def ignored_index(call: Call) -> int:
    """The target that a loss of classes does not count."""
    return int(_given(call, "ignore_index", 4, -100))


def target_of(call: Call) -> int | None:
    """The value that a loss has as its target."""
    target = _given(call, "target", 1, None)
    return int(target["value"]) if isinstance(target, dict) and "value" in target else None

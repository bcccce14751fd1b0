"""The optimizer's equations: each parameter's update and state, derived from the old ones, the gradient and the configuration.

Updates are compared, never parameters: a parameter hides its update.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from backproof.engine.bounded import Bound
from backproof.engine.places import FULL, SINGLE
from backproof.engine.slabs import part_of
from backproof.errors import BackproofError
from backproof.numerics import FORMATS, gamma
from backproof.optim.derive import UPDATE, Derived, Formats, derive, first_state
from backproof.optim.record import Optimizer
from backproof.optim.screen import screen
from backproof.optim.torch_names import STEP, TorchOptimizer, hyper_of, record_of, state_of, torch_optimizer
from backproof.trace.folder import StepTensors
from backproof.trace.step import Step, Update
from backproof.verify.equation import Judgement, Measured, NotChecked, Result, judged, measured, together
from backproof.verify.screening import Screening

FORMATS_OF = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
HALVES = ("bfloat16", "float16")  # sums of these are accumulated in float32
MOST_NAMED = 8  # parameters of an update whose mistake is looked for; the others fail with them


@dataclass(frozen=True)
class Subject:
    """One parameter through one update."""

    name: str
    optimizer: Optimizer
    hyper: Mapping[str, Any]
    count: int
    """The step count of the rule."""
    gradient: Any
    parameter: Any
    state: Mapping[str, Any]
    formats: Formats
    storage: str
    claimed: Mapping[str, Any]
    """The update and the new state, as they are said to be."""

    def expected(self) -> set[str]:
        """The names of what a step results in."""
        return {UPDATE, *self.state, *(f.name for f in self.optimizer.state_fields(self.hyper, self.parameter.shape))}

    def derived(self) -> dict[str, Derived]:
        """What they should be."""
        return derive(self.optimizer, self.gradient, self.parameter, self.state, self.hyper, self.count, self.formats)

    def wide(self) -> Subject:
        """The same with all numbers in float64, to calculate with."""
        state, claimed = (
            {key: np.asarray(x, dtype=np.float64) for key, x in held.items()} for held in (self.state, self.claimed)
        )
        gradient, parameter = (x.astype(np.float64) for x in (self.gradient, self.parameter))
        return replace(self, gradient=gradient, parameter=parameter, state=state, claimed=claimed)

    def having(self, **changes: Any) -> Subject:
        """The same with something else."""
        return replace(self, **changes)


def update_results(
    step: Step, tensors: StepTensors, screening: Screening | None = None
) -> Iterator[Result | NotChecked]:
    """Every parameter of every optimizer step; some stretches of each, if it is only screened."""
    for number, update in enumerate(step.updates):
        try:
            named = torch_optimizer(update.claimed or update.optimizer)
        except BackproofError as reason:
            yield NotChecked(f"update by {update.optimizer}", str(reason))
            continue
        read = _Update(step, tensors, number, update, named, screening)
        yield from read.results()


class _Update:
    """One optimizer step while it is verified."""

    def __init__(
        self,
        step: Step,
        tensors: StepTensors,
        number: int,
        update: Update,
        named: TorchOptimizer,
        screening: Screening | None = None,
    ) -> None:
        self.screening = screening
        self.step, self.tensors, self.number, self.update, self.named = step, tensors, number, update, named
        self.looked_for = 0

    def results(self) -> Iterator[Result | NotChecked]:
        """Each parameter of each group."""
        for group in self.update.groups:
            glanced = self._glanced(group)
            for name in group["params"]:
                try:
                    if f"u{self.number}:before:parameter:{name}" not in self.tensors:
                        yield NotChecked(
                            f"update of {name}", f"its numbers are {self._format(name)}, and are not recorded"
                        )
                    elif self.update.given.get("found_inf") or self.update.grads.get(name) is None:
                        yield self._still(name)
                    elif name in glanced:
                        yield from glanced[name]
                    else:
                        yield from self._parameter(group, name)
                except BackproofError as reason:
                    yield NotChecked(f"update of {name}", str(reason))

    def _format(self, name: str) -> str:
        return next(
            (value.dtype for value in self.step.values.values() if value.name == name), "of a format unknown here"
        )

    def recorded(self, when: str, what: str, name: str) -> Any:
        """A tensor of this update."""
        return self.tensors[f"u{self.number}:{when}:{what}:{name}"]

    def _still(self, name: str) -> Result:
        """A parameter that must not change."""
        old, new = self.recorded("before", "parameter", name), self.recorded("after", "parameter", name)
        same = np.array_equal(old, new, equal_nan=True)
        overflow = bool(self.update.given.get("found_inf"))
        because = "it changed, though gradients overflowed" if overflow else "it changed without a gradient"
        return _exactly(name, UPDATE, because if not same else "", holds=same)

    def subject(self, group: Mapping[str, Any], name: str) -> Subject:
        """What an update is derived from, in float64."""
        return self.narrow(group, name).wide()

    def narrow(self, group: Mapping[str, Any], name: str, places: Any = None) -> Subject:
        """The same as it was recorded, or some of its elements."""
        shape = self.tensors.shape(f"u{self.number}:before:parameter:{name}")

        def chosen(given: Any) -> Any:
            return given if places is None or np.shape(given) != shape else np.take(given, places)

        old = chosen(self.recorded("before", "parameter", name))
        storage = FORMATS_OF[self.tensors.dtype(f"u{self.number}:before:parameter:{name}")]
        after = {key: self.recorded("after", key, name) for key in self.update.state.get(name, [])}
        held = self.held(name)
        scalars = FORMATS_OF[self.tensors.dtype(f"u{self.number}:after:{STEP}:{name}")] if STEP in after else None
        optimizer, hyper = record_of(self.named), hyper_of(self.named, plain(group), storage, scalars)
        fields = {field.name for field in optimizer.state_fields(hyper, old.shape)}
        state = state_of(self.named, held)
        if not fields <= set(state):
            state = {**first_state(optimizer, old.shape, hyper, storage), **state}
        new = chosen(self.recorded("after", "parameter", name))
        computing = self.named.computes(storage)
        return Subject(
            name,
            optimizer,
            hyper,
            int(held[STEP]) + 1 if STEP in held else 1 if STEP in after or not held else 2,
            chosen(self.gradient(name)),
            old,
            {key: np.asarray(chosen(value)) for key, value in state.items() if key in fields},
            Formats(computing, "float32" if computing in HALVES else None, storage if storage != computing else None),
            storage,
            {
                UPDATE: np.subtract(new, old, dtype=np.float64),
                **{key: chosen(value) for key, value in state_of(self.named, after).items()},
            },
        )

    def held(self, name: str) -> dict[str, Any]:
        """A parameter's state before, under the class's own names."""
        keys = self.update.state.get(name, [])
        return {
            key: self.recorded("before", key, name)
            for key in keys
            if f"u{self.number}:before:{key}:{name}" in self.tensors
        }

    def gradient(self, name: str) -> Any:
        """What the optimizer made its step of; a fused one takes the loss scale off by itself."""
        found = self.tensors[f"v{self.update.grads[name]}"]
        scale = self.update.given.get("grad_scale")
        if scale is not None:
            wide: Any = np.float64 if found.dtype == np.float64 else np.float32
            found = np.asarray(found.astype(wide) / wide(scale))
        return found

    def _glanced(self, group: Mapping[str, Any]) -> dict[str, list[Result]]:
        """The equations of parameters that hold where they are looked at: at some elements of a large one, at all of a small one."""
        alike: dict[Any, list[tuple[Subject, int]]] = {}
        if self.screening is None or self.update.given.get("found_inf"):
            return {}
        for name in group["params"]:
            try:
                subject, size = self._few(group, name)
            except (BackproofError, LookupError):
                continue  # it is spoken of where it is looked at as a whole
            if self._is_separate(subject):
                key = subject.count, subject.formats, subject.storage, *subject.state, *map(str, subject.hyper.values())
                alike.setdefault(key, []).append((subject, size))
        return {name: results for subjects in alike.values() for name, results in self._held(subjects)}

    def _few(self, group: Mapping[str, Any], name: str) -> tuple[Subject, int]:
        """A parameter, at some elements if it is large; and how large it is."""
        assert self.screening is not None  # or it is not asked for
        size = math.prod(self.tensors.shape(f"u{self.number}:before:parameter:{name}"))
        return self.narrow(group, name, self.screening.choose(size, SINGLE) if size > FULL else None), size

    def _is_separate(self, subject: Subject) -> bool:
        """Whether every element has an equation of its own, and all of them are there."""
        entries = f"i{self.update.grads[subject.name]}" in self.tensors
        whole = all(np.shape(held) == np.shape(subject.parameter) for held in subject.state.values())
        return subject.optimizer.elementwise and whole and not entries and subject.expected() <= set(subject.claimed)

    def _held(self, subjects: Sequence[tuple[Subject, int]]) -> Iterator[tuple[str, list[Result]]]:
        """Those of these parameters that are as the rule says, which is run for all of them at once."""
        assert self.screening is not None  # as above
        bounds = _bounds(_joined([subject for subject, _ in subjects]))
        begin = 0
        for subject, size in subjects:
            end = begin + subject.parameter.size
            found = {
                what: measured(np.ravel(claim), part_of(bounds[what], 0, begin, end)).judgement()
                for what, claim in subject.claimed.items()
                if what in bounds
            }
            begin = end
            if all(verdict.verdict == "holds" for verdict in found.values()):
                if size > FULL:
                    self.screening.sampled(SINGLE, size, len(found))
                yield subject.name, [*self._count(subject), *_results(subject, found)]

    def _parameter(self, group: Mapping[str, Any], name: str) -> Iterator[Result | NotChecked]:
        subject = self.narrow(group, name)
        rows = f"i{self.update.grads[name]}"
        results: list[Result | NotChecked] = list(self._count(subject))
        if self.named.record == "sparse_adam" and rows in self.tensors:
            subject, others = _rows(subject, np.unique(self.tensors[rows][0]))
            results.append(_exactly(name, "other rows", "rows changed that the gradient does not have", holds=others))
        if self.named.record == "sgd" and rows in self.tensors:
            results.extend(_entry_by_entry(subject, self.tensors[rows][0], self.tensors[f"a{self.update.grads[name]}"]))
        else:
            results.extend(_compared(subject))
        cause = ""
        if any(_is_broken(result) for result in results) and self.looked_for < MOST_NAMED:
            from backproof.verify.misstep import cause_of

            self.looked_for += 1
            cause = cause_of(subject.wide(), self, group)
        yield from (replace(result, cause=cause) if _is_broken(result) else result for result in results)

    def _count(self, subject: Subject) -> Iterator[Result]:
        """The count of a rule's steps goes up by one."""
        key = f"u{self.number}:after:{STEP}:{subject.name}"
        if key in self.tensors:
            after, held = float(self.tensors[key]), self.held(subject.name)
            before = float(held[STEP]) if STEP in held else subject.count - 1.0
            because = f"the step count goes from {before:g} to {after:g}"
            yield _exactly(subject.name, STEP, because, holds=after == before + 1, numbers=(after, before + 1))


def _is_broken(result: Result | NotChecked) -> TypeGuard[Result]:
    return isinstance(result, Result) and result.verdict == "broken"


def _exactly(name: str, what: str, because: str, *, holds: bool, numbers: Any = (0.0, 0.0)) -> Result:
    verdict, ratio = ("holds", 0.0) if holds else ("broken", np.inf)
    claimed, derived = (float(number) for number in numbers)
    found = Judgement(verdict, ratio, ratio, 0.0, claimed, derived, 0.0, ())
    equation = "update" if what == UPDATE else "state"
    return Result(equation, name, what, *found, because="" if holds else because, parameter=name)


def _rows(subject: Subject, rows: Any) -> tuple[Subject, bool]:
    """The rows that a sparse gradient has; and whether the others are as they were."""
    rows = rows.astype(np.int64)
    others = np.ones(subject.parameter.shape[0], dtype=np.bool_)
    others[rows] = False
    still = not np.any(subject.claimed[UPDATE][others])
    for key, value in subject.state.items():
        still = still and np.array_equal(value[others], subject.claimed[key][others])
    return (
        subject.having(
            gradient=subject.gradient[rows],
            parameter=subject.parameter[rows],
            state={key: value[rows] for key, value in subject.state.items()},
            claimed={key: np.asarray(value)[rows] for key, value in subject.claimed.items()},
        ),
        still,
    )


def _compared(subject: Subject) -> Iterator[Result | NotChecked]:
    """The update and the state. Of a rule for single elements, bounds are made only for those that are not near without them."""
    if subject.optimizer.elementwise and subject.expected() <= set(subject.claimed):
        found = _stretches(subject)
    else:
        found = {
            what: judged_as(subject.claimed[what], derived)
            for what, derived in subject.derived().items()
            if what in subject.claimed
        }
    yield from _results(subject, found)
    for what in sorted(subject.expected() - set(subject.claimed)):
        yield NotChecked(f"state {what} of {subject.name}", "what it was after the update was not recorded")


def _results(subject: Subject, found: Mapping[str, Judgement]) -> Iterator[Result]:
    for what, verdict in found.items():
        yield Result("update" if what == UPDATE else "state", subject.name, what, *verdict, parameter=subject.name)


def _stretches(subject: Subject) -> dict[str, Judgement]:
    """The verdict on each result, from a stretch of it at a time."""
    parts: dict[str, list[Measured]] = {}
    given = (subject.gradient, subject.parameter, subject.state, subject.hyper, subject.count, subject.formats)
    for part in screen(subject.optimizer, subject.claimed, *given):
        for what in part.values:
            value, certain, likely = part.bounded(what)
            claim = np.asarray(subject.claimed[what]).reshape(-1)
            single = value.size != part.size
            begin = 0 if single else part.stretch.start
            near = measured(claim if single else claim[part.stretch], Bound(value, certain, likely))
            parts.setdefault(what, []).append(near.moved(0, begin))
    shapes = {what: np.shape(subject.claimed[what]) for what in parts}
    return {what: together(found).shaped(shapes[what]).judgement() for what, found in parts.items()}


def _joined(subjects: Sequence[Subject]) -> Subject:
    """Several parameters under one rule as one; each element looks at itself alone."""

    def flat(name: str) -> Any:
        return np.concatenate([np.ravel(getattr(subject, name)) for subject in subjects])

    def each(name: str) -> dict[str, Any]:
        held = [getattr(subject, name) for subject in subjects]
        return {key: np.concatenate([np.ravel(one[key]) for one in held]) for key in held[0]}

    return subjects[0].having(
        gradient=flat("gradient"), parameter=flat("parameter"), state=each("state"), claimed=each("claimed")
    )


def _bounds(subject: Subject) -> dict[str, Bound]:
    """Each result of a rule for single elements, flat, with bounds that are enough for what is claimed."""
    given = (subject.gradient, subject.parameter, subject.state, subject.hyper, subject.count, subject.formats)
    parts = list(screen(subject.optimizer, subject.claimed, *given))

    def whole(what: str) -> Bound:
        value, certain, likely = zip(*(part.bounded(what) for part in parts), strict=True)
        return Bound(np.concatenate(value), np.concatenate(certain), np.concatenate(likely))

    return {what: whole(what) for what in parts[0].values}


def _entry_by_entry(subject: Subject, rows: Any, sizes: Any) -> Iterator[Result]:
    """A sparse gradient's entries are added to the parameter one after another; `sizes` has Σ|entries|."""
    times = np.bincount(rows.astype(np.int64), minlength=subject.parameter.shape[0])
    each = times.reshape(-1, *(1,) * (subject.parameter.ndim - 1))
    reach = abs(subject.parameter) + abs(float(subject.hyper["lr"])) * sizes.astype(np.float64)
    more = gamma(3 * each, FORMATS[subject.formats.computing].unit) * reach
    found = subject.derived()
    update = found[UPDATE]
    found[UPDATE] = replace(update, certain=update.certain + more, likely=update.likely + more)
    for what in found.keys() & subject.claimed.keys():
        verdict = judged_as(subject.claimed[what], found[what])
        yield Result("update" if what == UPDATE else "state", subject.name, what, *verdict, parameter=subject.name)


def judged_as(claimed: Any, derived: Derived) -> Judgement:
    """A claim against what was derived for it."""
    bound = Bound(derived.value, derived.certain, derived.likely)
    return judged(np.asarray(claimed, dtype=np.float64).reshape(derived.value.shape), bound)


def plain(group: Mapping[str, Any]) -> dict[str, Any]:
    """A param_group as it was: tuples and numbers out of their JSON."""
    return {key: _number(value) for key, value in group.items() if key != "params"}


def _number(value: Any) -> Any:
    if isinstance(value, dict) and "tuple" in value:
        return tuple(_number(item) for item in value["tuple"])
    if isinstance(value, dict) and "float" in value:
        return float(value["float"])
    return value

"""The differential: every number that a framework claims, beside the one that the engine derives from its leaves.

A number agrees if it lies within the bound that rounding implies: the radius that nine digits and the framework's own
format leave, carried through the step; within the declared tolerance only where there is no such bound. So an update that
is small beside the tolerance is still compared, and a missing or an extra number is a disagreement like a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.adapters.classic.claims import Plan, named
from backproof.engine.scalar import Layer, Step
from backproof.receipt.columns import Path
from backproof.rules.ball import BALLS, FLOAT32, FLOAT64, Ball, Reals, nine_digit_radius
from backproof.rules.observed import rounded_terms, roundings

Places = NDArray[np.intp]
Product = tuple[Places, tuple[Places, ...], Places, tuple[str, ...]]
OUTPUTS = (("targets",), ("forward", "net"), ("forward", "out"))  # what the signals of the outputs come from
OPTIONAL = ("post_update_forward", "post_update_loss")  # blocks that the engine fills in where they are absent


@dataclass(frozen=True)
class Tolerance:
    """How far a number may lie from the derived one: the larger of atol and rtol times the larger magnitude."""

    atol: float = 1e-6
    rtol: float = 1e-4


@dataclass(frozen=True)
class Disagreement:
    """One number of a sidecar that is not the derived one; NaN where one of them does not exist."""

    path: str
    delta: float
    tolerance: float
    stored: float
    recomputed: float

    def as_json(self) -> dict[str, Any]:
        """The entry of the JSON envelopes."""
        return {
            "fieldPath": self.path,
            "delta": self.delta,
            "appliedTolerance": self.tolerance,
            "stored": self.stored,
            "recomputed": self.recomputed,
        }


@dataclass(frozen=True, eq=False)
class Expected:
    """The places of derived numbers for one shape, in the order of `Plan.derived`."""

    plan: Plan

    @cached_property
    def places(self) -> tuple[Path, ...]:
        """Every place, group after group."""
        return tuple(path for group in self.plan.derived for path in group)

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """Their columns; -1 where the sidecar has none."""
        return self.plan.columns(*self.places)

    @cached_property
    def absent(self) -> tuple[int, ...]:
        """Derived numbers that a sidecar must have and this shape has not."""
        shape = self.plan.shape
        return tuple(
            k
            for k, path in enumerate(self.places)
            if self.columns[k] < 0 and not (path[0] in OPTIONAL and shape.get(path[0]) is None)
        )

    @cached_property
    def ghosts(self) -> tuple[int, ...]:
        """Columns that nothing gives and nothing derives: units, parameters, updates that the network has not."""
        known = {*self.plan.given, *self.places}
        return tuple(column for column, path in enumerate(self.plan.shape.paths) if path not in known)

    @cached_property
    def moved(self) -> NDArray[np.intp]:
        """For each place of an update, the column of the parameter after it, whose rounding it shows; -1 elsewhere."""
        found = np.full(len(self.places), -1, dtype=np.intp)
        for k, path in enumerate(self.places):
            if path[0] == "updates" and path[-1] == "update":
                found[k] = self.plan.shape.column("updates", path[1], "weight_after")
        return found

    @cached_property
    def judged(self) -> tuple[NDArray[np.intp], NDArray[np.intp], tuple[str, ...]]:
        """Which derived numbers the sidecar has, the columns where it has them, and their names."""
        present = np.flatnonzero(self.columns >= 0)
        return present, self.columns[present], tuple(named(self.plan, self.places[k]) for k in present)

    @cached_property
    def copies(self) -> tuple[NDArray[np.intp], NDArray[np.intp], tuple[str, ...]]:
        """The columns of copies and of their originals, and the copies' names."""
        pairs = [(a, b) for a, b in self.plan.copies if min(self.plan.columns(a, b)) >= 0]
        copies, originals = (self.plan.columns(*(pair[which] for pair in pairs)) for which in (0, 1))
        return copies, originals, tuple(named(self.plan, copy) for copy, _ in pairs)

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """Products of as many factors: their columns, those of each factor, which output's signal it is, their names."""
        groups = []
        outputs = self.plan.topology.units["output"]
        signals: dict[Path, int] = {
            ("backward", "output_error_signals", unit, "signal_value"): i for i, unit in enumerate(outputs)
        }
        for count in sorted({len(factors) for _, factors in self.plan.products} - {0}):
            chosen = [(path, factors) for path, factors in self.plan.products if len(factors) == count]
            factors = tuple(self.plan.columns(*(each[j] for _, each in chosen)) for j in range(count))
            said = self.plan.columns(*(path for path, _ in chosen))
            units = np.array([signals.get(path, -1) for path, _ in chosen], dtype=np.intp)
            groups.append((said, factors, units, tuple(named(self.plan, path) for path, _ in chosen)))
        return tuple(groups)

    @cached_property
    def mislabelled(self) -> tuple[str, ...]:
        """Places whose labels do not belong to the step."""
        return tuple(_labels(self.plan))


def unit_of(plan: Plan, numbers: Reals) -> float:
    """The unit roundoff of the framework's format, read from the numbers: float32 parameters are float32 numbers."""
    held = plan.columns(
        *((root, n) for root in ("parameters_before", "parameters_after") for n in plan.topology.parameter_order)
    )
    values = numbers[:, held[held >= 0]]
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite there, and no float32 number
        return FLOAT32 if bool((values == values.astype(np.float32)).all()) else FLOAT64


def compare(
    expected: Expected, numbers: Reals, unit: float, derived: Reals, tolerance: Tolerance
) -> list[list[Disagreement]]:
    """For each record of a block, where it disagrees; `derived` has the numbers of `expected.places`."""
    plan = expected.plan
    radii = nine_digit_radius(numbers)
    with np.errstate(all="ignore"):
        balls = plan.run(BALLS, lambda at: Ball(numbers[:, at], radii[:, at], unit))
        bound = np.concatenate([ball.rad for ball in plan.values(balls, BALLS.join)], axis=1)
        after = np.where(expected.moved >= 0, np.abs(numbers[:, expected.moved]), 0.0)
        bound = bound + (roundings(plan.name) * unit) * after
    found: list[list[Disagreement]] = [[] for _ in numbers]
    present, said, names = expected.judged
    _judge(found, names, numbers[:, said], derived[:, present], bound[:, present] + radii[:, said], tolerance)
    copies, originals, names = expected.copies
    bound = radii[:, copies] + radii[:, originals]
    _judge(found, names, numbers[:, copies], numbers[:, originals], bound, tolerance)
    for said, factors, units, names in expected.products:
        with np.errstate(all="ignore"):
            product = observed_product(plan, factors, units, lambda at: Ball(numbers[:, at], radii[:, at], unit))
        _judge(found, names, numbers[:, said], product.mid, product.rad + radii[:, said], tolerance)
    for k in expected.absent:
        for row, entries in enumerate(found):
            value = float(derived[row, k])
            entries.append(Disagreement(named(plan, expected.places[k]), math.nan, tolerance.atol, math.nan, value))
    for column in expected.ghosts:
        for row, entries in enumerate(found):
            place = named(plan, plan.shape.paths[column])
            entries.append(Disagreement(place, math.nan, tolerance.atol, float(numbers[row, column]), math.nan))
    for label in expected.mislabelled:
        for entries in found:
            entries.append(Disagreement(label, math.nan, tolerance.atol, math.nan, math.nan))
    return found


def observed_product(plan: Plan, factors: tuple[Places, ...], units: Places, take: Callable[[Places], Ball]) -> Ball:
    """Factors multiplied; the first of an output's signal is a difference of two numbers that a framework had rounded."""
    first = take(factors[0])
    known = np.flatnonzero(units >= 0)
    if known.size:
        targets, nets, outs = (take(plan.of_outputs(*at)) for at in OUTPUTS)
        sizes = [targets, outs]
        if plan.topology.loss == "cross_entropy_softmax":
            sizes.append(outs * rounded_terms(Layer(nets, outs)))
        first = BALLS.put(first, known, first[:, known].widened(*(size[:, units[known]] for size in sizes)))
    product = 1.0 * first
    for at in factors[1:]:
        product = product * take(at)
    return product


def _judge(
    found: list[list[Disagreement]],
    names: tuple[str, ...],
    stored: Reals,
    derived: Reals,
    bound: Reals,
    tolerance: Tolerance,
) -> None:
    with np.errstate(all="ignore"):
        delta = np.abs(stored - derived)
        limit = np.maximum(tolerance.atol, tolerance.rtol * np.maximum(np.abs(stored), np.abs(derived)))
        limit = np.where(np.isfinite(bound), bound, limit)
        wrong = ~(delta <= limit)
    for row, k in zip(*wrong.nonzero(), strict=True):
        values = (float(array[row, k]) for array in (delta, limit, stored, derived))
        found[row].append(Disagreement(names[k], *values))


def _labels(plan: Plan) -> Iterator[str]:
    """Places whose labels do not belong to the step: an update twice, another optimizer, a flow from elsewhere."""
    seen: set[str] = set()
    for entry in plan.shape.many("updates"):
        name = entry["parameter_id"]
        if name in seen:
            yield f"updates[{name}]"
        seen.add(name)
        if name in plan.updated and entry["optimizer"]["name"] != plan.name:
            yield f"updates[{name}].optimizer.name"
        parameter = plan.topology.by_id.get(name)
        if parameter is not None and parameter.is_bias != (entry["kind"] == "bias"):
            yield f"updates[{name}].kind"
    for unit, signal in plan.shape.mapping("backward", "hidden_error_signals").items():
        for j, flow in enumerate(signal["downstream_contributions"]):
            if flow["via_weight"] != plan.topology.edges.get((unit, flow["from"])):
                yield f"backward.hidden_error_signals.{unit}.downstream_contributions[{j}].via_weight"


def derived_numbers(plan: Plan, step: Step) -> Reals:
    """What the engine derives, side by side, in the order of `Plan.derived`."""
    return np.concatenate(list(plan.values(step, lambda parts: np.concatenate(parts, axis=-1))), axis=1)

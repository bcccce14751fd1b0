"""The differential: every number that a framework claims, beside the one that the engine derives from its leaves.

A number agrees if it lies within the declared tolerance *and* within the bound that rounding implies: the radius that
nine digits and the framework's own format leave, carried through the step. So an update that is small beside the
tolerance is still compared, and a missing or an extra number is a disagreement like a wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backproof.adapters.classic.claims import Plan, named
from backproof.engine.scalar import Step
from backproof.receipt.columns import Columns, Path
from backproof.rules.ball import BALLS, FLOAT32, FLOAT64, SLACK, Ball, Reals, nine_digit_radius

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
    def widened(self) -> NDArray[np.intp]:
        """For each place, the column of the parameter whose own rounding it shows; -1 for none."""
        found = np.full(len(self.places), -1, dtype=np.intp)
        for k, path in enumerate(self.places):
            if path[0] == "updates" and path[-1] in {"update", "weight_after"}:
                found[k] = self.plan.shape.column("updates", path[1], "weight_before")
            elif path[0] == "parameters_after":
                found[k] = self.plan.shape.column("parameters_before", path[1])
        return found

    @cached_property
    def rounded_places(self) -> tuple[tuple[Path, ...], tuple[Path, ...], tuple[tuple[Path, ...], ...]]:
        """Copies, their originals, and the factors of products."""
        return (
            tuple(a for a, _ in self.plan.copies),
            tuple(b for _, b in self.plan.copies),
            tuple(f for _, f in self.plan.products),
        )


def unit_of(plan: Plan, numbers: Reals) -> float:
    """The unit roundoff of the framework's format, read from the numbers: float32 parameters are float32 numbers."""
    held = plan.columns(
        *((root, n) for root in ("parameters_before", "parameters_after") for n in plan.topology.parameter_order)
    )
    values = numbers[:, held[held >= 0]]
    return FLOAT32 if bool((values == values.astype(np.float32)).all()) else FLOAT64


def compare(expected: Expected, columns: Columns, derived: Reals, tolerance: Tolerance) -> list[list[Disagreement]]:
    """For each record of a block, where it disagrees; `derived` has the numbers of `expected.places`."""
    plan, numbers = expected.plan, columns.numbers
    unit = unit_of(plan, numbers)
    radii = nine_digit_radius(numbers)
    with np.errstate(all="ignore"):
        balls = plan.run(BALLS, lambda at: Ball(numbers[:, at], radii[:, at], unit))
        bound = np.concatenate([ball.rad for ball in plan.values(balls, BALLS.join)], axis=1)
        shown = np.where(expected.widened >= 0, np.abs(numbers[:, expected.widened]), 0.0)
        bound = bound + (SLACK * unit if unit != FLOAT64 else 2.0 * FLOAT64) * 2.0 * shown
    found: list[list[Disagreement]] = [[] for _ in range(columns.size)]
    present = np.flatnonzero(expected.columns >= 0)
    said = expected.columns[present]
    names = [named(plan, expected.places[k]) for k in present]
    _judge(found, names, numbers[:, said], derived[:, present], bound[:, present] + radii[:, said], tolerance)
    _judge_copies(found, expected, numbers, radii, tolerance)
    _judge_products(found, expected, numbers, radii, unit, tolerance)
    for k in expected.absent:
        for row, entries in enumerate(found):
            value = float(derived[row, k])
            entries.append(Disagreement(named(plan, expected.places[k]), math.nan, tolerance.atol, math.nan, value))
    for column in expected.ghosts:
        for row, entries in enumerate(found):
            place = named(plan, plan.shape.paths[column])
            entries.append(Disagreement(place, math.nan, tolerance.atol, float(numbers[row, column]), math.nan))
    for label in _labels(plan):
        for entries in found:
            entries.append(Disagreement(label, math.nan, tolerance.atol, math.nan, math.nan))
    return found


def _judge(
    found: list[list[Disagreement]], names: list[str], stored: Reals, derived: Reals, bound: Reals, tolerance: Tolerance
) -> None:
    with np.errstate(all="ignore"):
        delta = np.abs(stored - derived)
        limit = np.maximum(tolerance.atol, tolerance.rtol * np.maximum(np.abs(stored), np.abs(derived)))
        limit = np.minimum(limit, np.where(np.isfinite(bound), bound, np.inf))
        wrong = ~(delta <= limit)
    for row, k in zip(*wrong.nonzero(), strict=True):
        values = (float(array[row, k]) for array in (delta, limit, stored, derived))
        found[row].append(Disagreement(names[k], *values))


def _judge_copies(
    found: list[list[Disagreement]], expected: Expected, numbers: Reals, radii: Reals, tolerance: Tolerance
) -> None:
    copies = plan_columns(expected, 0)
    originals = plan_columns(expected, 1)
    keep = (copies >= 0) & (originals >= 0)
    names = [named(expected.plan, path) for path, kept in zip(expected.rounded_places[0], keep, strict=True) if kept]
    copies, originals = copies[keep], originals[keep]
    _judge(found, names, numbers[:, copies], numbers[:, originals], radii[:, copies] + radii[:, originals], tolerance)


def plan_columns(expected: Expected, which: int) -> NDArray[np.intp]:
    """The columns of copies (0) or of their originals (1)."""
    return expected.plan.columns(*(pair[which] for pair in expected.plan.copies))


def _judge_products(
    found: list[list[Disagreement]], expected: Expected, numbers: Reals, radii: Reals, unit: float, tolerance: Tolerance
) -> None:
    plan = expected.plan
    for count in sorted({len(factors) for _, factors in plan.products}):
        chosen = [(path, factors) for path, factors in plan.products if len(factors) == count]
        said = plan.columns(*(path for path, _ in chosen))
        product: Ball | float = 1.0
        for j in range(count):
            at = plan.columns(*(factors[j] for _, factors in chosen))
            product = Ball(numbers[:, at], radii[:, at], unit) * product
        if isinstance(product, Ball) and said.size:
            names = [named(plan, path) for path, _ in chosen]
            _judge(found, names, numbers[:, said], product.mid, product.rad + radii[:, said], tolerance)


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

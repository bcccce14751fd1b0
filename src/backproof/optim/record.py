"""What an optimizer is: one frozen record with its rule, its variant, its numbers, its state and one step.

The letters of every rule: p the parameter, g its gradient, t the number of this step (from 1), η the learning rate, λ the weight decay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backproof.errors import InputError, UsageError
from backproof.ir.build import Ref
from backproof.ir.types import Shape

Numbers = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Hyper:
    """A number, flag or choice that the rule takes: its default, and what it may be."""

    name: str
    default: Any
    says: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[Any, ...] = ()
    optional: bool = False
    """Whether it may be None."""

    def refusal(self, given: Any) -> str:
        """Why this value cannot be; empty when it can."""
        if given is None and self.optional:
            return ""
        if self.choices:
            return "" if given in self.choices else f"must be one of {', '.join(map(repr, self.choices))}"
        if isinstance(self.default, bool):
            return "" if isinstance(given, bool) else "must be true or false"
        if isinstance(self.default, tuple):
            return (
                ""
                if isinstance(given, (tuple, list)) and len(given) == len(self.default)
                else "must be as many numbers"
            )
        if isinstance(given, bool) or not isinstance(given, (int, float)):
            return "must be a number"
        return "" if self.low <= given <= self.high else f"must be from {self.low} to {self.high}"


def flag(name: str, says: str, *, default: bool = False) -> Hyper:
    """A yes or no."""
    return Hyper(name, default, says)


def whole(shape: Shape) -> Shape:
    """State in the shape of the parameter."""
    return shape


def single(shape: Shape) -> Shape:
    """State that is one number."""
    return ()


def always(hyper: Numbers, shape: Shape) -> bool:
    """State that is kept whatever the settings."""
    return True


@dataclass(frozen=True, slots=True)
class Field:
    """One tensor of state, kept from step to step."""

    name: str
    says: str
    shape: Callable[[Shape], Shape] = whole
    start: float | str | None = 0.0
    """Its value before the first step: a number, the name of a hyper-parameter, or None: it is not there yet."""
    kept: Callable[[Numbers, Shape], bool] = always
    """Whether these settings, and a parameter of this shape, have it at all."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step makes of a parameter."""

    update: Ref
    """New parameter − old, as the mathematics has it: no digit is lost to the size of the parameter."""
    parameter: Ref
    """The new parameter, in the order of roundings of real implementations: its bound is the update's."""
    state: dict[str, Ref]


Rule = Callable[[Ref, Ref, Mapping[str, Ref], Numbers, int], Step]


@dataclass(frozen=True)
class Optimizer:
    """An optimizer: `step(gradient, parameter, state, hyper, t)` adds its formula to the graph of its arguments."""

    name: str
    says: str
    """The rule, in one line."""
    paper: str
    step: Rule
    hyper: tuple[Hyper, ...]
    fields: tuple[Field, ...] = ()
    notes: tuple[str, ...] = ()
    """Which of the variants in use this is: where ε stands, how and when decay acts."""
    elementwise: bool = True
    """Whether no element of a parameter looks at another."""
    rank: int | None = None
    """The only rank of parameters that it takes."""
    defaults: dict[str, Any] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "defaults", {each.name: each.default for each in self.hyper})

    def settings(self, given: Numbers) -> dict[str, Any]:
        """Every hyper-parameter, defaults filled in; unknown names and impossible values are refused."""
        unknown = [name for name in given if name not in self.defaults]
        if unknown:
            raise UsageError(f"{self.name} has no {', '.join(unknown)}; it takes {', '.join(self.defaults)}")
        found = {**self.defaults, **given}
        for each in self.hyper:
            reason = each.refusal(found[each.name])
            if reason:
                raise InputError(f"{self.name}: {each.name} is {found[each.name]!r}, and {reason}")
        return found

    def state_fields(self, hyper: Numbers, shape: Shape) -> tuple[Field, ...]:
        """The state that these settings keep for a parameter of this shape."""
        return tuple(each for each in self.fields if each.kept(hyper, shape))

"""A recorded training step as data: the calls that were made, the values they read and wrote, and what became of the parameters.

A value is a tensor at one moment; a tensor that is changed in place is another value afterwards. Everything here is a claim of the
recorder; `verify` derives each equation again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from backproof.errors import InputError
from backproof.trace.handling import Moment, Scheduled
from backproof.trace.typed import built, fitted

FORMAT = "backproof.step.v1"


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor at one moment. Its numbers are under `v<id>`, its gradient, if one was seen, under `gradient_key`."""

    id: int
    dtype: str
    shape: tuple[int, ...]
    name: str = ""
    """A parameter's or buffer's name; empty for what was computed."""
    origin: str = ""
    """parameter, buffer, input (there before the step), source (made from nothing), call, gradient (of a parameter, as moments leave it),
    or unseen (nothing tells what made it)."""
    inner: bool = False
    """Its gradient cannot be seen from outside, and is derived from those of the values that were made from it."""
    shares: int | None = None
    """The value with which it shares one gradient: the framework takes the two for one, as it was not told of a change."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a framework's function, with values as {"value": id}."""

    op: str
    args: list[Any]
    kwargs: dict[str, Any]
    outputs: tuple[int, ...]
    place: str = ""
    """The module in whose forward it was made."""
    grad: bool = True
    """Whether the framework was recording for a backward pass."""
    autocast: str = ""
    """The lower format that was in force, if any."""
    region: int | None = None
    """The region that it is a part of."""

    @property
    def given(self) -> list[Any]:
        """All arguments, by place and by name (one may have the name that marks a value: `value`)."""
        return [*self.args, *self.kwargs.values()]


@dataclass(frozen=True, slots=True)
class Region:
    """Calls that the framework differentiates as one. What it gave back for an input is under `contribution_key`."""

    kind: str
    """function (with a backward of its own), backward hooks (of a module), checkpoint, claim, compiled, or call (one that is not known
    here)."""
    name: str
    place: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intended: bool = False
    """Its backward is meant to be another than the derivative of its forward."""
    why: str = ""
    """Why its inside is not known; empty where it is."""


@dataclass(frozen=True, slots=True)
class Backward:
    """One backward pass: from which values, with what seeds (None: one), after how many calls."""

    value: int
    seed: int | None
    after: int
    passing: int = 0
    """The number of the pass. A pass may begin at several values."""
    handed_out: list[list[int]] = field(default_factory=list)
    """Where gradients were asked for and not added to any `.grad`: [value, the value that its gradient was given back as]. Of a pass
    that begins at several values, the first has them."""


def gradient_key(value: int, passing: int = 0) -> str:
    """The tensor that holds a value's gradient in one backward pass."""
    return f"g{value}.{passing}" if passing else f"g{value}"


def handed_key(value: int, passing: int = 0) -> str:
    """The tensor that holds a value's gradient after the user's hooks, where these changed it."""
    return f"h{value}.{passing}"


def contribution_key(region: int, value: int, passing: int = 0) -> str:
    """The tensor that holds what a region's backward gave to one of its inputs."""
    return f"c{region}:{value}.{passing}"


@dataclass(frozen=True, slots=True)
class Update:
    """One optimizer's step: its configuration, and each parameter's place in it. Numbers are under `u<k>:<when>:<what>:<name>`."""

    optimizer: str
    groups: list[dict[str, Any]]
    state: dict[str, list[str]]
    """parameter → the names of its state tensors."""
    grads: dict[str, int | None] = field(default_factory=dict)
    """parameter → the value that its gradient was."""
    which: int = 0
    """Which of the run's optimizers."""
    before: int = 0
    """How many updates it had made before this one, since recording began."""
    given: dict[str, Any] = field(default_factory=dict)
    """What a loss scaler told it: grad_scale, found_inf."""
    claimed: str = ""
    """The class whose rule it is claimed to follow, where that is not its own."""


class Unseen(TypedDict):
    """A value that something made which no call shows."""

    value: int
    by: str
    reads: list[int]


class Altered(TypedDict):
    """A value that had changed, unseen, when the backward pass came to a value that was made from it."""

    value: int
    by: int | None
    saved: bool


class Facts(TypedDict, total=False):
    """What practices look at."""

    training: bool
    evaluating: list[str]
    """Modules in eval mode, of a model in training mode."""
    idle: list[str]
    """Modules whose dropout did nothing."""
    trainable: list[str]
    owned: list[str]
    """Parameters that an optimizer has."""
    padding: list[list[int]]
    """Tokens that are padding, each with the number of classes among which it is one."""
    world: int
    rank: int
    wrapped: str
    """The class of a data-parallel wrapper, and how often it and what is in it were called."""
    wrapped_calls: int
    inner_calls: int
    rates: dict[str, list[float]]
    """By optimizer: the rates of its groups when the step begins."""
    intended: list[str]
    """Practices that are declared to be meant."""
    granularity: str
    every: int
    fresh: bool
    """No optimizer had any state, and none has made a step."""
    resumed: bool


@dataclass(frozen=True, slots=True)
class Step:
    """All of one step."""

    index: int
    framework: str
    values: dict[int, Value]
    calls: list[Call]
    backwards: list[Backward]
    updates: list[Update]
    unseen: list[dict[str, Any]] = field(default_factory=list)
    """As `Unseen` says."""
    regions: list[Region] = field(default_factory=list)
    altered: list[dict[str, Any]] = field(default_factory=list)
    """As `Altered` says. Their own numbers are then not recorded."""
    moments: list[Moment] = field(default_factory=list)
    """What became of gradients, in order."""
    scheduled: list[Scheduled] = field(default_factory=list)
    """Every step that a scheduler made since the step recorded before this one."""
    facts: dict[str, Any] = field(default_factory=dict)
    """As `Facts` says."""

    @property
    def passes(self) -> int:
        """How many backward passes there were."""
        return 1 + max((backward.passing for backward in self.backwards), default=0)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"format": FORMAT, **asdict(self), "values": [asdict(value) for value in self.values.values()]}

    @classmethod
    def from_json(cls, data: Any, place: str) -> Step:
        """What `to_json` gave; anything else is refused, with the place of what does not belong there."""
        said = data.get("format") if isinstance(data, dict) else None
        if said != FORMAT:
            raise InputError(f"{place}: format: said {str(said)[:60]!r}; this version reads {FORMAT!r}")
        given = {key: value for key, value in data.items() if key not in ("format", "values")}
        values = fitted(list[Value], data.get("values"), f"{place}: values")
        found = built(cls, {**given, "values": {}}, f"{place}: step")
        fitted(Facts, found.facts, f"{place}: facts")
        fitted(list[Unseen], found.unseen, f"{place}: unseen")
        fitted(list[Altered], found.altered, f"{place}: altered")
        found.values.update((value.id, value) for value in values)
        if len(found.values) < len(values):
            raise InputError(
                f"{place}: values: {len(values) - len(found.values)} of them have a number that another has"
            )
        return found

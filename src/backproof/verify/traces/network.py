"""The network that two traces are of: the order of its probes, who reads whom, and what each tensor was made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from backproof.trace.event import Place
from backproof.trace.manifest import Manifest, Probe
from backproof.trace.phases import INPUT, LABEL, LOSS, PHASES


@dataclass(frozen=True)
class Network:
    """Probes in order. Where parents are not told, each is taken to read the one before it, and `guessed` says so."""

    probes: tuple[Probe, ...]
    guessed: bool = False
    ordered: bool = True
    """Whether the order is told; else names are in their natural order."""
    rank: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", {probe.name: i for i, probe in enumerate(self.probes)})

    @cached_property
    def by_name(self) -> dict[str, Probe]:
        """The probes by name."""
        return {probe.name: probe for probe in self.probes}

    @cached_property
    def children(self) -> dict[str, tuple[str, ...]]:
        """probe → who reads it, and leads to the loss."""
        found: dict[str, list[str]] = {}
        towards: set[str] = set()
        ends = (
            LOSS if self.parents(LOSS) else None
        )  # where the loss is not told, whatever nobody reads is taken to lead there
        for probe in reversed(self.probes):
            if probe.name == ends or (ends is None and probe.name not in found) or probe.name in towards:
                towards.update(probe.parents)
                for parent in dict.fromkeys(probe.parents):
                    found.setdefault(parent, []).insert(0, probe.name)
        return {name: tuple(children) for name, children in found.items()}

    def parents(self, probe: str) -> tuple[str, ...]:
        """Whom a probe reads."""
        return self.by_name[probe].parents if probe in self.by_name else ()

    @cached_property
    def above(self) -> dict[str, frozenset[str]]:
        """probe → all that it is made from, itself included: whom its gradient reaches."""
        found: dict[str, frozenset[str]] = {}
        for probe in self.probes:
            found[probe.name] = frozenset({probe.name}).union(*(found.get(one, {one}) for one in probe.parents))
        return found

    def causal(self, place: Place) -> tuple[int, int, int, str]:
        """The order in which things come to be: what was given, forward, backward from the end, gradients, scaling, updates."""
        phase = PHASES[place.phase]
        position = self.rank.get(place.probe, -1 if place.probe in (INPUT, LABEL) else len(self.rank))
        known = self.by_name.get(place.probe)
        names = known.parameters if known else ()
        first = place.parameter.split(".")[0]
        within = names.index(first) if first in names else WEIGHT_FIRST.get(first, 9)
        sample = -1 if place.sample is None else place.sample
        return (
            phase.tier,
            -position if phase.backward else position,
            (within << 32) + sample + 1,
            place.parameter,
        )


WEIGHT_FIRST = {"weight": 0, "bias": 1}


def network_of(told: Iterable[Manifest | None], order: tuple[str, ...], seen: Iterable[str]) -> Network:
    """The first of these that tells its probes; else a chain in the order given; else in the natural order of names."""
    strangers = set(seen)
    for manifest in told:
        if manifest is not None and any(probe.parents for probe in manifest.probes):
            return Network(_with(manifest.probes, strangers))
    for manifest in told:
        if manifest is not None and manifest.probes and not order:
            order = tuple(probe.name for probe in manifest.probes)
    if order:
        rest = sorted(strangers - {*order, INPUT, LABEL, LOSS}, key=_natural)
        return Network(_chain((*order, *rest), LOSS in strangers and LOSS not in order), guessed=True)
    names = sorted(strangers - {INPUT, LABEL, LOSS}, key=_natural)
    return Network(_chain(tuple(names), LOSS in strangers), guessed=True, ordered=False)


def _with(probes: tuple[Probe, ...], strangers: set[str]) -> tuple[Probe, ...]:
    known = {probe.name for probe in probes} | {INPUT, LABEL}
    return (*probes, *(Probe(name) for name in sorted(strangers - known, key=_natural)))


def _chain(names: tuple[str, ...], loss: bool) -> tuple[Probe, ...]:
    names = tuple(name for name in names if name not in (INPUT, LABEL))
    full = (*names, LOSS) if loss else names
    return tuple(Probe(name, (full[i - 1],) if i else (INPUT,)) for i, name in enumerate(full))


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def called(name: str) -> str:
    """The layer of a call: `name#2` is the second call of `name`, with the same parameters."""
    return re.sub(r"#[0-9]+$", "", name)


@dataclass(frozen=True)
class Origins:
    """What a tensor was made from, of what there is: the tensors that, if they agree, leave no other cause than the layer itself."""

    network: Network
    there: dict[str, list[Place]]
    """probe → what there is of it."""

    def of(self, place: Place) -> Iterator[Place]:
        """What one tensor was made from."""
        rule = MADE_FROM.get(place.phase)
        return rule(self, place) if rule else iter(())

    def parameters(self, probe: str, phase: str, start: str = "") -> Iterator[Place]:
        """The parameters, or their state, of a probe."""
        return (
            one for one in self.there.get(called(probe), ()) if one.phase == phase and one.parameter.startswith(start)
        )


def _forward(origins: Origins, place: Place) -> Iterator[Place]:
    for parent in origins.network.parents(place.probe):
        yield Place(parent, "fwd", sample=place.sample)
        if place.sample is None:  # of the whole batch, as a mean loss is, where the samples were recorded one by one
            yield from (one for one in origins.there.get(parent, ()) if one.phase == "fwd")
    yield from origins.parameters(place.probe, "w_before")


def _backward(origins: Origins, place: Place) -> Iterator[Place]:
    for child in origins.network.children.get(place.probe, ()):
        yield Place(child, "lossgrad" if child == LOSS else "agrad", sample=place.sample)
        yield from _forward(origins, Place(child, "fwd", sample=place.sample))


def _gradient(origins: Origins, place: Place) -> Iterator[Place]:
    for name in origins.there:
        for one in origins.there[name] if called(name) == place.probe else ():
            if one.phase == "agrad":
                yield one
                yield from _forward(origins, Place(name, "fwd", sample=one.sample))


def _scaled(origins: Origins, place: Place) -> Iterator[Place]:
    yield Place(place.probe, "grad_raw", place.parameter)


def _update(origins: Origins, place: Place) -> Iterator[Place]:
    yield Place(place.probe, "grad_scaled", place.parameter)
    yield Place(place.probe, "w_before", place.parameter)
    yield from origins.parameters(place.probe, "opt_before", f"{place.parameter}.")


def _state(origins: Origins, place: Place) -> Iterator[Place]:
    parameter = place.parameter.rpartition(".")[0]
    yield Place(place.probe, "grad_scaled", parameter)
    yield Place(place.probe, "w_before", parameter)
    yield Place(place.probe, "opt_before", place.parameter)


MADE_FROM: dict[str, Callable[[Origins, Place], Iterator[Place]]] = {
    "fwd": _forward,
    "lossgrad": _forward,
    "agrad": _backward,
    "grad_raw": _gradient,
    "grad_scaled": _scaled,
    "opt_after": _state,
    "w_after": _update,
}

"""A step as a picture: every unit and weight with its numbers, and what does not hold. `drawing` and `panels` show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from backproof.receipt.topology import Topology
from backproof.receipt.topology_reading import topology_of
from backproof.verify.verdict import Finding, Verdict

SIZE = 6  # significant digits of a number beside others; what is wrong is told with more


class Unit(NamedTuple):
    """A unit: its place (layer, and row within it), what is recorded of it, and what of that is wrong."""

    name: str
    layer: int
    row: int
    numbers: tuple[tuple[str, str], ...]  # a label, a number
    wrong: tuple[Finding, ...]


class Edge(NamedTuple):
    """A weight: the units that it joins, its value before and after, and the factors of its gradient."""

    name: str
    start: Unit
    end: Unit
    before: str
    after: str
    factors: tuple[tuple[str, str], ...]  # a name, a number
    gradient: str
    update: float
    wrong: tuple[Finding, ...]


class Picture(NamedTuple):
    """The layers by name, their units, the weights between them, and the causes with what follows from each."""

    layers: tuple[str, ...]
    units: tuple[Unit, ...]
    edges: tuple[Edge, ...]
    causes: tuple[tuple[Finding, tuple[Finding, ...]], ...]
    facts: tuple[tuple[str, str], ...]  # of the step as a whole

    def of_layer(self, layer: int) -> list[Unit]:
        """The units of a layer, from above."""
        return [unit for unit in self.units if unit.layer == layer]

    def into(self, unit: Unit) -> list[Edge]:
        """The weights that lead into a unit."""
        return [edge for edge in self.edges if edge.end is unit]


def picture_of(document: Mapping[str, Any], verdict: Verdict, record: int = 0) -> Picture:
    """The picture of one record of a verdict."""
    topology = topology_of(document)
    findings = [finding for finding in verdict.findings if finding.record == record]
    place = _update_places(document)
    units = {unit.name: unit for unit in _units(document, topology, findings, place)}
    edges = tuple(_edges(document, topology, units, findings))
    causes = tuple((cause, tuple(folded)) for cause, folded in verdict.causes if cause.record == record)
    layers = tuple(_layer_names(document, topology))
    return Picture(layers, tuple(units.values()), edges, causes, tuple(_facts(document)))


def _layer_names(document: Mapping[str, Any], topology: Topology) -> Iterator[str]:
    said = document.get("topology")
    network = said if isinstance(said, Mapping) else {}
    last = len(topology.layers) - 1
    for k, layer in enumerate(topology.layers):
        key = "activation_output" if k == last else "activation_hidden"
        activation = network.get(key, network.get("activation")) if k > 0 else None
        several = network.get("activations")
        if k and isinstance(several, list) and k <= len(several):
            activation = several[k - 1]
        yield f"{layer} · {activation}" if isinstance(activation, str) else str(layer)


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    updates = document.get("updates")
    first = updates[0] if isinstance(updates, list) and updates and isinstance(updates[0], Mapping) else {}
    yield "loss", f"{_number(document, 'loss', 'total')} → {_number(document, 'post_update_loss', 'total')}"
    yield "optimizer", str(_found(document, "optimizer_config", "name") or _found(first, "optimizer", "name") or "sgd")
    yield "learning rate", _number(document, "learning_rate")
    yield "version", _shown(document.get("schema_version"))


def _units(
    document: Mapping[str, Any], topology: Topology, findings: list[Finding], place: Mapping[str, int]
) -> Iterator[Unit]:
    for k, layer in enumerate(topology.layers):
        for i, name in enumerate(topology.units[layer]):
            wrong = _mine(findings, _unit_places(topology, name, place))
            yield Unit(name, k, i, tuple(_unit_numbers(document, topology, name, k)), wrong)


def _unit_places(topology: Topology, name: str, updates: Mapping[str, int]) -> tuple[str, ...]:
    places = [f"inputs.{name}", f"targets.{name}", f"forward.{name}", f"loss.per_output.{name}"]
    places += [f"post_update_forward.{name}", f"post_update_loss.per_output.{name}"]
    places += [f"backward.{side}_error_signals.{name}" for side in ("hidden", "output")]
    bias = topology.bias_of.get(name)
    if bias:
        places += [f"parameters_after.{bias}", f"parameters_before.{bias}", f"updates[{updates.get(bias, -1)}]"]
    return tuple(places)


def _update_places(document: Mapping[str, Any]) -> dict[str, int]:
    said = document.get("updates")
    entries = said if isinstance(said, list) else []
    return {str(e.get("parameter_id")): i for i, e in enumerate(entries) if isinstance(e, Mapping)}


def _unit_numbers(document: Mapping[str, Any], topology: Topology, name: str, layer: int) -> Iterator[tuple[str, str]]:
    if layer == 0:
        yield "x", _number(document, "inputs", name)
        return
    bias = topology.bias_of.get(name)
    if bias:
        before, after = (_number(document, root, bias) for root in ("parameters_before", "parameters_after"))
        yield "bias", before if before == after else f"{before} → {after}"
    yield "net", _number(document, "forward", name, "net")
    yield "out", _number(document, "forward", name, "out")
    side = "output" if layer == len(topology.layers) - 1 else "hidden"
    if side == "output":
        yield "target", _number(document, "targets", name)
        yield "loss", _number(document, "loss", "per_output", name)
    yield "δ", _number(document, "backward", f"{side}_error_signals", name, "signal_value")


def _edges(
    document: Mapping[str, Any], topology: Topology, units: Mapping[str, Unit], findings: list[Finding]
) -> Iterator[Edge]:
    entries = document.get("updates")
    place = _update_places(document)
    for below, above in pairwise(topology.layers):
        for a in topology.units[below]:
            for b in topology.units[above]:
                name = topology.edges.get((a, b))
                if name is None:
                    continue
                i = place.get(name, -1)
                places = (f"updates[{i}]", f"updates[{name}]", f"parameters_before.{name}", f"parameters_after.{name}")
                entry = entries[i] if isinstance(entries, list) and i >= 0 else {}
                update = entry.get("update")
                yield Edge(
                    name,
                    units[a],
                    units[b],
                    _number(document, "parameters_before", name),
                    _number(document, "parameters_after", name),
                    tuple(_update_factors(entry)),
                    _shown(entry.get("gradient")),
                    float(update) if isinstance(update, int | float) else 0.0,
                    _mine(findings, places),
                )


def _update_factors(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    factors = _found(entry, "optimizer", "factors")
    for factor in factors if isinstance(factors, list) else []:
        if isinstance(factor, Mapping):
            yield str(factor.get("name")), _shown(factor.get("value"))


def _mine(findings: list[Finding], places: tuple[str, ...]) -> tuple[Finding, ...]:
    """The findings at or below some places."""
    return tuple(
        finding
        for finding in findings
        if any(finding.path == place or finding.path.startswith((f"{place}.", f"{place}[")) for place in places)
    )


def is_cause(wrong: tuple[Finding, ...]) -> bool:
    """Whether anything here is wrong of itself, and not because something else is."""
    return any(finding.cascade_of is None for finding in wrong)


def sentence(finding: Finding) -> str:
    """A finding in one line."""
    said, found = _exact(finding.said), _exact(finding.found)
    if not finding.is_equation:
        should = "" if finding.found is None else f"; should be {found}"
        return f"rule {finding.rule}: {finding.path} {finding.because}{should}"
    return f"rule {finding.rule}: {finding.path} says {said}, should be {found} ({finding.because})"


def _found(document: Any, *path: str) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _number(document: Mapping[str, Any], *path: str) -> str:
    return _shown(_found(document, *path))


def _shown(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.{SIZE}g}".replace("-", "−")
    return "–" if value is None else str(value)


def _exact(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else _shown(value)

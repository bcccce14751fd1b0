"""Labels say what the topology says: which unit, which weight, which factor, in which order."""

from __future__ import annotations

from collections.abc import Iterator

from backproof.receipt.authoring.step import sources_of, update_labels
from backproof.receipt.columns import Path
from backproof.receipt.topology import EDGE_OF_ROLE, Parameter
from backproof.rules.layout import Layout
from backproof.rules.r13_dual_form import duals
from backproof.rules.rule import Keys, Label, Mutation, Rule

BECAUSE = "the topology says so"


def labels(layout: Layout) -> Iterator[Label | Keys]:
    """Signals, contributions, terms and updates are labelled as they are wired."""
    yield from _output_signals(layout)
    yield from _hidden_signals(layout)
    for i, name in enumerate(layout.updates.ids):
        parameter = layout.topology.by_id.get(name)
        if parameter is not None:
            yield from _update(layout, i, parameter)


def _output_signals(layout: Layout) -> Iterator[Label | Keys]:
    shape = layout.shape
    names = ["target_minus_output", "activation_derivative"]
    if layout.softmax:
        names = ["target_minus_probability"]
    for unit in layout.outputs:
        root: Path = ("backward", "output_error_signals", unit)
        yield from _factor_names(layout, (*root, "factors"), names, unit)
    for unit, root in duals(layout):
        yield from _order(layout, (*root, "summation_order"), layout.outputs)
        said = tuple(shape.text(*root, "jacobian_terms", k, "target_unit") for k in range(_count(layout, root)))
        yield Keys((*root, "jacobian_terms"), said, layout.outputs, "one term for each output")
        for k, target in enumerate(said):
            place: Path = (*root, "jacobian_terms", k, "factors")
            yield Label((*place[:-1], "target_unit"), target, target, "it is one of the terms", unit)
            yield from _factor_names(layout, place, ["y_j", "delta_ju_minus_p_u"], unit)
            yield Label((*place, 0, "from"), shape.get(*place, 0, "from"), f"targets.{target}", BECAUSE, unit)


def _count(layout: Layout, root: Path) -> int:
    return len(layout.shape.many(*root, "jacobian_terms"))


def _factor_names(layout: Layout, path: Path, names: list[str], owner: str) -> Iterator[Label | Keys]:
    said = layout.shape.many(*path)
    found = tuple(layout.shape.text(*path, j, "name") for j in range(len(said)))
    yield Keys(path, found, tuple(names), "the factors of this product")
    for j, name in enumerate(found[: len(names)]):
        yield Label((*path, j, "name"), name, names[j], "the factors stand in this order", owner)


def _order(layout: Layout, path: Path, units: tuple[str, ...]) -> Iterator[Label]:
    said = layout.shape.get(*path)
    for k, expected in enumerate(units):
        found = said[k] if isinstance(said, list) and k < len(said) else None
        yield Label((*path, k), found, expected, "sums run in the order of the units")
    if isinstance(said, list) and len(said) > len(units):
        yield Label((*path, len(units)), said[len(units)], None, "there is no further unit")


def _hidden_signals(layout: Layout) -> Iterator[Label | Keys]:
    shape = layout.shape
    for unit in layout.hidden:
        root: Path = ("backward", "hidden_error_signals", unit)
        entries = shape.many(*root, "downstream_contributions")
        contributions: Path = (*root, "downstream_contributions")
        said = tuple(shape.text(*contributions, j, "from") for j in range(len(entries)))
        yield Keys(
            (*root, "downstream_contributions"), said, layout.above(unit), "one contribution from each unit above"
        )
        for j, above in enumerate(said):
            place: Path = (*root, "downstream_contributions", j)
            yield Label((*place, "from"), above, above, "it is one of the contributions", unit)
            expected = layout.topology.edges.get((unit, above))
            yield Label((*place, "via_weight"), shape.get(*place, "via_weight"), expected, BECAUSE, unit)
        yield from _order(layout, (*root, "summation_order"), layout.above(unit))


def _update(layout: Layout, i: int, parameter: Parameter) -> Iterator[Label | Keys]:
    shape = layout.shape
    expected = _labels_of(layout, parameter)
    for key in ("layer_edge", "parameter_role", "from_unit", "to_unit"):
        yield Label(("updates", i, key), shape.get("updates", i, key), expected.get(key), BECAUSE, parameter.id)
    root: Path = ("updates", i, "optimizer", "factors")
    if layout.has_batch:
        yield from _factor_names(layout, root, ["batch_reduced_gradient"], parameter.id)
        yield Label((*root, 0, "from"), shape.get(*root, 0, "from"), None, "a reduced gradient has no one source")
        return
    sources = sources_of(parameter, layout.topology)
    yield from _factor_names(layout, root, [name for name, _ in sources], parameter.id)
    for j, (_, source) in enumerate(sources):
        yield Label((*root, j, "from"), shape.get(*root, j, "from"), source, BECAUSE, parameter.id)


def _labels_of(layout: Layout, parameter: Parameter) -> dict[str, str]:
    known = parameter.role in EDGE_OF_ROLE or parameter.role == "weight"
    if not known and not (parameter.is_bias and parameter.applies_to):
        return {}
    expected = update_labels(parameter, layout.topology)
    if layout.shape.template.get("schema_version") == "0.1.0" and not parameter.is_bias:
        layers = {"i": "input", "h": "hidden", "o": "output"}
        ends = (parameter.from_unit, parameter.to_unit)
        expected["parameter_role"] = "_to_".join(f"{layers[end[0]]}_{end[1:]}" for end in ends)
    return expected


RULE = Rule(
    30,
    "wiring",
    "every label names the unit, weight or factor that the topology has there",
    "Numbers that are right under the wrong name are how a transposed weight matrix passes a check.",
    labels=labels,
    mutations=(
        Mutation("an update names another unit", "sgd", "updates.0.to_unit", 'set:"h2"'),
        Mutation(
            "a contribution names another weight",
            "sgd",
            "backward.hidden_error_signals.*.downstream_contributions.0.via_weight",
            'set:"w_h2_y1"',
        ),
        Mutation("a factor has another name", "sgd", "updates.0.optimizer.factors.0.name", 'set:"momentum"'),
        Mutation("a factor forgets its source", "sgd", "updates.0.optimizer.factors.1.from", "drop"),
        Mutation(
            "a contribution is there twice",
            "sgd",
            "backward.hidden_error_signals.*.downstream_contributions.0",
            "repeat",
        ),
    ),
)

"""Where everything stands in the columns of a shape: one array of column numbers for each quantity of the step."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise

import numpy as np

from backproof.engine.scalar import Wiring
from backproof.engine.scalar_domain import Positions
from backproof.receipt.authoring.checks import MOST_SAMPLES
from backproof.receipt.columns import Path, Shape, Slot
from backproof.receipt.topology import LOSSLESS, Parameter, Topology
from backproof.receipt.topology_reading import topology_of

STATEFUL = ("sgd_momentum", "adam", "adamw")


def positions(columns: Iterable[int]) -> Positions:
    """Column numbers as an array."""
    return np.array(list(columns), dtype=np.intp)


class Layout:
    """The quantities of a step in the columns of one shape. A column that is missing is -1."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._named: dict[tuple[Path, tuple[str, ...], tuple[str, ...]], Positions] = {}  # asked for once a block

    @cached_property
    def topology(self) -> Topology:
        """The network."""
        return topology_of(self.shape.template)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The input units."""
        return self.topology.units[self.topology.layers[0]]

    @property
    def hidden(self) -> tuple[str, ...]:
        """The hidden units, layer by layer."""
        return self.topology.hidden_units

    @property
    def outputs(self) -> tuple[str, ...]:
        """The output units."""
        return self.topology.units[self.topology.layers[-1]]

    @property
    def units(self) -> tuple[str, ...]:
        """The hidden units, then the output units."""
        return self.hidden + self.outputs

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters in their order."""
        return self.topology.parameter_order

    @property
    def is_lossless(self) -> bool:
        """Whether numbers are written with all their digits."""
        return self.shape.get("schema_version") == LOSSLESS

    @property
    def softmax(self) -> bool:
        """Whether the loss is cross entropy over a softmax."""
        return self.topology.loss == "cross_entropy_softmax"

    @property
    def updates_biases(self) -> bool:
        """Whether the policy says that biases learn."""
        return self.shape.text("bias_policy", "mode") == "sgd"

    @cached_property
    def wiring(self) -> Wiring | None:
        """The network as the engine takes it, if it is one."""
        if self.topology.problems or not self.parameters:
            return None
        return self.topology.wiring(updates_biases=self.updates_biases)

    @cached_property
    def expected_updates(self) -> tuple[Parameter, ...]:
        """The parameters that must have an update, in their order."""
        known = self.topology.by_id
        chosen = (known[name] for name in self.parameters if name in known)
        return tuple(p for p in chosen if self.updates_biases or not p.is_bias)

    @cached_property
    def imported(self) -> bool:
        """Whether the receipt is, or looks like, one that was imported from a framework."""
        shape = self.shape
        markers = shape.mapping("attestor", "import_provenance") or shape.mapping("source_framework")
        return shape.text("fixture_status", "authoring_state") == "external_imported" or bool(markers)

    @cached_property
    def samples(self) -> tuple[str, ...]:
        """The samples of the batch in their order; empty without a batch. More than a batch may have are not judged."""
        order = self.shape.many("batch", "sample_order")
        return tuple(name for name in order[:MOST_SAMPLES] if isinstance(name, str))

    @property
    def has_batch(self) -> bool:
        """Whether the step saw a batch."""
        return self.shape.get("batch") is not None

    @cached_property
    def updates(self) -> UpdateColumns:
        """The updates as columns."""
        return UpdateColumns(self)

    @cached_property
    def optimizer(self) -> str:
        """The optimizer: of the settings, else of the first update that names one."""
        name = self.shape.text("optimizer_config", "name")
        if name:
            return name
        names = [self.shape.text("updates", i, "optimizer", "name") for i in range(len(self.updates.ids))]
        return next((name for name in names if name), "sgd")

    def named(self, *path: str | int, names: Iterable[str], then: tuple[str, ...] = ()) -> Positions:
        """The columns of `path.<name>.then` for each name."""
        key = (path, names if isinstance(names, tuple) else tuple(names), then)
        if key not in self._named:
            self._named[key] = positions(self.shape.column(*path, name, *then) for name in key[1])
        return self._named[key]

    def one(self, *path: str | int) -> Positions:
        """The column of one number, as an array of one."""
        return positions([self.shape.column(*path)])

    def of_units(self, what: str, units: Iterable[str], *root: str | int) -> Positions:
        """The columns of `forward.<unit>.net` (or `out`) below a root."""
        return self.named(*root, "forward", names=units, then=(what,))

    def post_units(self, what: str, units: Iterable[str]) -> Positions:
        """The columns of the forward pass after the update, flat or under `units`."""
        nested = isinstance(self.shape.get("post_update_forward", "units"), dict)
        root: Path = ("post_update_forward", "units") if nested else ("post_update_forward",)
        return self.named(*root, names=units, then=(what,))

    def signal(self, side: str, key: str) -> Positions:
        """The columns of one number of each error signal of a side (`hidden` or `output`)."""
        return self.named("backward", f"{side}_error_signals", names=self.side(side), then=(key,))

    def side(self, side: str) -> tuple[str, ...]:
        """The units whose signals stand under `hidden_error_signals` or `output_error_signals`."""
        return self.hidden if side == "hidden" else self.outputs

    def signals_of(self, units: tuple[str, ...], key: str) -> Positions:
        """The columns of one number of the error signals of some units, wherever they stand."""
        side = "output" if units == self.outputs else "hidden"
        return self.named("backward", f"{side}_error_signals", names=units, then=(key,))

    @cached_property
    def hidden_layers(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
        """Each hidden layer's units, with the units of the layer above it."""
        layers = self.topology.layers
        return tuple((self.topology.units[a], self.topology.units[b]) for a, b in pairwise(layers[1:]))

    @property
    def computed_layers(self) -> tuple[tuple[str, ...], ...]:
        """The units of every layer but the first."""
        return tuple(self.topology.units[layer] for layer in self.topology.layers[1:])

    def above(self, unit: str) -> tuple[str, ...]:
        """The units of the layer above a hidden unit."""
        return self._above.get(unit, ())

    @cached_property
    def _above(self) -> dict[str, tuple[str, ...]]:
        return {unit: above for units, above in reversed(self.hidden_layers) for unit in units}

    def contribution(self, key: str, units: tuple[str, ...], above: tuple[str, ...]) -> Positions:
        """The columns of one number of each contribution: (hidden unit, unit above), matched by `from`."""
        rows = []
        for unit in units:
            root: Path = ("backward", "hidden_error_signals", unit, "downstream_contributions")
            place: dict[str, int] = {}
            for j, entry in enumerate(self.shape.many(*root)):
                if isinstance(entry, dict) and isinstance(entry.get("from"), str):
                    place.setdefault(entry["from"], j)
            rows.append([self.shape.column(*root, place[o], key) if o in place else -1 for o in above])
        return np.array(rows, dtype=np.intp).reshape(len(units), len(above))

    def setting(self, key: str) -> int:
        """The column of an optimizer's setting, or -1."""
        return self.shape.column("optimizer_config", key)

    @property
    def nesterov(self) -> bool:
        """Whether momentum looks ahead."""
        return self.shape.get("optimizer_config", "nesterov") is True


class UpdateColumns:
    """The entries of `updates`, in the order of the file."""

    def __init__(self, layout: Layout) -> None:
        self.shape = layout.shape
        self.entries = [entry if isinstance(entry, dict) else {} for entry in self.shape.many("updates")]
        ids = [entry.get("parameter_id") for entry in self.entries]
        self.ids = tuple(name if isinstance(name, str) else "" for name in ids)
        self.layout = layout

    def column(self, *path: str) -> Positions:
        """The columns of one number of each update."""
        return positions(self.shape.column("updates", i, *path) for i in range(len(self.ids)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The optimizer that each update names."""
        return tuple(self.shape.text("updates", i, "optimizer", "name") for i in range(len(self.ids)))

    def using(self, *names: str) -> Positions:
        """Which updates name one of some optimizers; an update that names none counts as SGD."""
        return positions(i for i, name in enumerate(self.names) if (name or "sgd") in names)

    def factors(self, i: int) -> list[Path]:
        """Where the factors of an update stand."""
        root: Path = ("updates", i, "optimizer", "factors")
        return [(*root, j) for j in range(len(self.shape.many(*root)))]

    def of_parameters(self, *path: str, names: Iterable[str]) -> Positions:
        """The columns of one number of the updates of some parameters (the first entry of each)."""
        place: dict[str, int] = {}
        for i, name in enumerate(self.ids):
            place.setdefault(name, i)
        return positions(self.shape.column("updates", place.get(name, -1), *path) for name in names)

    def parameter(self, root: str) -> Positions:
        """For each update, the column of its parameter in `parameters_before` or `parameters_after`."""
        return positions(self.shape.column(root, name) for name in self.ids)


def is_number(value: object) -> bool:
    """Whether a template has a number at a place."""
    return isinstance(value, Slot)

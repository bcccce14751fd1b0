"""What the engine derives from a sidecar's leaves, place by place, for every record of a shape at once.

A `Plan` is made once a shape: where the leaves stand, and for each derived number the place that should hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from backproof.engine.scalar import Optimizer, Step, run_batch, run_step
from backproof.engine.scalar_domain import FLOATS, Carrier, Domain, Positions
from backproof.errors import InputError
from backproof.receipt.authoring.checks import STATE_KEYS, TARGET_SUM_SLACK, check_input, check_optimizer
from backproof.receipt.authoring.step import check_batch
from backproof.receipt.columns import Columns, Path, Shape, Slot
from backproof.receipt.topology import Topology
from backproof.receipt.topology_reading import topology_of
from backproof.rules.ball import Reals

SETTINGS = ("weight_decay", "momentum", "dampening", "beta1", "beta2", "epsilon", "t")


@dataclass(frozen=True, eq=False)
class Plan:
    """One shape of sidecars: its network, its leaves, and the places of everything that follows from them."""

    shape: Shape
    topology: Topology
    bias_policy: Mapping[str, Any]

    @cached_property
    def wiring(self) -> Any:
        """The network as the engine takes it."""
        return self.topology.wiring(updates_biases=self.bias_policy["mode"] == "sgd")

    @cached_property
    def updated(self) -> tuple[str, ...]:
        """The parameters that the step updates, in their order."""
        return tuple(self.topology.parameter_order[i] for i in self.wiring.updated)

    @cached_property
    def samples(self) -> tuple[str, ...]:
        """The samples of a batch; none for a single one."""
        return tuple(self.shape.mapping("batch").get("sample_order", ()))

    @cached_property
    def name(self) -> str:
        """The optimizer."""
        return self.shape.text("optimizer", "name") or "sgd"

    @cached_property
    def entries(self) -> dict[str, int]:
        """Where each parameter's update stands; the last one, if there are several."""
        return {entry["parameter_id"]: i for i, entry in enumerate(self.shape.many("updates"))}

    def columns(self, *paths: Path) -> Positions:
        """The columns of some places; -1 where there is none."""
        return np.array([self.shape.column(*path) for path in paths], dtype=np.intp)

    def _named(self, *root: str, names: tuple[str, ...]) -> Positions:
        return self.columns(*((*root, name) for name in names))

    def of_outputs(self, root: str, *then: str) -> Positions:
        """The columns of one number of each output."""
        return self.columns(*((root, unit, *then) for unit in self.topology.units["output"]))

    def run(self, domain: Domain, take: Any) -> Step:
        """The step, from the leaves; `take` gives the carrier of some columns."""
        parameters = take(self._named("parameters_before", names=self.topology.parameter_order))
        optimizer = self._optimizer(take)
        state = {
            key: take(
                self.columns(
                    *(("updates", self.entries[name], "optimizer", "state_before", key) for name in self.updated)
                )
            )
            for key in STATE_KEYS[self.name]
        }
        with np.errstate(all="ignore"):
            if not self.samples:
                x = take(self._named("inputs", names=self.topology.units["input"]))
                t = take(self._named("targets", names=self.topology.units["output"]))
                return run_step(domain, self.wiring, parameters, x, t, optimizer, state)
            rows = [
                np.stack([self._named("per_sample", s, key, names=self.topology.units[units]) for s in self.samples])
                for key, units in (("inputs", "input"), ("targets", "output"))
            ]
            mean = self.shape.text("batch", "reduction") == "mean"
            return run_batch(domain, self.wiring, parameters, take(rows[0]), take(rows[1]), optimizer, state, mean=mean)

    def _optimizer(self, take: Any) -> Optimizer:
        held = self.shape.mapping("optimizer")
        settings = {key: take(self.columns(("optimizer", key)))[:, 0] for key in SETTINGS if key in held}
        if self.name == "adam":
            settings.pop("weight_decay", None)
        rate = take(self.columns(("learning_rate",)))[:, 0]
        nesterov = held.get("nesterov") is True
        return Optimizer(name=self.name, learning_rate=rate, nesterov=nesterov, **settings)

    @cached_property
    def derived(self) -> tuple[tuple[Path, ...], ...]:
        """For each group of derived numbers (see `values`), the places that should hold them."""
        return tuple(tuple(group) for group in self._derived())

    def _derived(self) -> Iterator[list[Path]]:
        hidden, output = self.topology.units["hidden"], self.topology.units["output"]
        yield _forward((), hidden, output)
        yield [*(("loss", "per_output", unit) for unit in output), ("loss", "total")]
        for sample in self.samples:
            root: Path = ("per_sample", sample)
            yield _forward(root, hidden, output)
            yield [(*root, "loss", "per_output", unit) for unit in output]
            yield [(*root, "loss", "total"), ("loss", "per_sample", sample)]
        yield [("backward", "output_error_signals", unit, "signal_value") for unit in output]
        keys = ("backpropagated_sum", "activation_derivative", "signal_value")
        yield [("backward", "hidden_error_signals", unit, key) for unit in hidden for key in keys]
        yield [self._contribution(h, o) for h in hidden for o in output]
        entries = [("updates", self.entries.get(name, name)) for name in self.updated]
        yield [(*entry, key) for entry in entries for key in ("gradient", "update", "weight_after")]
        for key in STATE_KEYS[self.name]:
            yield [(*entry, "optimizer", "state_after", key) for entry in entries]
        yield [("parameters_after", name) for name in self.topology.parameter_order]
        yield _forward(("post_update_forward",), hidden, output)
        yield [*(("post_update_loss", "per_output", unit) for unit in output), ("post_update_loss", "total")]

    def _contribution(self, hidden: str, output: str) -> Path:
        root = ("backward", "hidden_error_signals", hidden, "downstream_contributions")
        found = [i for i, entry in enumerate(self.shape.many(*root)) if entry.get("from") == output]
        return (*root, found[0] if len(found) == 1 else output, "value")

    def values(self, step: Step, join: Any) -> Iterator[Carrier]:
        """The derived numbers, group by group as in `derived`, one row a record; `join` puts arrays side by side."""
        rows = step.gradient.shape[0]
        reduced = step.reduced or step.forward
        yield _pass_values(step.forward.layers, rows, join)
        yield join([reduced.per_output, reduced.total[:, None]])
        for s in range(len(self.samples)):
            assert step.samples is not None
            each = [type(layer)(layer.net[:, s], layer.out[:, s]) for layer in step.samples.layers]
            yield _pass_values(tuple(each), rows, join)
            yield step.samples.per_output[:, s]
            yield join([step.samples.total[:, s, None], step.samples.total[:, s, None]])
        back = step.backward
        yield back.signals[-1]
        yield _side_by_side([back.sums[0], back.derivatives[0], back.signals[0]], rows, join)
        hidden, output = (len(self.topology.units[layer]) for layer in ("hidden", "output"))
        yield back.contributions[0].reshape((rows, hidden * output))
        after = step.parameters_after[:, self.wiring.updated]
        yield _side_by_side([step.gradient, step.update, after], rows, join)
        for key in STATE_KEYS[self.name]:
            yield step.state_after[key]
        yield step.parameters_after
        yield _pass_values(step.post.layers, rows, join)
        yield join([step.post.per_output, step.post.total[:, None]])

    @cached_property
    def copies(self) -> tuple[tuple[Path, Path], ...]:
        """Places that hold again what stands elsewhere: (copy, original)."""
        pairs: list[tuple[Path, Path]] = []
        for i, entry in enumerate(self.shape.many("updates")):
            pairs.append((("updates", i, "weight_before"), ("parameters_before", entry["parameter_id"])))
            pairs.append((("updates", i, "optimizer", "learning_rate"), ("learning_rate",)))
        for unit, signal in self.shape.mapping("backward", "hidden_error_signals").items():
            for j, flow in enumerate(signal["downstream_contributions"]):
                root = ("backward", "hidden_error_signals", unit, "downstream_contributions", j)
                signal_of = ("backward", "output_error_signals", flow["from"], "signal_value")
                pairs.append(((*root, "downstream_signal"), signal_of))
                pairs.append(((*root, "weight_value"), ("parameters_before", flow["via_weight"])))
        for unit, signal in self.shape.mapping("backward", "output_error_signals").items():
            if "dual_form" in signal:
                above = ("backward", "output_error_signals", unit)
                pairs.append(((*above, "dual_form", "summed_value"), (*above, "signal_value")))
        if self.samples:
            units = [(key, unit) for key in ("inputs", "targets") for unit in self.shape.mapping(key)]
            pairs += [(place, ("per_sample", self.samples[0], *place)) for place in units]
        if self.shape.get("optimizer") is not None:
            pairs.append((("optimizer", "learning_rate"), ("learning_rate",)))
        return tuple(pairs)

    @cached_property
    def products(self) -> tuple[tuple[Path, tuple[Path, ...]], ...]:
        """Places that hold the product of factors: (product, factors)."""
        found: list[tuple[Path, tuple[Path, ...]]] = []
        for unit, signal in self.shape.mapping("backward", "output_error_signals").items():
            root = ("backward", "output_error_signals", unit)
            found.append(((*root, "signal_value"), _factors(root, signal)))
            for j, term in enumerate((signal.get("dual_form") or {}).get("jacobian_terms", ())):
                at = (*root, "dual_form", "jacobian_terms", j)
                found.append(((*at, "term_value"), _factors(at, term)))
        for i, entry in enumerate(self.shape.many("updates")):
            found.append((("updates", i, "gradient"), _factors(("updates", i, "optimizer"), entry["optimizer"])))
        return tuple(found)

    @cached_property
    def given(self) -> frozenset[Path]:
        """The places of the leaves, and of what is judged by name: everything else must be derived."""
        network = self.topology
        places: list[Path] = [("learning_rate",), ("step_index",)]
        places += [("optimizer", key) for key in self.shape.mapping("optimizer")]
        roots: list[Path] = [(), *(("per_sample", sample) for sample in self.samples)]
        for root in roots:
            places += [(*root, "inputs", unit) for unit in network.units["input"]]
            places += [(*root, "targets", unit) for unit in network.units["output"]]
        places += [("parameters_before", name) for name in network.parameter_order]
        for i in self.entries.values():
            places += [("updates", i, "optimizer", "state_before", key) for key in STATE_KEYS[self.name]]
        places += [path for path, _ in self.copies]
        places += [factor for _, factors in self.products for factor in factors]
        places += [path for path, _ in self.products]
        return frozenset(places)


def plan_of(shape: Shape, document: Mapping[str, Any], *, trained: bool | None = None) -> Plan:
    """The plan of a shape, from its first record: what the engine cannot run is refused.

    Where the sidecar has no bias_policy, `trained` says whether its biases changed.
    """
    policy = document.get("bias_policy") or dict(TRAINED if trained else CONSTANT)
    given = {**document, "bias_policy": policy}
    topology = topology_of(given)
    batch = document.get("batch")
    if batch is not None:
        order = list(batch["sample_order"])
        check_batch(batch, order, document["per_sample"])
        first = document["per_sample"][order[0]]
        given |= {"inputs": first["inputs"], "targets": first["targets"]}
    check_input(given, topology)
    plan = Plan(shape, topology, policy)
    states = {
        entry["parameter_id"]: entry["optimizer"]["state_before"]
        for entry in document["updates"]
        if "state_before" in entry["optimizer"]
    }
    config = document.get("optimizer")
    if plan.name == "sgd" and states:
        raise InputError("updates: sgd keeps no state, but state_before was given")
    check_optimizer(config, document["learning_rate"], states, list(plan.updated))
    return plan


def biases_changed(columns: Columns, document: Mapping[str, Any]) -> list[bool]:
    """For each record, whether it trained biases of its own: one of them changed."""
    topology = document["topology"]
    if topology["bias_sharing"] != "per_neuron":
        return [False] * columns.size
    names = [p["id"] for p in topology["parameters"] if p["role"].endswith("_bias")]
    places = [
        [columns.shape.column(root, name) for name in names] for root in ("parameters_before", "parameters_after")
    ]
    before, after = (columns.numbers[:, np.array(place, dtype=np.intp)] for place in places)
    return list((before != after).any(axis=1).tolist())


def check_targets(plan: Plan, numbers: Reals, position: int) -> None:
    """Targets of a cross entropy are probabilities in every record."""
    if plan.topology.loss != "cross_entropy_softmax":
        return
    roots: list[Path] = [("per_sample", sample, "targets") for sample in plan.samples] or [("targets",)]
    for root in roots:
        total = numbers[:, plan.columns(*((*root, unit) for unit in plan.topology.units["output"]))].sum(axis=1)
        for row in np.flatnonzero(np.abs(total - 1.0) > TARGET_SUM_SLACK)[:1]:
            place = f"step {position + int(row)}: {'.'.join(map(str, root))}"
            raise InputError(f"{place} sum to {total[row]}, but a cross entropy needs probabilities that sum to 1")


# Their texts are part of the bytes of a receipt whose sidecar says nothing about biases.
CONSTANT = {
    "mode": "constant",
    "reason": "Default for v0.6 observer-mode receipts: sidecar omitted bias_policy; importer assumes Mazur convention "
    "(biases constant on step 1).",
    "updated_in_step": False,
    "reconciliation": "parameters_after[bias_id] === parameters_before[bias_id] for every bias parameter",
}
TRAINED = {
    "mode": "sgd",
    "reason": "G-015 observer routing: sidecar omitted bias_policy but carries UPDATING per-neuron biases (a real "
    "nn.Linear(bias=True) under any optimizer); routed to per_neuron + sgd so the engine updates biases and Rule 14 "
    "compares like-for-like. Rule 14 remains the authority on correctness.",
    "updated_in_step": True,
    "reconciliation": "for every per_neuron bias parameter b_u, parameters_after[b_u] === parameters_before[b_u] + "
    "learning_rate * signal_u (verified via the optimizer's single-factor gradient under Rules 4-7 / 21-24).",
}


def floats(plan: Plan, numbers: Reals) -> Step:
    """The step in plain float64, in the engine's own order."""
    return plan.run(FLOATS, lambda columns: numbers[:, columns])


def named(plan: Plan, path: Path) -> str:
    """A place as reports write it: updates by the name of their parameter."""
    text = ""
    for depth, key in enumerate(path):
        if isinstance(key, int):
            held = plan.shape.get(*path[:depth], key)
            text += f"[{held['parameter_id'] if path[0] == 'updates' and depth == 1 else key}]"
        elif path[0] == "updates" and depth == 1:
            text += f"[{key}]"
        else:
            text += f".{key}" if text else key
    return text


def _forward(root: Path, hidden: tuple[str, ...], output: tuple[str, ...]) -> list[Path]:
    root = root if root and root[0] == "post_update_forward" else (*root, "forward")
    return [(*root, unit, what) for unit in (*hidden, *output) for what in ("net", "out")]


def _pass_values(layers: Any, rows: int, join: Any) -> Carrier:
    return join([_side_by_side([layer.net, layer.out], rows, join) for layer in layers])


def _side_by_side(parts: list[Carrier], rows: int, join: Any) -> Carrier:
    """Several arrays (records, n) as one (records, n·parts), entry by entry."""
    stacked = join([part[:, :, None] for part in parts])
    return stacked.reshape((rows, stacked.shape[1] * len(parts)))


def _factors(root: Path, held: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple((*root, "factors", j, "value") for j, f in enumerate(held["factors"]) if isinstance(f["value"], Slot))

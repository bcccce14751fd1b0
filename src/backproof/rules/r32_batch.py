"""A batch's own numbers are those of its samples, reduced; what stands at the top is the first sample's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backproof.engine.scalar import Layer, Pass, backward, gradients
from backproof.engine.scalar_domain import Positions
from backproof.receipt.columns import Path
from backproof.rules.ball import BALLS
from backproof.rules.layout import Layout
from backproof.rules.losses import loss_equations
from backproof.rules.observed import observed_output
from backproof.rules.r18_batch_loss import reduced
from backproof.rules.rule import Equation, Ledger, Mutation, Rule, Wrong


def applies(layout: Layout) -> bool:
    """A batch, or samples without one."""
    return layout.has_batch or layout.shape.get("per_sample") is not None


def labels(layout: Layout) -> Iterator[Wrong]:
    """A batch has its samples, and samples their batch."""
    if not layout.has_batch:
        yield Wrong("per_sample", "there are samples, but no batch that orders and reduces them")
    if layout.shape.get("per_sample") is None:
        yield Wrong("batch", "there is a batch, but not what each of its samples computed")


def equations(ledger: Ledger) -> Iterator[Equation]:
    """Each sample's loss; the reductions of losses and gradients; the first sample at the top."""
    layout = ledger.layout
    for sample in layout.samples:
        yield from loss_equations(
            ledger,
            layout.named("per_sample", sample, "targets", names=layout.outputs),
            (
                layout.of_units("net", layout.outputs, "per_sample", sample),
                layout.of_units("out", layout.outputs, "per_sample", sample),
            ),
            layout.named("per_sample", sample, "loss", "per_output", names=layout.outputs),
            layout.one("per_sample", sample, "loss", "total"),
        )
        total = layout.one("per_sample", sample, "loss", "total")
        said = layout.one("loss", "per_sample", sample)
        yield Equation(said, ledger.ball(total), "the sample's own total", (total,), (sample,))
    if not layout.samples:
        return
    each = _each(layout, ("loss", "per_output"), layout.outputs)
    per_output = layout.named("loss", "per_output", names=layout.outputs)
    found = reduced(layout, ledger.ball(each), 1)
    yield Equation(per_output, found, "the samples, reduced", (each.T,), layout.outputs)
    yield from _first_sample(ledger)
    yield from _gradients(ledger)


def _each(layout: Layout, path: Path, names: tuple[str, ...], then: tuple[str, ...] = ()) -> Positions:
    """(samples, names): the columns of one number of each sample."""
    rows = [layout.named("per_sample", sample, *path, names=names, then=then) for sample in layout.samples]
    return np.array(rows, dtype=np.intp).reshape(len(rows), len(names))


def _first_sample(ledger: Ledger) -> Iterator[Equation]:
    layout = ledger.layout
    first: Path = ("per_sample", layout.samples[0])
    because = "the first sample stands at the top"
    for key, names in (("inputs", layout.inputs), ("targets", layout.outputs)):
        held = layout.named(*first, key, names=names)
        yield Equation(layout.named(key, names=names), ledger.ball(held), because, (held,), names)
    for what in ("net", "out"):
        held = layout.of_units(what, layout.units, *first)
        yield Equation(layout.of_units(what, layout.units), ledger.ball(held), because, (held,), layout.units)


def _gradients(ledger: Ledger) -> Iterator[Equation]:
    """Each gradient from the samples' recorded forward passes."""
    layout = ledger.layout
    wiring = layout.wiring
    if wiring is None:
        return
    inputs, targets = _each(layout, ("inputs",), layout.inputs), _each(layout, ("targets",), layout.outputs)
    nets, outs = (
        [_each(layout, ("forward",), units, (what,)) for units in layout.computed_layers] for what in ("net", "out")
    )
    held = layout.named("parameters_before", names=layout.parameters)
    if any((columns < 0).any() for columns in (inputs, targets, held, *nets, *outs)):
        return
    layers = tuple(Layer(ledger.ball(net), ledger.ball(out)) for net, out in zip(nets, outs, strict=True))
    last = Layer(layers[-1].net, observed_output(layout, layers[-1]))
    recorded = Pass((*layers[:-1], last), last.out, last.out)
    parameters = ledger.ball(held)[:, None, :]
    signals = backward(BALLS, wiring, parameters, recorded, ledger.ball(targets))
    each = gradients(BALLS, wiring, ledger.ball(inputs), recorded, signals)
    names = tuple(parameter.id for parameter in layout.expected_updates)
    said = layout.updates.of_parameters("gradient", names=names)
    yield Equation(said, reduced(layout, each, 1), "the samples' gradients, reduced", (), names)


RULE = Rule(
    32,
    "batch",
    "losses and gradients of a batch are the reductions of its samples'; the top level is the first sample",
    "A batch whose gradient does not follow from its samples was never computed from them.",
    applies=applies,
    labels=labels,
    equations=equations,
    mutations=(
        Mutation("a reduced gradient is nudged", "batch", "updates.0.gradient", "nudge"),
        Mutation("a sample's loss is nudged", "batch", "per_sample.s1.loss.total", "nudge"),
        Mutation("the top level is another sample", "batch", "inputs.x1", "nudge"),
        Mutation("the samples are gone", "batch", "per_sample", "drop"),
    ),
)

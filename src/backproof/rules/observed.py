"""What a framework's own format adds to what was observed: it had rounded what it subtracted or exponentiated."""

from __future__ import annotations

import numpy as np

from backproof.engine.scalar import Layer
from backproof.engine.scalar_domain import Positions
from backproof.rules.ball import BALLS, SLACK, Ball
from backproof.rules.layout import Layout, positions
from backproof.rules.rule import Ledger


def roundings(optimizer: str) -> float:
    """How often a framework rounds to the size of a parameter in moving it: the sum with the update.

    With AdamW, also the factor 1 − η·λ and the product with it.
    """
    return 3.0 if optimizer == "adamw" else 1.0


def observed_update(ledger: Ledger, which: Positions, found: Ball) -> Ball:
    """An update that an import has as the difference of two parameters: what the second was rounded by stays in it."""
    if not ledger.layout.imported:
        return found
    after = ledger.ball(ledger.layout.updates.column("weight_after")[which])
    return found.widened((roundings(ledger.layout.optimizer) / SLACK) * after)


def observed_sum(ledger: Ledger, found: Ball, *terms: Ball) -> Ball:
    """A parameter as the one before and an update that an import has as the difference of the two."""
    return found.widened(*terms) if ledger.layout.imported else found


def observed_signal(ledger: Ledger, found: Ball, units: tuple[str, ...]) -> Ball:
    """target − output of some units, which a framework rounds before it subtracts them."""
    layout = ledger.layout
    place = {unit: i for i, unit in enumerate(layout.outputs)}
    known = np.array([i for i, unit in enumerate(units) if unit in place], dtype=np.intp)
    if not layout.imported or not known.size:
        return found
    which = positions(place[units[i]] for i in known)
    net, out = (layout.of_units(what, layout.outputs) for what in ("net", "out"))
    sizes = [ledger.ball(layout.named("targets", names=layout.outputs)[which]), ledger.ball(out[which])]
    if layout.softmax:
        sizes.append((ledger.ball(out) * rounded_terms(Layer(ledger.ball(net), ledger.ball(out))))[:, which])
    return BALLS.put(found, known, found[:, known].widened(*sizes))


def observed_output(layout: Layout, layer: Layer) -> Ball:
    """The outputs from which a framework computed its signals; those of a softmax it may have as exp(ln p)."""
    if not (layout.imported and layout.softmax):
        return layer.out
    return layer.out.widened(layer.out * rounded_terms(layer))


def observed_loss(layout: Layout, found: Ball, target: Ball, layer: Layer) -> Ball:
    """Cross entropies that a framework computed from its net inputs, and not from the probabilities."""
    if not (layout.imported and layout.softmax):
        return found
    return BALLS.unless_zero(target, found.widened(target * rounded_terms(layer)))


def observed_totals(ledger: Ledger) -> Ball | None:
    """What a framework may have rounded in each sample's cross entropy, (records, samples), before it reduced them."""
    layout = ledger.layout
    if not (layout.imported and layout.softmax and layout.outputs):
        return None
    sizes = []
    for sample in layout.samples:
        net, out = (ledger.ball(layout.of_units(what, layout.outputs, "per_sample", sample)) for what in ("net", "out"))
        target = ledger.ball(layout.named("per_sample", sample, "targets", names=layout.outputs))
        sizes.append(BALLS.total(target * rounded_terms(Layer(net, out)), axis=-1)[:, None])
    return BALLS.join(sizes)


def rounded_terms(layer: Layer) -> Ball:
    """How many units of roundoff ln p may be off: a sum of n terms, and a difference of the size of ln p.

    The exponential makes it the relative error of p.
    """
    return float(layer.out.shape[-1]) - BALLS.log_softmax(layer.net, layer.out)

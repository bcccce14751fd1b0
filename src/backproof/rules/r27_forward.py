"""Net inputs and outputs follow from what is below them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from backproof.engine.scalar import activate
from backproof.engine.scalar_domain import Positions
from backproof.receipt.columns import Path
from backproof.rules.ball import BALLS
from backproof.rules.layout import Layout
from backproof.rules.rule import Equation, Ledger, Mutation, Rule

Places = Callable[[str, tuple[str, ...]], Positions]


def forward_equations(ledger: Ledger, inputs: Positions, parameters: str | None, places: Places) -> Iterator[Equation]:
    """net = Σ x·w + b and out = activation(net), layer by layer, each from the recorded values below it.

    Without parameters, the outputs alone.
    """
    layout, topology = ledger.layout, ledger.layout.topology
    held = layout.named(parameters or "parameters_before", names=layout.parameters)
    below = inputs
    for layer, (units, activation) in enumerate(zip(layout.computed_layers, topology.activations, strict=True), 1):
        edges, biases = topology.weight_positions(layer), topology.bias_positions(layer)
        if not edges.size or (edges < 0).any() or (biases < 0).any():
            return
        weights, bias = held[edges], held[biases]
        net, out = places("net", units), places("out", units)
        if parameters is not None:
            x, w = ledger.ball(below), ledger.ball(weights)
            found = BALLS.total(x[:, :, None] * w, axis=1) + ledger.ball(bias)
            yield Equation(net, found, "Σ x · w + b", (below[None, :], weights.T, bias), units)
        given = net[None, :] if activation == "softmax" else net
        found = activate(BALLS, activation, ledger.ball(net))
        yield Equation(out, found, f"{activation}(net)", (given,), units)
        below = out


def _at(layout: Layout, root: Path, what: str, units: tuple[str, ...]) -> Positions:
    return layout.of_units(what, units, *root)


def passes(layout: Layout) -> Iterator[Path]:
    """The roots of the forward passes before the update."""
    yield ()
    for sample in layout.samples:
        yield ("per_sample", sample)


def equations(ledger: Ledger) -> Iterator[Equation]:
    """The forward pass of the step, and of every sample of a batch."""
    layout = ledger.layout
    for root in passes(layout):
        yield from forward_equations(
            ledger,
            layout.named(*root, "inputs", names=layout.inputs),
            "parameters_before",
            partial(_at, layout, root),
        )


RULE = Rule(
    27,
    "forward",
    "net = Σ x·w + b; out = activation(net)",
    "A loss can agree with outputs that the network never produced.",
    equations=equations,
    mutations=(
        Mutation("a net input is nudged", "sgd", "forward.h1.net", "nudge"),
        Mutation("an output is nudged", "relu", "forward.y1.out", "nudge"),
        Mutation("a sample's net input is nudged", "batch", "per_sample.s1.forward.h1.net", "nudge"),
    ),
)
